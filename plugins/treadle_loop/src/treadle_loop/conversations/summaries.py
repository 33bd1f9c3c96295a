"""What a conversation took, without a word of what was said in it."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, computed_field, field_validator

import treadle
from treadle_loop.arguments import canonical
from treadle_loop.attempts import log_of
from treadle_loop.errors import LoopBudgetExceeded, ProviderError
from treadle_loop.provider import AttemptRecord, ModelResponse, StopReason, Usage
from treadle_loop.transcript import ToolCallPart, ToolResultPart, Transcript, final_text

__all__ = [
    "ConversationContext",
    "ConversationResult",
    "ConversationStatus",
    "ConversationSummary",
    "FailureCount",
    "SummaryCollector",
    "SummaryOptions",
    "TurnRecord",
]


class _Value(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ConversationStatus(StrEnum):
    """How a conversation ended. The first three are successes, the next three say that a budget is used up."""

    COMPLETED = "completed"
    REFUSED = "refused"
    TRUNCATED = "truncated"
    ITERATION_LIMIT = "iteration_limit"
    DEADLINE_EXCEEDED = "deadline_exceeded"
    TOKEN_LIMIT = "token_limit"  # tokens of a model
    PROVIDER_ERROR = "provider_error"
    ERROR = "error"
    CANCELLED = "cancelled"

    @property
    def succeeded(self) -> bool:
        """Whether there is an answer, a refusal or a cut answer."""
        return self in (ConversationStatus.COMPLETED, ConversationStatus.REFUSED, ConversationStatus.TRUNCATED)

    @property
    def budget_exhausted(self) -> bool:
        """Whether a budget ended it."""
        return self in _BUDGETS.values()


_BUDGETS = {
    "iterations": ConversationStatus.ITERATION_LIMIT,
    "deadline": ConversationStatus.DEADLINE_EXCEEDED,
    "max_tokens": ConversationStatus.TOKEN_LIMIT,
}


class ConversationContext(_Value):
    """Which conversation it is, and within which bounds. The ids are labels of the caller's."""

    conversation_id: str | None = None
    correlation_id: str | None = None
    parent_id: str | None = None
    agent_name: str | None = None
    provider: str | None = None
    model: str | None = None
    iteration_limit: int | None = None
    deadline_seconds: float | None = None


class SummaryOptions(_Value):
    """What is looked at beyond the counts.

    :param timeline: whether the summary lists every turn.
    :param stall_threshold: at so many like calls observers are told; the conversation goes on.
    :param warn_at: fractions of the iterations and of the deadline at which observers are warned, each once.
    """

    timeline: bool = False
    stall_threshold: Annotated[int, Field(ge=2)] | None = None
    warn_at: tuple[Annotated[float, Field(gt=0, le=1)], ...] = ()

    @field_validator("warn_at")
    @classmethod
    def _in_order(cls, fractions: tuple[float, ...]) -> tuple[float, ...]:
        if list(fractions) != sorted(set(fractions)):
            raise ValueError("the fractions rise, and none is there twice")
        return fractions


class FailureCount(_Value):
    """How often attempts failed in the same way."""

    error_type: str
    phase: str | None = None
    request_sent: bool | None = None
    count: int


class TurnRecord(_Value):
    """One model call and the tools it asked for. ``discarded``: it was cut before it was of use, and asked again."""

    index: int
    model_seconds: float = 0.0
    stop_reason: str | None = None
    error_type: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None
    attempts: int = 1
    attempt_log: tuple[AttemptRecord, ...] = ()
    discarded: bool = False
    tools: tuple[str, ...] = ()
    tool_errors: int = 0
    tool_seconds: float = 0.0


