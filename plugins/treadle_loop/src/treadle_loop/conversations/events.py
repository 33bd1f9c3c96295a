"""What a streamed conversation tells of, as it happens."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from treadle import TextDelta
from treadle_loop.conversations.summaries import ConversationResult
from treadle_loop.errors import AgentLoopError
from treadle_loop.provider import ModelRequest, ModelResponse
from treadle_loop.transcript import ToolCallPart, ToolResultPart

__all__ = [
    "BudgetWarning",
    "CallRepeated",
    "ConversationEvent",
    "ConversationFinished",
    "ModelRequested",
    "ModelResponded",
    "ModelRetried",
    "ReplyDiscarded",
    "Telling",
    "TextDelta",
    "ToolFinished",
    "ToolStarted",
]


@dataclass(frozen=True, slots=True)
class ModelRequested:
    """The model is about to be asked."""

    request: ModelRequest


@dataclass(frozen=True, slots=True)
class ModelResponded:
    """It answered; the text of it has been told."""

    response: ModelResponse


@dataclass(frozen=True, slots=True)
class ModelRetried:
    """An attempt failed before any text of it was told, and there is another, at the same client or the next."""

    attempt: int
    error: AgentLoopError
    wait_seconds: float


@dataclass(frozen=True, slots=True)
class ReplyDiscarded:
    """The last reply was cut before it was of use. It is asked for again: forget the text since its request."""

    response: ModelResponse


@dataclass(frozen=True, slots=True)
class ToolStarted:
    """A tool is about to be called."""

    call: ToolCallPart


@dataclass(frozen=True, slots=True)
class ToolFinished:
    """It has a result."""

    call: ToolCallPart
    result: ToolResultPart


@dataclass(frozen=True, slots=True)
class BudgetWarning:
    """A fraction of ``SummaryOptions.warn_at`` is reached."""

    kind: Literal["iterations", "deadline"]
    used: float
    limit: float


@dataclass(frozen=True, slots=True)
class CallRepeated:
    """The same call was made so often; the conversation goes on."""

    call: ToolCallPart
    count: int


@dataclass(frozen=True, slots=True)
class ConversationFinished:
    """The last event of a conversation that returned."""

    result: ConversationResult


ConversationEvent = (
    TextDelta
    | ModelRequested
    | ModelResponded
    | ModelRetried
    | ReplyDiscarded
    | ToolStarted
    | ToolFinished
    | BudgetWarning
    | CallRepeated
    | ConversationFinished
)


class Telling:
    """An observer that makes events of what it sees. Text of a client that cannot stream comes in one piece."""

    def __init__(self, tell: Callable[[ConversationEvent], None]) -> None:
        self._tell = tell
        self._has_text = False

    def on_text_delta(self, text: str) -> None:
        """Some text."""
        self._has_text = True
        self._tell(TextDelta(text))

    def on_request(self, request: ModelRequest) -> None:
        """A reply begins."""
        self._has_text = False
        self._tell(ModelRequested(request))

    def on_response(self, response: ModelResponse) -> None:
        """It is whole."""
        if not self._has_text and response.text:
            self._tell(TextDelta(response.text))
        self._tell(ModelResponded(response))

    def on_retry(self, attempt: int, error: AgentLoopError, wait_seconds: float) -> None:
        """It failed, and is asked for again."""
        self._tell(ModelRetried(attempt, error, wait_seconds))

    def on_discard(self, response: ModelResponse) -> None:
        """It is dropped."""
        self._tell(ReplyDiscarded(response))

    def on_tool_start(self, call: ToolCallPart) -> None:
        """A tool."""
        self._tell(ToolStarted(call))

    def on_tool_end(self, call: ToolCallPart, result: ToolResultPart) -> None:
        """Its result."""
        self._tell(ToolFinished(call, result))

    def on_budget_warning(self, kind: Literal["iterations", "deadline"], used: float, limit: float) -> None:
        """A budget."""
        self._tell(BudgetWarning(kind, used, limit))

    def on_stall(self, call: ToolCallPart, count: int) -> None:
        """A call, again."""
        self._tell(CallRepeated(call, count))
