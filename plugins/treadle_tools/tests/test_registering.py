"""The built-in tools in a registry of one's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

import treadle
import treadle_tools.plugin
from treadle import Host, SandboxError, ToolContext, ToolRegistry, tool
from treadle.testing import FakeSandbox
from treadle_tools.registering import register_builtins

CONTEXT = ToolContext(run_id="r", step_id="s", call_id="c")
FOUR = ["file_read", "file_write", "http_request", "shell_command"]


def builtins(**options: Any) -> ToolRegistry:
    registry = ToolRegistry()
    register_builtins(registry, **options)
    return registry


async def test_they_are_held_to_the_sandbox_that_is_passed() -> None:
    sandbox = FakeSandbox(files={"a.txt": "hello"}, refuses=["b.txt"])
    registry = builtins(sandbox=sandbox)
    assert registry.names() == FOUR
    assert await registry.get("file_read").call({"path": "a.txt"}, CONTEXT) == "hello"
    with pytest.raises(SandboxError):
        await registry.get("file_read").call({"path": "b.txt"}, CONTEXT)


async def test_without_a_sandbox_they_have_no_limits_whatever_the_run_says(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hello", encoding="utf-8")
    refusing = ToolContext(run_id="r", step_id="s", call_id="c", sandbox=FakeSandbox(refuses="*"))
    registry = builtins()
    assert await registry.get("file_read").call({"path": str(tmp_path / "a.txt")}, refusing) == "hello"


def test_they_are_told_of_as_the_built_in_ones_are() -> None:
    for made in builtins():
        own = treadle_tools.plugin.treadle_tools()[made.name].load()()
        assert (made.description, made.parameters, made.timeout) == (own.description, own.parameters, own.timeout)
        assert made.effect_of({"method": "POST"}) == own.effect_of({"method": "POST"})


def test_a_misspelt_key_of_the_block_is_an_error() -> None:
    with pytest.raises(ValidationError, match="allowed_command"):
        builtins(sandbox={"allowed_command": ["ls"]})


def test_a_name_that_is_taken_is_replaced_with_a_warning() -> None:
    registry = builtins()
    with pytest.warns(UserWarning) as caught:  # noqa: PT030  # each of them is looked at
        register_builtins(registry)
    assert len(caught) == 4
    assert all("is registered already and is replaced" in str(each.message) for each in caught)
    register_builtins(registry, replace=True)
    assert registry.names() == FOUR


async def test_a_session_runs_them_and_tools_of_ones_own_beside_them() -> None:
    @tool
    def word_count(text: str) -> dict[str, int]:
        """Count the words in a text."""
        return {"words": len(text.split())}

    registry = builtins(sandbox=FakeSandbox(files={"a.txt": "one two"}))
    registry.register(word_count)
    flow = {
        "name": "words",
        "steps": [
            {"id": "read", "type": "tool", "tool_name": "file_read", "tool_args": {"path": "a.txt"}, "output": "text"},
            {
                "id": "count",
                "type": "tool",
                "tool_name": "word_count",
                "tool_args": {"text": "{state.text}"},
                "depends_on": ["read"],
                "output": "counted",
            },
        ],
    }
    host = Host.of({"tools": treadle_tools.plugin})
    async with treadle.open(host=host, tools=registry) as session:
        result = await session.run(treadle.build_workflow(flow, host=session.host))
    assert result.status == "success", result.error
    assert result.final_state["counted"] == {"words": 2}


async def test_a_tool_of_ones_own_checks_what_it_does_with_the_sandbox_of_its_context() -> None:
    @tool
    async def peek(path: str, context: ToolContext) -> str:
        """Look at a file."""
        sandbox = context.require_sandbox("peek")
        sandbox.check_path(path, write=False)
        sandbox.check_command(f"cat {path}", cwd=".")
        await sandbox.check_url(f"https://{path}", purpose="tool")
        return "fine"

    assert list(peek.parameters["properties"]) == ["path"]
    held = ToolContext(run_id="r", step_id="s", call_id="c", sandbox=FakeSandbox(refuses=["a", "cat b", "https://c"]))
    for name, kind in (("a", "path"), ("b", "command"), ("c", "URL")):
        with pytest.raises(SandboxError, match=f"sandbox refuses the {kind}"):
            await peek.call({"path": name}, held)
    assert await peek.call({"path": "d"}, held) == "fine"
    with pytest.raises(SandboxError, match="pip install treadle-sandbox"):
        await peek.call({"path": "d"}, CONTEXT)
