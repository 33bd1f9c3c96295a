"""What a client is given and gives back: requests and responses that say the same for every vendor."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Annotated, Any, Literal, Protocol, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from treadle import OutputSchema, StopReason
from treadle_loop.conversations.toolbox import HostedTool, ToolSpec
from treadle_loop.transcript import Message, Origin, Part, ToolCallPart

__all__ = [
    "AttemptRecord",
    "Client",
    "ModelRequest",
    "ModelResponse",
    "StopReason",
    "Usage",
]


class _Value(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)


class AttemptRecord(_Value):
    """One attempt at a request.

    :param wait_seconds: how long was waited after it.
    :param provider: who was asked, where there was a choice.
    """

    attempt: int
    ok: bool
    error_type: str | None = None
    status_code: int | None = None
    phase: str | None = None
    request_sent: bool | None = None
    request_id: str | None = None
    wait_seconds: float = 0.0
    provider: str | None = None


class Usage(_Value):
    """Tokens and money. None was not reported; it is never 0.

    :param input_includes_cached: whether ``input_tokens`` holds what the cache gave and took; None is not known.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None
    cost_usd: float | None = None
    input_includes_cached: bool | None = None

    def __add__(self, other: Usage) -> Usage:
        """Both together. A sum is known where both sides are."""
        same = self.input_includes_cached == other.input_includes_cached
        return Usage(
            **{name: _sum(getattr(self, name), getattr(other, name)) for name in _COUNTS},
            input_includes_cached=self.input_includes_cached if same else None,
        )


_COUNTS = (
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "reasoning_tokens",
    "cost_usd",
)


def _sum(mine: float | None, theirs: float | None) -> Any:
    return None if mine is None or theirs is None else mine + theirs


class ModelRequest(_Value):
    """One call of a model.

    :param output: the shape that the reply is held to; only for a client that has said ``output_schemas``.
    """

    messages: tuple[Message, ...]
    system: str | None = None
    tools: tuple[ToolSpec, ...] = ()
    max_tokens: Annotated[int, Field(gt=0)] = 16_000
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    stop_sequences: tuple[str, ...] = ()
    tool_choice: Literal["auto", "none", "required"] = "auto"
    parallel_tool_calls: bool | None = None
    hosted_tools: tuple[HostedTool, ...] = ()
    output: OutputSchema | None = None


class ModelResponse(_Value):
    """What a model answered. With a tool call it stopped for tools, unless it was cut at ``max_tokens``."""

    content: tuple[Part, ...]
    stop_reason: StopReason = StopReason.END_TURN
    usage: Usage = Field(default_factory=Usage)
    model: str | None = None
    provider: str | None = None
    raw_stop_reason: str | None = None
    request_id: str | None = None
    attempts: int = 1
    retry_wait_seconds: float = 0.0
    attempt_log: tuple[AttemptRecord, ...] = ()
    origin: Origin | None = None

    @model_validator(mode="before")
    @classmethod
    def _stops_for_tools(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        stop = data.get("stop_reason", StopReason.END_TURN)
        if isinstance(stop, str) and stop not in set(StopReason):
            data = {**data, "stop_reason": StopReason.UNKNOWN, "raw_stop_reason": data.get("raw_stop_reason") or stop}
        calls = any(_is_call(part) for part in data.get("content", ()))
        if calls and data.get("stop_reason") != StopReason.MAX_TOKENS:
            data = {**data, "stop_reason": StopReason.TOOL_USE}
        return data

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if not self.content and self.stop_reason is not StopReason.MAX_TOKENS:
            raise ValueError("a response has content, unless it was cut at max_tokens")
        return self

    @property
    def tool_calls(self) -> tuple[ToolCallPart, ...]:
        """The tools it asks for, in order."""
        return tuple(part for part in self.content if isinstance(part, ToolCallPart))

    @property
    def text(self) -> str:
        """Its text parts, joined."""
        return Message(role="assistant", content=self.content).text


def _is_call(part: Any) -> bool:
    return isinstance(part, ToolCallPart) or (isinstance(part, dict) and part.get("type") == "tool_call")


class Client(Protocol):
    """Whatever answers requests. ``complete`` may be a coroutine function; what it raises ends the conversation.

    Optional: ``hosted_tools`` (kinds it can run), ``api`` (which of a vendor's APIs it speaks), ``output_schemas``
    (True where it holds a reply to ``request.output``), ``close()``, and ``loop = "asyncio"`` where an async
    ``complete`` needs asyncio's loop rather than trio's.
    """

    @property
    def name(self) -> str:
        """The provider's name."""
        ...

    @property
    def model(self) -> str:
        """The model that is asked."""
        ...

    def complete(self, request: ModelRequest, /) -> ModelResponse | Awaitable[ModelResponse]:
        """Send a request."""
        ...
