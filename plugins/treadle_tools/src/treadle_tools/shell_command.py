"""The tool ``shell_command``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import Field

from treadle import Tool, ToolContext
from treadle.tools import parse_arguments, schema_of
from treadle_tools.arguments import ToolArguments

__all__ = ["ShellCommandTool"]


class _Arguments(ToolArguments):
    command: str = Field(description="The command line, run by sh -c.")
    timeout: float = Field(
        default=30.0, gt=0, allow_inf_nan=False, description="Seconds before the command is stopped."
    )
    cwd: str = Field(default=".", description="The directory to run in.")


class ShellCommandTool(Tool):
    """Runs a command line and gives ``{returncode, stdout, stderr}``, whatever it came to.

    Output is text in UTF-8, with U+FFFD for what is not. Past ``timeout`` the command and all it started are
    killed; the result then has ``returncode`` -1 and ``Command timed out`` as ``stderr``.
    """

    name = "shell_command"
    description = (
        "Run a command line with sh. Returns {returncode, stdout, stderr}. A non-zero returncode is a result, not an "
        "error; -1 with stderr 'Command timed out' means that it was stopped."
    )
    parameters: ClassVar[Mapping[str, Any]] = schema_of(_Arguments)
    effect = "once"

    async def call(self, arguments: Mapping[str, Any], context: ToolContext) -> dict[str, Any]:
        """Run it.

        :raises ToolError: permanent where the arguments are wrong or it cannot be started.
        """
        given = parse_arguments(self.name, _Arguments, arguments)
        sandbox = context.require_sandbox(self.name)
        result = await sandbox.run(given.command, cwd=given.cwd, timeout=given.timeout)
        return {
            "returncode": result.returncode,
            "stdout": result.stdout.decode("utf-8", "replace"),
            "stderr": result.stderr.decode("utf-8", "replace"),
        }
