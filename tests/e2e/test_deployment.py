"""A deployment swaps parts by editing ``treadle.yaml`` alone: the workflow file stays byte for byte the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from e2e.command import treadle
from wire.openai_server import OpenAIServer

WORKFLOW = """\
name: unchanged
steps:
  - {id: ask, type: llm_call, prompt: "hi", output: reply}
  - {id: trim, type: trim, trim_policy: lab_oldest, output: kept}
  - {id: look, type: tool, tool_name: where, output: sandbox}
"""

# Its step asks the session for the policy as a conversation's memory does.
LAB = """
import trio
from pydantic import BaseModel, ConfigDict
from treadle import Offer, Reference, Step, StepOutcome, Tool, hookimpl
from treadle.contracts.sandbox import Sandbox

class Policy:
    def __init__(self, keeps):
        self.keeps = keeps

class Trim(Step):
    trim_policy: str

    def references(self):
        return [Reference(role="trim_policy", name=self.trim_policy, field="trim_policy")]

    async def run(self, ctx):
        policy = ctx.role("trim_policy", self.trim_policy)
        return StepOutcome(value=policy.keeps)

class Where(Tool):
    name, description, effect = "where", "which sandbox there is", "pure"

    async def call(self, arguments, context):
        await trio.lowlevel.checkpoint()
        return f"{type(context.sandbox).__name__} {getattr(context.sandbox.block, 'depth', '')}".strip()

class Block(BaseModel):
    model_config = ConfigDict(extra="forbid")
    depth: int = 1

class Cellar(Sandbox):
    block_model = Block

    @classmethod
    def combine(cls, parent, child):
        return Block(depth=max(parent.depth, child.depth))

Cellar.__abstractmethods__ = frozenset()

@hookimpl
def treadle_step_types():
    return {"trim": Offer(Trim, "names a trim policy")}

@hookimpl
def treadle_tools():
    return {"where": Offer(Where, "which sandbox there is")}

@hookimpl
def treadle_trim_policies():
    return {
        "lab_oldest": Offer(lambda: Policy("the newest"), "the usual one"),
        "acme_keep_last": Offer(lambda: Policy("the last"), "another one"),
    }

@hookimpl
def treadle_sandboxes():
    return {"cellar": Offer(Cellar, "another sandbox")}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the workflow, and with the plugin ``lab`` installed in ``site``."""
    site = tmp_path / "site"
    info = site / "lab-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: lab\nVersion: 1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text("[treadle.plugins]\nlab = lab_plugin\n", encoding="utf-8")
    (site / "lab_plugin.py").write_text(LAB, encoding="utf-8")
    (tmp_path / "flow.yaml").write_text(WORKFLOW, encoding="utf-8")
    return tmp_path


async def run(folder: Path, settings: str, **environment: str) -> dict[str, Any]:
    """The final state under these settings. Only ``treadle.yaml`` is written."""
    before = (folder / "flow.yaml").read_bytes()
    (folder / "treadle.yaml").write_text(settings, encoding="utf-8")
    places = {"PYTHONPATH": str(folder / "site"), "XDG_CACHE_HOME": str(folder / "cache")}
    done = await treadle("run", "flow.yaml", "--json", cwd=folder, **places, **environment)
    assert done.returncode == 0, done.stderr + done.stdout
    assert (folder / "flow.yaml").read_bytes() == before
    state: dict[str, Any] = json.loads(done.stdout)["final_state"]
    return state


async def test_a_trim_policy_a_base_url_and_a_sandbox_are_swapped_in_settings_alone(folder: Path) -> None:
    async with OpenAIServer.open() as first, OpenAIServer.open() as second:
        usual = await run(
            folder,
            f"""\
providers:
  openai: {{base_url: "{first.api}", api_key: env:OUR_KEY}}
roles: {{sandbox: policy}}
""",
            OUR_KEY="sk-first",
        )
        assert (usual["kept"], usual["sandbox"], usual["reply"]) == ("the newest", "PolicySandbox", "hello")
        assert [each.headers["authorization"] for each in first.requests] == ["Bearer sk-first"]
        assert second.requests == []

        swapped = await run(
            folder,
            f"""\
provider: ours
model: our-model
providers:
  ours: {{kind: openai, base_url: "{second.api}", api_key: env:OTHER_KEY}}
aliases:
  trim_policies: {{lab_oldest: acme_keep_last}}
roles: {{sandbox: cellar}}
sandbox: {{depth: 3}}
""",
            OTHER_KEY="sk-second",
        )
        assert (swapped["kept"], swapped["sandbox"], swapped["reply"]) == ("the last", "Cellar 3", "hello")
        (request,) = second.requests
        assert request.headers["authorization"] == "Bearer sk-second"
        assert request.json["model"] == "our-model"
        assert len(first.requests) == 1


async def test_a_key_comes_from_a_file(folder: Path) -> None:
    (folder / "key").write_text("sk-from-file\n", encoding="utf-8")
    async with OpenAIServer.open() as server:
        await run(
            folder,
            f'roles: {{sandbox: policy}}\nproviders: {{openai: {{base_url: "{server.api}", api_key: "file:key"}}}}\n',
        )
        assert [each.headers["authorization"] for each in server.requests] == ["Bearer sk-from-file"]


async def test_a_literal_key_is_refused_before_anything_is_sent_and_is_not_repeated(folder: Path) -> None:
    async with OpenAIServer.open() as server:
        (folder / "treadle.yaml").write_text(
            "roles: {sandbox: policy}\n"
            f"providers:\n  openai:\n    base_url: {server.api}\n    api_key: sk-pasted-1\n",
            encoding="utf-8",
        )
        places = {"PYTHONPATH": str(folder / "site"), "XDG_CACHE_HOME": str(folder / "cache")}
        done = await treadle("run", "flow.yaml", "--json", cwd=folder, **places)
        assert done.returncode == 2
        assert done.stderr.startswith(
            "treadle.yaml:5:14: providers.openai.api_key: a secret is given by reference, as env:NAME or file:PATH, "
            "never as itself; more people and programs read this file than may know the secret\n"
        )
        assert "sk-pasted" not in done.stdout + done.stderr
        assert server.requests == []


async def test_a_mistake_in_settings_is_told_once_however_many_bodies_ask_a_model(folder: Path) -> None:
    (folder / "treadle.yaml").write_text("provider: openai\nproviders: {openai: {timeout: soon}}\n", encoding="utf-8")
    (folder / "bodies.yaml").write_text(
        "name: b\nstate: {l: [1]}\nsteps:\n"
        "  - {id: a, type: llm_call, prompt: hi}\n"
        "  - {id: b, type: foreach, items: state.l, step: {type: llm_call, prompt: hi}}\n",
        encoding="utf-8",
    )
    done = await treadle("run", "bodies.yaml", cwd=folder)
    assert done.returncode == 2
    assert done.stderr == (
        "treadle.yaml:2:31: providers.openai.timeout: must be a number, not what is there\nerror: 1 error\n"
    )
