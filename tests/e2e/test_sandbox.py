"""The sandbox in whole runs: refusals as steps and models see them, child runs, treadle.yaml, providers' keys."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import treadle
from treadle import AssistantMessage, Host, StepOutcome, StopReason, TextPart, ToolCallPart
from treadle.testing import reply, scripted

from e2e.command import treadle as command


class Below(treadle.Step):
    """Runs a tool in a child workflow with a sandbox block of its own."""

    block: dict[str, Any]
    tool_name: str
    tool_args: dict[str, Any]

    async def run(self, ctx: treadle.StepContext) -> StepOutcome:
        step = {"id": "t", "type": "tool", "tool_name": self.tool_name, "tool_args": self.tool_args, "output": "out"}
        child = {"name": "child", "config": {"sandbox": self.block}, "steps": [step]}
        result = await ctx.run_child(child)
        return StepOutcome(value=result.final_state.get("out", result.step_results["t"].error))


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("data/deep", "other"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "a").write_text(name, encoding="utf-8")


async def _below(parent: dict[str, Any], child: dict[str, Any], tool: str, arguments: dict[str, Any]) -> Any:
    step = {"id": "s", "type": "below", "block": child, "tool_name": tool, "tool_args": arguments, "output": "out"}
    flow = {"name": "x", "config": {"sandbox": parent}, "steps": [step]}
    async with treadle.open(host=Host.discover(), steps={"below": Below}) as session:
        workflow = treadle.build_workflow(flow, host=session.host)
        return (await session.run(workflow)).final_state["out"]


ON = {"enabled": True}


async def test_a_child_under_a_disabled_block_has_its_own() -> None:
    assert await _below({}, {}, "file_read", {"path": "other/a"}) == "other"
    assert "Sandbox violation" in await _below({}, {**ON, "allowed_paths": ["data"]}, "file_read", {"path": "other/a"})


async def test_a_disabled_child_runs_under_its_parent_s() -> None:
    assert "Sandbox violation" in await _below({**ON, "allowed_paths": ["data"]}, {}, "file_read", {"path": "other/a"})
    assert await _below({**ON, "allowed_paths": ["data"]}, {}, "file_read", {"path": "data/deep/a"}) == "data/deep"


async def test_two_enabled_blocks_allow_what_both_do() -> None:
    parent, child = {**ON, "allowed_paths": ["data"]}, {**ON, "readable_paths": ["data/deep", "other"]}
    assert await _below(parent, child, "file_read", {"path": "data/deep/a"}) == "data/deep"
    for path in ("other/a", "data/b"):
        assert "Sandbox violation" in await _below(parent, child, "file_read", {"path": path})
    arguments = {"path": "data/deep/new", "content": "x"}
    assert "Sandbox violation" in await _below(parent, child, "file_write", arguments)


async def test_a_list_of_hosts_in_a_child_opens_no_internal_address() -> None:
    for parent, reason in (
        (ON, "refuses internal addresses"),
        ({**ON, "allowed_domains": ["a.test"]}, "allows no network"),
        ({}, "could not connect"),
    ):
        child = {**ON, "allowed_domains": ["127.0.0.1"]}
        assert reason in await _below(parent, child, "http_request", {"url": "http://127.0.0.1:9/"})


async def test_a_refused_call_of_a_model_goes_back_as_its_result_and_the_step_goes_on() -> None:
    call = ToolCallPart(call_id="1", tool_name="file_read", arguments={"path": "/etc/passwd"})
    asks = reply("", message=AssistantMessage(parts=(TextPart(text="look"), call)), stop_reason=StopReason.TOOL_USE)
    provider = scripted(asks, reply("I may not."))
    step = {"id": "a", "type": "llm_call", "prompt": "x", "tools": [{"name": "file_read"}], "output": "out"}
    flow = {"name": "x", "config": {"provider": "fake", "sandbox": ON}, "steps": [step]}
    async with treadle.open(host=Host.discover(), providers={"fake": provider}) as session:
        result = await session.run(treadle.build_workflow(flow, host=session.host))
    assert (result.status, result.final_state["out"]) == ("success", "I may not.")
    answer = provider.requests[1].messages[-1]
    assert "Sandbox violation (file_read): the sandbox does not allow '/etc/passwd' to be read" in str(answer)


FLOW = """\
name: env
steps:
  - {id: e, type: tool, tool_name: shell_command, tool_args: {command: "env"}, output: out}
"""


async def test_commands_see_no_key_of_a_provider_and_everything_else(tmp_path: Path) -> None:
    (tmp_path / "flow.yaml").write_text(FLOW, encoding="utf-8")
    (tmp_path / "treadle.yaml").write_text(
        "providers:\n  mine: {kind: generic_openai, base_url: 'http://127.0.0.1:9/v1', api_key: env:MINE}\n",
        encoding="utf-8",
    )
    keys = {"MINE": "s3cret1", "OPENAI_API_KEY": "s3cret2", "ANTHROPIC_API_KEY": "s3cret3"}
    done = await command("run", "flow.yaml", "--json", cwd=tmp_path, KEPT="yes", **keys)
    shown = json.loads(done.stdout)["final_state"]["out"]["stdout"]
    assert "KEPT=yes" in shown
    assert "s3cret" not in shown


async def test_the_deployment_s_block_is_the_parent_and_a_workflow_can_only_narrow_it(tmp_path: Path) -> None:
    read = FLOW.replace("shell_command", "file_read").replace('command: "env"', "path: other/a")
    wide = "config: {sandbox: {enabled: true, allowed_paths: [., /]}}\n"
    (tmp_path / "flow.yaml").write_text(read, encoding="utf-8")
    (tmp_path / "wide.yaml").write_text(read.replace("steps:", f"{wide}steps:"), encoding="utf-8")
    (tmp_path / "treadle.yaml").write_text("sandbox: {enabled: true, allowed_paths: [data]}\n", encoding="utf-8")
    for file in ("flow.yaml", "wide.yaml"):
        done = await command("run", file, "--json", cwd=tmp_path)
        step = json.loads(done.stdout)["step_results"]["e"]
        assert done.returncode == 1
        assert step["error"].startswith(
            "Sandbox violation (file_read): the sandbox does not allow 'other/a' to be read"
        )
        assert step["attempts"] == 1


async def test_a_misspelt_key_stops_the_load_at_its_place(tmp_path: Path) -> None:
    text = FLOW.replace("steps:", "config:\n  sandbox:\n    enabled: true\n    allowed_command: [ls]\nsteps:")
    (tmp_path / "flow.yaml").write_text(text, encoding="utf-8")
    for arguments in (("validate",), ("run",)):
        done = await command(*arguments, "flow.yaml", cwd=tmp_path)
        assert done.returncode == 2
        unknown = "config.sandbox.allowed_command: unknown field; did you mean 'allowed_commands'?"
        assert f"flow.yaml:5:5: {unknown}" in done.stderr
