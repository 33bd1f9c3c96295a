"""What an agent is: a model with its instructions, tools and rules, as its file says it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
)
from pydantic_core import InitErrorDetails

from treadle import Template, ToolSpec, close_match
from treadle_loop.response_schema import ResponseSchema, SchemaBlock
from treadle_loop.tools import FINAL_TOOL

__all__ = [
    "MESSAGE",
    "AgentDefinition",
    "AgentTool",
    "Constraints",
    "FileOrDefinition",
    "LoopPolicy",
    "MemorySettings",
    "RegisteredTool",
    "agent_spec",
]

MESSAGE: Mapping[str, Any] = {
    "type": "object",
    "properties": {"message": {"type": "string", "description": "what to ask or tell the agent"}},
    "required": ["message"],
    "additionalProperties": False,
}
"""The arguments of an agent that is used as a tool."""

_NAME = r"^[A-Za-z_][A-Za-z0-9_-]{0,63}$"


class _Block(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


def _meant(agent: object) -> object:
    """A mapping is the agent itself, so that a mistake in it is told as one in that and not as a file's name."""
    if isinstance(agent, dict):
        return AgentDefinition.model_validate(agent)
    if not isinstance(agent, str | AgentDefinition):
        raise ValueError(f"must be the agent's file, or its definition as a mapping, not {agent!r}")
    return agent


FileOrDefinition = Annotated["str | AgentDefinition", BeforeValidator(_meant)]


class RegisteredTool(_Block):
    """A registered tool, with what holds for it in this agent. A name alone means the same without more."""

    name: str = Field(min_length=1, description="the registered tool")
    max_calls: int | None = Field(default=None, ge=1, description="most calls of one turn")


class AgentTool(_Block):
    """Another agent, offered to the model as a tool with one argument, ``message``."""

    name: str = Field(pattern=_NAME, description="what the model calls it")
    agent: FileOrDefinition = Field(description="the other agent's file, or its definition")
    description: str | None = Field(default=None, description="what the model reads; the agent's own without it")
    max_calls: int | None = Field(default=None, ge=1, description="most calls of one turn")


class MemorySettings(_Block):
    """Settings of the conversation on this agent's turns. What is not set is the conversation's own."""

    token_budget: int | None = Field(default=None, ge=1, description="most tokens of the conversation")
    trim_policy: str | None = Field(default=None, min_length=1, description="how room is made in it")


class LoopPolicy(_Block):
    """How long a turn may go on."""

    max_iterations: int = Field(default=5, ge=1, description="most model calls of one turn")
    on_max_iterations: Literal["error", "warn_and_return", "answer"] = Field(
        default="error",
        description="at the cap: fail, give the last text with a warning, or ask once more with the tools off",
    )
    note_remaining: bool = Field(default=False, description="tell the model with each result how many calls are left")


def _text(pattern: str) -> str:
    if not pattern.strip():
        raise ValueError("must not be empty: every reply contains it")
    return pattern


class Constraints(_Block):
    """What a turn is held to."""

    max_cost_usd: float | None = Field(default=None, ge=0, description="most that a turn may spend, in US dollars")
    max_latency_ms: float | None = Field(default=None, gt=0, description="most time that a turn may take")
    forbidden_patterns: tuple[Annotated[str, AfterValidator(_text)], ...] = Field(
        default=(), description="texts that the reply must not contain, in whatever case"
    )


def _said_one_way(tool: object) -> object:
    """A mapping is an agent where it names one; so a mistake in it is told as one in that, at its own place."""
    if isinstance(tool, dict):
        return (AgentTool if "agent" in tool else RegisteredTool).model_validate(tool)
    if not isinstance(tool, str | RegisteredTool | AgentTool):
        raise ValueError(f"must be a tool's name, {{name, max_calls}} or {{name, agent}}, not {tool!r}")
    return tool


def _refuse(field: str, values: tuple[Any, ...], wrong: Mapping[int, str]) -> None:
    """What is wrong with some of the values of a field, each at its own place."""
    if wrong:
        details = [
            InitErrorDetails(type="value_error", loc=(index,), input=values[index], ctx={"error": ValueError(text)})
            for index, text in wrong.items()
        ]
        raise ValidationError.from_exception_data(field, details)


