"""What treadle-tools offers. Imports nothing that it offers."""

from __future__ import annotations

from collections.abc import Mapping

from treadle import Offer, hookimpl

__all__ = ["treadle_step_types", "treadle_tools"]


@hookimpl
def treadle_step_types() -> Mapping[str, Offer]:
    """The step ``tool``."""
    return {"tool": Offer("treadle_tools.step:ToolStep", "Run a tool with arguments of the workflow's choice")}


@hookimpl
def treadle_tools() -> Mapping[str, Offer]:
    """The built-in tools."""
    return {
        "http_request": Offer("treadle_tools.http_request:HttpRequestTool", "Send an HTTP request and read the reply"),
        "shell_command": Offer("treadle_tools.shell_command:ShellCommandTool", "Run a command line"),
        "file_read": Offer("treadle_tools.files:FileReadTool", "Read a text file"),
        "file_write": Offer("treadle_tools.files:FileWriteTool", "Write a text file"),
    }