class ConversationSummary(_Value):
    """The counts of a conversation. None is not known; it is never 0."""

    conversation_id: str | None = None
    correlation_id: str | None = None
    parent_id: str | None = None
    agent_name: str | None = None
    provider: str | None = None
    model: str | None = None
    status: ConversationStatus
    iterations: int = 0
    iteration_limit: int | None = None
    deadline_seconds: float | None = None
    elapsed_seconds: float = 0.0
    tool_calls: dict[str, int] = Field(default_factory=dict)
    tool_errors: dict[str, int] = Field(default_factory=dict)
    provider_retries: int = 0
    usage: Usage = Field(default_factory=Usage)
    model_seconds: float = 0.0
    tool_seconds: float = 0.0
    retry_wait_seconds: float = 0.0
    tool_duration_seconds: dict[str, float] = Field(default_factory=dict)
    max_repeated_tool_calls: int = 0
    stalled: bool = False
    timeline: tuple[TurnRecord, ...] = ()
    error_type: str | None = None
    provider_status_code: int | None = None
    error_phase: str | None = None
    error_request_sent: bool | None = None
    error_request_id: str | None = None
    error_attempts_sent: int | None = None
    failed_attempts: tuple[FailureCount, ...] = ()

    @computed_field  # type: ignore[prop-decorator]  # pydantic's own way of writing it
    @property
    def cache_hit_rate(self) -> float | None:
        """How much of what was read came from the cache, 0 to 1."""
        usage = self.usage
        if usage.cache_read_tokens is None or usage.input_tokens is None:
            return None
        read = usage.input_tokens
        if not usage.input_includes_cached:
            read += usage.cache_read_tokens + (usage.cache_write_tokens or 0)
        return usage.cache_read_tokens / read if read else None

    @property
    def succeeded(self) -> bool:
        """Whether there is an answer, a refusal or a cut answer."""
        return self.status.succeeded


@dataclass(frozen=True, slots=True)
class ConversationResult:
    """A conversation that returned.

    :param output: the answer's value, where a shape was asked for; None where the model refused to give one.
    """

    transcript: Transcript
    summary: ConversationSummary
    output: Any = None

    @property
    def text(self) -> str:
        """The last answer."""
        return final_text(self.transcript)


UNREGISTERED = "<unregistered>"
"""What observers and summaries call a tool that does not exist: a model may write anything."""


