"""The step and the built-in tools are held to their contracts."""

from __future__ import annotations

from treadle import HttpReply
from treadle.testing import FakeSandbox, check_plugin, check_step, check_tool
from treadle_tools import plugin
from treadle_tools.files import FileReadTool, FileWriteTool
from treadle_tools.http_request import HttpRequestTool
from treadle_tools.shell_command import ShellCommandTool
from treadle_tools.step import ToolStep

REPLY = HttpReply(status_code=200, headers={"content-type": "text/plain"}, body=b"page", url="http://x/")


def world() -> FakeSandbox:
    return FakeSandbox(files={"a.txt": "Grüße"}, commands={"date": "today\n"}, urls={"http://x/": REPLY})


async def test_the_plugin() -> None:
    tools = ["file_read", "file_write", "http_request", "shell_command"]
    await check_plugin("treadle_tools.plugin", offers={"step_type": ["tool"], "tool": tools})


async def test_file_read() -> None:
    await check_tool(FileReadTool, {"path": "a.txt"}, sandbox=world, failing=[{"path": "b.txt"}, {"pfad": "a.txt"}])


async def test_file_write() -> None:
    await check_tool(FileWriteTool, {"path": "b.txt", "content": "x"}, sandbox=world, failing=[{"path": "b.txt"}])


async def test_http_request() -> None:
    await check_tool(HttpRequestTool, {"url": "http://x/"}, sandbox=world, failing=[{}, {"url": "http://x/", "n": 1}])


async def test_shell_command() -> None:
    await check_tool(ShellCommandTool, {"command": "date"}, sandbox=world, failing=[{}])


async def test_the_step() -> None:
    await check_step(
        ToolStep,
        {"tool_name": "file_read", "tool_args": {"path": "{state.name}.txt"}, "output": "read"},
        state={"name": "a"},
        plugins={"tools": plugin},
        sandbox=world,
        failing=[{"tool_name": "file_read", "tool_args": {"path": "missing"}}],
    )
