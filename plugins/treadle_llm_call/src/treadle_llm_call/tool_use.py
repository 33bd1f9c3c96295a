"""The fields by which a model call is given tools."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from treadle import NamedTool, StepContext, ToolChoice, ToolSpec
from treadle_loop.shapes import check_parameters
from treadle_loop.tools import LoopTool
from treadle_loop.turn import loop_tool, registered

__all__ = ["NamedChoice", "ToolDeclaration", "loop_tools", "tool_choice"]


def _checked(schema: dict[str, Any]) -> dict[str, Any]:
    check_parameters(schema)
    return schema


class ToolDeclaration(BaseModel):
    """A registered tool that the model may call, as the model sees it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(min_length=1, description="the registered tool")
    description: str | None = Field(default=None, description="what the model reads; the tool's own without it")
    parameters: Annotated[dict[str, Any], AfterValidator(_checked)] | None = Field(
        default=None, description="a JSON Schema of the arguments; the tool's own without it"
    )

    def spec(self) -> ToolSpec:
        """As far as the document tells."""
        if self.parameters is None:
            return ToolSpec(name=self.name, description=self.description or "")
        return ToolSpec(name=self.name, description=self.description or "", parameters=self.parameters)


class NamedChoice(BaseModel):
    """The one tool that the first reply must use."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(min_length=1, description="a tool of the step")


def tool_choice(choice: Literal["auto", "none", "required"] | NamedChoice) -> ToolChoice:
    """The choice as a request has it."""
    return NamedTool(name=choice.name) if isinstance(choice, NamedChoice) else choice


def loop_tools(ctx: StepContext, declared: tuple[ToolDeclaration, ...]) -> dict[str, LoopTool]:
    """The declared tools for the loop. One that is not registered is shown all the same, and says so when it is called.

    The model sees the step's description and parameters; arguments are held to the registered tool's own parameters.
    """
    found = registered(ctx, (each.name for each in declared))
    tools: dict[str, LoopTool] = {}
    for each in declared:
        tool = found.get(each.name)
        if tool is None:
            ctx.warn(f"tool '{each.name}' is not registered here: the model sees it and cannot use it")
            missing = f"tool '{each.name}' is not registered here, so it cannot run; do without it"
            tools[each.name] = LoopTool(spec=each.spec(), missing=missing)
            continue
        spec = ToolSpec(
            name=each.name,
            description=tool.description if each.description is None else each.description,
            parameters=tool.parameters if each.parameters is None else each.parameters,
        )
        tools[each.name] = loop_tool(tool, spec)
    return tools