class SummaryCollector:
    """Adds up one conversation. It holds no text: calls are compared by a hash."""

    def __init__(
        self, context: ConversationContext, options: SummaryOptions | None, clock: Callable[[], float]
    ) -> None:
        self.context = context
        self.options = options or SummaryOptions()
        self.usage = Usage()
        self.iterations = 0
        self.stalled = False
        self._clock = clock
        self._began = clock()
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._retries = 0
        self._calls: Counter[str] = Counter()
        self._errors: Counter[str] = Counter()
        self._durations: dict[str, float] = {}
        self._likes: Counter[bytes] = Counter()
        self._failures: Counter[tuple[str, str | None, bool | None]] = Counter()
        self._turns: list[dict[str, Any]] = []
        self._model: str | None = None
        self._provider: str | None = None
        self._error: BaseException | None = None

    def elapsed(self) -> float:
        """Seconds since it began."""
        return self._clock() - self._began

    def response(self, response: ModelResponse, seconds: float) -> None:
        """A reply came."""
        self._model = response.model or self._model
        self._provider = response.provider or self._provider
        self._seconds["model"] += max(seconds - response.retry_wait_seconds, 0.0)
        self._attempts(response.attempts, response.retry_wait_seconds, response.attempt_log)
        self.usage = response.usage if not self._turns else self.usage + response.usage
        self._turns.append(
            {
                "index": len(self._turns) + 1,
                "model_seconds": max(seconds - response.retry_wait_seconds, 0.0),
                "stop_reason": str(response.stop_reason),
                "input_tokens": response.usage.input_tokens,
                "output_tokens": response.usage.output_tokens,
                "cost_usd": response.usage.cost_usd,
                "attempts": response.attempts,
                "attempt_log": response.attempt_log,
                "tools": (),
                "tool_errors": 0,
                "tool_seconds": 0.0,
            }
        )

    def model_error(self, error: BaseException, seconds: float) -> None:
        """A call failed for good."""
        turn: dict[str, Any] = {"index": len(self._turns) + 1, "error_type": type(error).__name__}
        waited = 0.0
        if isinstance(error, ProviderError):
            waited = error.retry_wait_seconds
            log = log_of(error)
            self._attempts(error.attempts, waited, log)
            turn |= {"attempts": error.attempts, "attempt_log": log}
        self._seconds["model"] += max(seconds - waited, 0.0)
        self._turns.append({**turn, "model_seconds": max(seconds - waited, 0.0)})

    def _attempts(self, attempts: int, waited: float, log: tuple[AttemptRecord, ...]) -> None:
        self._retries += attempts - 1
        self._seconds["wait"] += waited
        for each in log:
            if not each.ok:
                self._failures[each.error_type or "", each.phase, each.request_sent] += 1

    def discarded(self) -> None:
        """The last reply was dropped."""
        self._turns[-1]["discarded"] = True

    def tool_began(self, call: ToolCallPart, name: str) -> int | None:
        """A tool is called. Gives the count where that is the one at which the call counts as stalling."""
        self._calls[name] += 1
        if self._turns:
            self._turns[-1]["tools"] = (*self._turns[-1].get("tools", ()), name)
        raw = call.raw_arguments if call.parse_error is not None else None
        like = canonical(None if call.parse_error is not None else call.arguments, raw)
        key = hashlib.sha256(f"{call.tool_name}\0{like}".encode("utf-8", "surrogatepass")).digest()
        self._likes[key] += 1
        if self._likes[key] != self.options.stall_threshold:
            return None
        self.stalled = True
        return self._likes[key]

    def tool_ended(self, name: str, result: ToolResultPart, seconds: float) -> None:
        """It has a result."""
        self._durations[name] = self._durations.get(name, 0.0) + seconds
        if result.is_error:
            self._errors[name] += 1
            if self._turns:
                self._turns[-1]["tool_errors"] = self._turns[-1].get("tool_errors", 0) + 1

    def batch_ended(self, seconds: float) -> None:
        """All calls of a reply have results; calls that ran side by side took their time together."""
        self._seconds["tools"] += seconds
        if self._turns:
            self._turns[-1]["tool_seconds"] = self._turns[-1].get("tool_seconds", 0.0) + seconds

    def summary(self, status: ConversationStatus, error: BaseException | None = None) -> ConversationSummary:
        """As it stands now."""
        context = self.context
        facts: dict[str, Any] = {}
        if error is not None:
            facts["error_type"] = type(error).__name__
        if isinstance(error, ProviderError):
            log = log_of(error)
            facts |= {
                "provider_status_code": error.status_code,
                "error_phase": error.phase,
                "error_request_sent": error.request_sent,
                "error_request_id": error.request_id,
                "error_attempts_sent": sum(each.request_sent is not False for each in log),
            }
        return ConversationSummary(
            conversation_id=context.conversation_id,
            correlation_id=context.correlation_id,
            parent_id=context.parent_id,
            agent_name=context.agent_name,
            provider=self._provider or context.provider,
            model=self._model or context.model,
            status=status,
            iterations=self.iterations,
            iteration_limit=context.iteration_limit,
            deadline_seconds=context.deadline_seconds,
            elapsed_seconds=self.elapsed(),
            tool_calls=dict(self._calls),
            tool_errors=dict(self._errors),
            provider_retries=self._retries,
            usage=self.usage,
            model_seconds=self._seconds["model"],
            tool_seconds=self._seconds["tools"],
            retry_wait_seconds=self._seconds["wait"],
            tool_duration_seconds=dict(self._durations),
            max_repeated_tool_calls=max(self._likes.values(), default=0),
            stalled=self.stalled,
            timeline=tuple(TurnRecord(**turn) for turn in self._turns) if self.options.timeline else (),
            failed_attempts=tuple(
                FailureCount(error_type=kind, phase=phase, request_sent=was_sent, count=count)
                for (kind, phase, was_sent), count in self._failures.items()
            ),
            **facts,
        )


def status_of(error: BaseException) -> ConversationStatus:
    """The status of a conversation that an exception ended."""
    if isinstance(error, LoopBudgetExceeded):
        return _BUDGETS[error.kind]
    if isinstance(error, treadle.ProviderError):
        return ConversationStatus.PROVIDER_ERROR
    if isinstance(error, Exception):
        return ConversationStatus.ERROR
    return ConversationStatus.CANCELLED


def status_after(stop: StopReason) -> ConversationStatus:
    """The status of a conversation whose last reply stopped so."""
    return {
        StopReason.REFUSAL: ConversationStatus.REFUSED,
        StopReason.MAX_TOKENS: ConversationStatus.TRUNCATED,
    }.get(stop, ConversationStatus.COMPLETED)
