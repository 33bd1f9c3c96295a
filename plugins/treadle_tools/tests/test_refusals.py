"""What the sandbox refuses, as callers of the tools see it."""

from pathlib import Path
from typing import Any

import pytest

from treadle import SandboxError, Tool, ToolContext
from treadle_sandbox.block import PolicyBlock
from treadle_sandbox.policy import PolicySandbox
from treadle_tools import plugin


@pytest.mark.parametrize(
    ("name", "arguments", "reason"),
    [
        ("shell_command", {"command": "rm x"}, "the sandbox does not allow the program 'rm'"),
        ("shell_command", {"command": "ls", "cwd": "/"}, "the sandbox does not allow commands in '/'"),
        ("file_read", {"path": "/etc/passwd"}, "the sandbox does not allow '/etc/passwd' to be read"),
        ("file_write", {"path": "../x", "content": ""}, "the sandbox does not allow '../x' to be written"),
        ("file_write", {"path": "x", "content": "12345"}, "more than max_write_bytes (4)"),
        ("http_request", {"url": "http://127.0.0.1/"}, "the sandbox refuses internal addresses"),
        ("http_request", {"url": "ftp://x.test/"}, "the sandbox refuses what is not a plain http or https URL"),
    ],
)
async def test_a_refusal_names_the_tool_and_is_not_tried_again(
    base: Path, name: str, arguments: dict[str, Any], reason: str
) -> None:
    block = PolicyBlock(enabled=True, allowed_commands=("ls",), allowed_paths=(".",), max_write_bytes=4)
    context = ToolContext(run_id="r", step_id="s", call_id="c", sandbox=PolicySandbox(block, base))
    tool: Tool = plugin.treadle_tools()[name].load()()
    with pytest.raises(SandboxError) as caught:
        await tool.call(arguments, context)
    assert str(caught.value).startswith(f"Sandbox violation ({name}): ")
    assert reason in str(caught.value)
    assert caught.value.transient is False


@pytest.mark.parametrize(
    ("name", "arguments", "rights"),
    [
        ("shell_command", {"command": "ls {state.x}"}, [("command", "ls {state.x}")]),
        ("shell_command", {"command": "ls", "cwd": "sub"}, [("command", "ls"), ("read", "sub")]),
        ("shell_command", None, [("command", "*"), ("read", "*")]),
        ("file_read", {"path": "a/{state.x}"}, [("read", "a/{state.x}")]),
        ("file_write", {}, [("write", "*")]),
        ("http_request", {"url": "https://me:pa55@api.test:8443/a?b#c"}, [("host", "api.test")]),
        ("http_request", {"url": "https://[::1]:80/"}, [("host", "[::1]")]),
        ("http_request", {"url": "{state.url}"}, [("host", "{state.url}")]),
        ("http_request", {"url": "https://{state.host}/x"}, [("host", "{state.host}")]),
        ("http_request", {"url": 5}, [("host", "*")]),
    ],
)
def test_a_tool_says_what_a_call_would_reach(name: str, arguments: Any, rights: list[tuple[str, str]]) -> None:
    tool: Tool = plugin.treadle_tools()[name].load()()
    assert [(right.kind, right.name) for right in tool.rights(arguments)] == rights
