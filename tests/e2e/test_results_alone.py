"""Stdout has results and nothing else, whatever users' tools print: of commands that packages bring, too."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from e2e.command import treadle

TOOLS = """\
import treadle

print("imported")


@treadle.tool
def loud(text: str = "") -> str:
    "Say something."
    print("at work")
    return text
"""
AGENT = "name: helper\ndescription: Helps.\nsystem_prompt: Be kind.\nmodel: m\ntools: [loud]\n"
FLOW = "name: flow\nsteps: [{id: say, type: tool, tool_name: loud, tool_args: {text: hi}, output: said}]\n"
SETTINGS = """\
provider: mock
tools: [tools.py]
providers:
  mock:
    responses:
      helper:
        - {content: null, tool_calls: [{id: c1, name: loud, arguments: {text: hi}}]}
        - done
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in {"tools.py": TOOLS, "agent.yaml": AGENT, "flow.yaml": FLOW, "treadle.yaml": SETTINGS}.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


async def test_an_agents_reply_is_apart_from_what_its_tools_print(folder: Path) -> None:
    for as_json in (False, True):
        done = await treadle("agent", "run", "agent.yaml", "-m", "hi", *(["--json"] if as_json else []), cwd=folder)
        assert done.returncode == 0, done.stderr
        assert "imported\n" in done.stderr
        assert (json.loads(done.stdout)["reply"] if as_json else done.stdout) != ""
        assert not {"imported", "at work"} & set(done.stdout.splitlines())


@pytest.mark.parametrize(
    "command",
    [("agent", "inspect", "agent.yaml", "--json"), ("run", "flow.yaml", "--json"), ("validate", "flow.yaml", "--json")],
)
async def test_json_is_alone_on_stdout(folder: Path, command: tuple[str, ...]) -> None:
    done = await treadle(*command, cwd=folder)
    assert json.loads(done.stdout), done.stderr
    assert "imported\n" in done.stderr


async def test_a_drawing_is_alone_on_stdout(folder: Path) -> None:
    done = await treadle("visualize", "flow.yaml", "--format", "dot", cwd=folder)
    assert (done.returncode, done.stdout.startswith("digraph ")) == (0, True), done.stdout
