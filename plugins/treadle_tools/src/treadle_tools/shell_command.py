"""The tool ``shell_command``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from pydantic import Field

from treadle import Right, ToolContext
from treadle.tools import parse_arguments, schema_of
from treadle_tools.arguments import CheckedTool, ToolArguments, refusals_of, text_of

__all__ = ["ShellCommandTool"]


class _Arguments(ToolArguments):
    command: str = Field(
        description="The command line. Run by sh -c; in an enabled sandbox one program with its arguments, no shell."
    )
    timeout: float = Field(
        default=30.0, gt=0, allow_inf_nan=False, description="Seconds before the command is stopped."
    )
    cwd: str = Field(default=".", description="The directory to run in.")


class ShellCommandTool(CheckedTool):
    """Runs a command line and gives ``{returncode, stdout, stderr}``, whatever it came to.

    Output is text in UTF-8, with U+FFFD for what is not. Past ``timeout`` the command and all it started are
    killed; the result then has ``returncode`` -1 and ``Command timed out`` as ``stderr``.
    """

    name = "shell_command"
    description = (
        "Run a command line. Returns {returncode, stdout, stderr}. A non-zero returncode is a result, not an "
        "error; -1 with stderr 'Command timed out' means that it was stopped."
    )
    model = _Arguments
    parameters: ClassVar[Mapping[str, Any]] = schema_of(_Arguments)
    effect = "once"

    def rights(self, arguments: Mapping[str, Any] | None) -> Iterable[Right]:
        """The command line, as which programs it runs is a matter of its shell; and the directory it runs in."""
        yield Right(kind="command", name=text_of(arguments, "command"))
        if arguments is None or "cwd" in arguments:
            yield Right(kind="read", name=text_of(arguments, "cwd"))

    async def call(self, arguments: Mapping[str, Any], context: ToolContext) -> dict[str, Any]:
        """Run it.

        :raises ToolError: permanent where the arguments are wrong or it cannot be started.
        """
        given = parse_arguments(self.name, _Arguments, arguments)
        sandbox = context.require_sandbox(self.name)
        with refusals_of(self.name):
            result = await sandbox.run(given.command, cwd=given.cwd, timeout=given.timeout)
        return {
            "returncode": result.returncode,
            "stdout": result.stdout.decode("utf-8", "replace"),
            "stderr": result.stderr.decode("utf-8", "replace"),
        }
