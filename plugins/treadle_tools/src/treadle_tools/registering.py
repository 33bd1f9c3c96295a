"""The built-in tools for a registry of one's own, held to a sandbox of one's own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from treadle import Sandbox, Tool, ToolContext, ToolRegistry
from treadle.api import new_sandbox
from treadle.tools import as_tool
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
    registry: ToolRegistry, *, sandbox: Sandbox | Mapping[str, Any] | None = None, replace: bool = False
) -> None:
    """Register the four built-in tools, held to ``sandbox`` and to nothing else.

    What a workflow says under ``config.sandbox`` does not hold them: they are the program's, and so are their limits.

    :param sandbox: a sandbox, which the caller has entered where it needs that; or a block as under
        ``config.sandbox``, for which one is made (:func:`treadle.api.new_sandbox`). Without it no block limits them.
    :param replace: to replace tools of the same names without a warning.
    :raises NotInstalledError: no sandbox is installed.
    :raises pydantic.ValidationError: the block is not valid.
    """
    held = sandbox if isinstance(sandbox, Sandbox) else new_sandbox(sandbox)
    for offer in treadle_tools().values():
        registry.register(_HeldTool(as_tool(offer.load()), held), replace=replace)
