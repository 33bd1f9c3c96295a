"""The step ``tool``."""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import Field

from treadle import ArgumentTree, Reference, Step, StepContext, StepOutcome

__all__ = ["ToolStep"]


class ToolStep(Step):
    """Runs one tool with arguments of the workflow's choice; its value goes to ``output`` as it is."""

    tool_name: str = Field(min_length=1, description="a registered tool")
    tool_args: ArgumentTree = Field(default={}, validate_default=True, description="the tool's arguments")

    async def run(self, ctx: StepContext) -> StepOutcome:
        """Call the tool once.

        :raises TreadleError: as the tool raises; ``NotInstalledError`` where there is no such tool.
        """
        arguments = ctx.render_arguments(self.tool_args)
        return StepOutcome(value=await ctx.call_tool(self.tool_name, arguments))

    def references(self) -> Iterable[Reference]:
        """The tool."""
        return (Reference(role="tool", name=self.tool_name, field="tool_name"),)