class AgentDefinition(_Block):
    """An agent's file, or the same inline."""

    name: str = Field(pattern=_NAME, description="the agent's name, and its voice in a conversation")
    description: str = Field(default="", description="what it does; another agent that has it as a tool reads this")
    model: str | None = Field(
        default=None, min_length=1, description="the model of every turn; config.model without it"
    )
    system_prompt: Template | None = Field(default=None, description="its instructions")
    temperature: float | None = Field(default=None, description="sent as given; the provider's own without it")
    max_tokens: int | None = Field(default=None, ge=1, description="the limit of each reply in tokens")
    output_schema: ResponseSchema | None = Field(default=None, description="the JSON shape of the reply")
    tools: tuple[Annotated[str | RegisteredTool | AgentTool, BeforeValidator(_said_one_way)], ...] = Field(
        default=(), description="names of registered tools, and other agents as {name, agent}"
    )
    approve: tuple[str, ...] = Field(default=(), description="tools whose every call a person must allow")
    memory: MemorySettings = Field(default=MemorySettings(), description="the conversation on this agent's turns")
    loop_policy: LoopPolicy = Field(default=LoopPolicy(), description="how long a turn may go on")
    constraints: Constraints = Field(default=Constraints(), description="what a turn is held to")

    @field_validator("output_schema")
    @classmethod
    def _is_of_an_object(cls, shape: ResponseSchema | None) -> ResponseSchema | None:
        if isinstance(shape, SchemaBlock) and (root := shape.schema_.get("type", "object")) != "object":
            raise ValueError(f"the schema must describe an object, not {root!r}")
        return shape

    @field_validator("tools")
    @classmethod
    def _are_told_apart(
        cls, tools: tuple[str | RegisteredTool | AgentTool, ...], info: ValidationInfo
    ) -> tuple[str | RegisteredTool | AgentTool, ...]:
        names = _names(tools)
        wrong = {at: f"'{name}' is named twice" for at, name in enumerate(names) if name and name in names[:at]}
        if info.data.get("output_schema") is not None and FINAL_TOOL in names:
            wrong[names.index(FINAL_TOOL)] = f"'{FINAL_TOOL}' is how an agent with an output_schema gives its reply"
        _refuse("tools", tools, wrong)
        return tools

    @field_validator("approve")
    @classmethod
    def _are_tools(cls, approve: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        if "tools" in info.data:  # else something is wrong with the tools, and it is not known which there are
            names = _names(info.data["tools"])
            _refuse(
                "approve", approve, {at: _no_tool(name, names) for at, name in enumerate(approve) if name not in names}
            )
        return approve

    @property
    def tool_names(self) -> list[str]:
        """What the model calls its tools, in order."""
        return _names(self.tools)

    @property
    def registered_tools(self) -> Iterator[tuple[int, RegisteredTool]]:
        """Those that must be registered, with their place among the tools."""
        for index, each in enumerate(self.tools):
            if isinstance(each, str):
                yield index, RegisteredTool.model_construct(name=each)
            elif isinstance(each, RegisteredTool):
                yield index, each

    @property
    def agent_tools(self) -> Iterator[tuple[int, AgentTool]]:
        """Other agents among the tools, with their place."""
        return ((index, each) for index, each in enumerate(self.tools) if isinstance(each, AgentTool))


def _names(tools: tuple[str | RegisteredTool | AgentTool, ...]) -> list[str]:
    return [each if isinstance(each, str) else each.name for each in tools]


def _no_tool(name: str, names: list[str]) -> str:
    match = close_match(name, names)
    remedy = f"did you mean '{match}'?" if match else "list it under tools as well"
    return f"the agent has no tool '{name}'; {remedy}"


def agent_spec(name: str, description: str) -> ToolSpec:
    """An agent as the model of another one sees it."""
    return ToolSpec(name=name, description=description, parameters=MESSAGE)


AgentTool.model_rebuild()
