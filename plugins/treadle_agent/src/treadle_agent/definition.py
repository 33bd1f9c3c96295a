"""What an agent is: a model with its instructions, tools and rules, as its file says it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator, model_validator

from treadle import Template
from treadle_loop.response_schema import ResponseSchema, SchemaBlock
from treadle_loop.tools import FINAL_TOOL

__all__ = [
    "AgentDefinition",
    "AgentTool",
    "Constraints",
    "LoopPolicy",
    "MemorySettings",
    "RegisteredTool",
]

_NAME = r"^[A-Za-z_][A-Za-z0-9_-]{0,63}$"


class _Block(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class RegisteredTool(_Block):
    """A registered tool, with what holds for it in this agent. A name alone means the same without more."""

    name: str = Field(min_length=1, description="the registered tool")
    max_calls: int | None = Field(default=None, ge=1, description="most calls of one turn")


class AgentTool(_Block):
    """Another agent, offered to the model as a tool with one argument, ``message``."""

    name: str = Field(pattern=_NAME, description="what the model calls it")
    agent: str | AgentDefinition = Field(description="the other agent's file, or its definition")
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
    tools: tuple[str | RegisteredTool | AgentTool, ...] = Field(
        default=(), description="names of registered tools, and other agents as {name, agent}"
    )
    approve: tuple[str, ...] = Field(default=(), description="tools whose every call a person must allow")
    memory: MemorySettings = Field(default=MemorySettings(), description="the conversation on this agent's turns")
    loop_policy: LoopPolicy = Field(default=LoopPolicy(), description="how long a turn may go on")
    output_schema: ResponseSchema | None = Field(default=None, description="the JSON shape of the reply")
    constraints: Constraints = Field(default=Constraints(), description="what a turn is held to")

    @field_validator("tools", mode="before")
    @classmethod
    def _said_one_way(cls, tools: object) -> object:
        """A mapping is an agent where it names one; so a mistake in it is told as one in that."""
        if not isinstance(tools, list | tuple):
            return tools
        return [
            (AgentTool if "agent" in each else RegisteredTool).model_validate(each) if isinstance(each, dict) else each
            for each in tools
        ]

    @model_validator(mode="after")
    def _fits_together(self) -> AgentDefinition:
        names = self.tool_names
        if repeated := next((name for name in names if names.count(name) > 1), None):
            raise ValueError(f"tools: '{repeated}' is named twice")
        if self.output_schema is not None:
            if FINAL_TOOL in names:
                raise ValueError(f"tools: '{FINAL_TOOL}' is how an agent with an output_schema gives its reply")
            if isinstance(self.output_schema, SchemaBlock):
                root = self.output_schema.schema_.get("type", "object")
                if root != "object":
                    raise ValueError(f"output_schema: the schema must describe an object, not {root!r}")
        if unknown := [name for name in self.approve if name not in names]:
            raise ValueError(f"approve: the agent has no tool '{unknown[0]}'")
        return self

    @property
    def tool_names(self) -> list[str]:
        """What the model calls its tools, in order."""
        return [each if isinstance(each, str) else each.name for each in self.tools]

    @property
    def registered_tools(self) -> Iterator[tuple[int, RegisteredTool]]:
        """Those that must be registered, with their place among the tools."""
        for index, each in enumerate(self.tools):
            if isinstance(each, str):
                yield index, RegisteredTool(name=each)
            elif isinstance(each, RegisteredTool):
                yield index, each

    @property
    def agent_tools(self) -> Iterator[tuple[int, AgentTool]]:
        """Other agents among the tools, with their place."""
        return ((index, each) for index, each in enumerate(self.tools) if isinstance(each, AgentTool))


AgentTool.model_rebuild()
