"""The fields by which a model call is given tools."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from treadle import NamedTool, ToolChoice, ToolSpec

__all__ = ["NamedChoice", "ToolDeclaration", "tool_choice"]


def _checked(schema: dict[str, Any]) -> dict[str, Any]:
    from treadle_loop.shapes import check_parameters  # only where a step says parameters of its own

    check_parameters(schema)
    return schema


class ToolDeclaration(BaseModel):
    """A registered tool that the model may call, as the model sees it."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

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

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    name: str = Field(min_length=1, description="a tool of the step")


def tool_choice(choice: Literal["auto", "none", "required"] | NamedChoice) -> ToolChoice:
    """The choice as a request has it."""
    return NamedTool(name=choice.name) if isinstance(choice, NamedChoice) else choice
