"""The built-in tools for a registry of one's own, held to a sandbox of one's own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from treadle import Sandbox, Tool, ToolContext, ToolRegistry
from treadle.tools import as_tool
from treadle_sandbox.policy import PolicySandbox
from treadle_tools.plugin import treadle_tools

__all__ = ["register_builtins"]


class _HeldTool(Tool):
    """A tool whose sandbox is always the same, whatever the run's."""

    def __init__(self, tool: Tool, sandbox: Sandbox) -> None:
        self._tool = tool
        self._sandbox = sandbox
        vars(self).update(
            name=tool.name,
            description=tool.description,
            parameters=tool.parameters,
            effect=tool.effect,
            timeout=tool.timeout,
            parallel_safe=tool.parallel_safe,
        )

    def effect_of(self, arguments: Mapping[str, Any]) -> Any:
        """The tool's own word."""
        return self._tool.effect_of(arguments)

    async def call(self, arguments: Mapping[str, Any], context: ToolContext) -> Any:
        """Call it in that sandbox."""
        return await self._tool.call(arguments, replace(context, sandbox=self._sandbox))


def register_builtins(
    registry: ToolRegistry, *, sandbox: Sandbox | BaseModel | Mapping[str, Any] | None = None, replace: bool = False
) -> None:
    """Register the four built-in tools, held to ``sandbox`` and to nothing else.

    What a workflow says under ``config.sandbox`` does not hold them: they are the program's, and so are their limits.

    :param sandbox: a sandbox, which the caller has entered where it needs that; or the block of one, as under
        ``config.sandbox``, whose paths go from the working directory. Without it the tools have no limits.
    :param replace: to replace tools of the same names without a warning.
    :raises pydantic.ValidationError: the block is not valid.
    """
    if not isinstance(sandbox, Sandbox):
        block = sandbox if isinstance(sandbox, BaseModel) else PolicySandbox.block_model.model_validate(sandbox or {})
        sandbox = PolicySandbox(block, Path.cwd())
    for offer in treadle_tools().values():
        registry.register(_HeldTool(as_tool(offer.load()), sandbox), replace=replace)
