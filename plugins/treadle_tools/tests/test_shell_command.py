"""The tool ``shell_command``."""

from pathlib import Path
from typing import Any

from treadle import ToolContext
from treadle_tools.shell_command import ShellCommandTool


async def test_the_defaults_reach_the_sandbox(recorded: ToolContext, recording: Any) -> None:
    await ShellCommandTool().call({"command": "ls"}, recorded)
    await ShellCommandTool().call({"command": "ls", "timeout": None, "cwd": "sub"}, recorded)
    assert recording.commands == [("ls", {"cwd": ".", "timeout": 30.0}), ("ls", {"cwd": "sub", "timeout": 30.0})]


async def test_a_failing_command_is_a_result(real: ToolContext, base: Path) -> None:
    command = "pwd -P; printf 'ü\\377'; printf oops >&2; exit 7"
    assert await ShellCommandTool().call({"command": command}, real) == {
        "returncode": 7,
        "stdout": f"{base}\nü\ufffd",
        "stderr": "oops",
    }


async def test_a_time_out_is_a_result(real: ToolContext) -> None:
    assert await ShellCommandTool().call({"command": "sleep 60", "timeout": 0.1}, real) == {
        "returncode": -1,
        "stdout": "",
        "stderr": "Command timed out",
    }
