"""What a run and its steps came to. The JSON names are those that scripts parse; they do not change."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Literal, Self

from treadle._dataclasses import dataclass
from treadle.contracts.events import RunWarning
from treadle.messages import Usage

__all__ = ["Pending", "RunResult", "RunStatus", "StepResult", "StepStatus", "json_value"]


class StepStatus(StrEnum):
    """Where a step stands."""

    PENDING = "pending"
    RUNNING = "running"
    SUCCESS = "success"
    FAILED = "failed"
    SKIPPED = "skipped"
    TIMEOUT = "timeout"
    PAUSED = "paused"
    CANCELLED = "cancelled"


class RunStatus(StrEnum):
    """How a run ended."""

    SUCCESS = "success"
    FAILED = "failed"
    TIMEOUT = "timeout"
    PAUSED = "paused"
    CANCELLED = "cancelled"
    BUDGET_EXCEEDED = "budget_exceeded"


def json_value(value: Any) -> Any:
    """A value of the state as plain JSON data: pydantic instances become mappings, all else stays."""
    if isinstance(value, str | int | float) or value is None:
        return value
    if isinstance(value, Mapping):
        return {key: json_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [json_value(item) for item in value]
    return json_value(value.model_dump(mode="json"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """One thing that a paused step waits for: an answer, which the step then has from :meth:`StepContext.answer`.

    :param question: what a person is to decide, in words.
    :param choices: the answers there are; empty where any text is one.
    :param name: tells it from other questions of its step; letters, digits, ``_``, ``.`` and ``-``. Those without one
        are told apart by a number.
    :param timeout: seconds after which ``default`` is the answer, from when it was first asked.
    :param default: the answer where nobody gave one in time.
    :param call_id: a tool call whose outcome nobody knows. That is answered with ``assume``, and is no gate.
    :param tool_name: the tool that the question is about.
    :param details: more for whoever shows the question.
    :param step_id: the step that waits, dotted where it is a child run's (``sub.gate``); the engine fills it in.
    :param deadline: when its time is over, in seconds since 1970 by the clock of the day; the engine fills it in.
    :raises ValueError: the name is not one, or ``timeout`` and ``default`` do not go together.
    """

    question: str
    choices: tuple[str, ...] = ()
    name: str = ""
    timeout: float | None = None
    default: str | None = None
    call_id: str | None = None
    tool_name: str | None = None
    details: Mapping[str, Any] = field(default_factory=dict)
    step_id: str = ""
    deadline: float | None = None

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[\w.-]*", self.name):
            raise ValueError(f"{self.name!r} cannot name a question; use letters, digits, '_', '.' and '-'")
        if (self.timeout is None) != (self.default is None):
            raise ValueError("a question with a timeout has a default, and one without has none")
        if self.default is not None and self.choices and self.default not in self.choices:
            raise ValueError(f"the default {self.default!r} is none of the choices: {', '.join(self.choices)}")

    @property
    def is_gate(self) -> bool:
        """Whether it is answered by its gate; what became of a call is assumed instead."""
        return self.call_id is None

    @property
    def gate(self) -> str:
        """By what it is answered: its step, and its name where it has one (``sub.gate:size``)."""
        return f"{self.step_id}:{self.name}" if self.name else self.step_id

    def to_json(self) -> dict[str, Any]:
        """As ``--json`` prints it."""
        until = None if self.deadline is None else datetime.fromtimestamp(self.deadline, UTC)
        return {
            "step_id": self.step_id,
            "gate": self.gate if self.is_gate else None,
            "question": self.question,
            "choices": list(self.choices),
            "name": self.name,
            "timeout": self.timeout,
            "default": self.default,
            "deadline": None if until is None else until.isoformat(timespec="milliseconds"),
            "call_id": self.call_id,
            "tool_name": self.tool_name,
            "details": json_value(self.details),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """What :meth:`to_json` gave, also of versions that knew fewer fields."""
        plain = {name: value for name, value in data.items() if name != "gate"}
        if plain.get("deadline") is not None:
            plain["deadline"] = datetime.fromisoformat(plain["deadline"]).timestamp()
        return cls(**{**plain, "choices": tuple(plain["choices"])})


@dataclass(frozen=True, slots=True, kw_only=True)
class StepResult:
    """What a step came to.

    :param output: what the step made, as it was made: for a model call, the text as the model wrote it.
    :param error: why it failed, or None.
    :param error_classification: whether trying again may help.
    :param reason: why it was skipped, or has not been decided because of a pause.
    :param pending: what it waits for, where it is paused.
    :param usage: tokens of every model call of every attempt, those of its child runs included.
    :param cost_usd: their price; None where it is unknown, 0 where there was none to pay.
    :param attempts: how often it was tried; 0 where it never started.
    :param time_to_first_token_ms: of its last streamed reply.
    :param exception: what it failed with, for a debugger; not part of the JSON.
    """

    step_id: str
    status: StepStatus
    output: Any = None
    error: str | None = None
    error_classification: Literal["permanent", "transient"] | None = None
    reason: str | None = None
    duration_ms: float = 0.0
    attempts: int = 0
    usage: Usage = Usage.ZERO
    cost_usd: float | None = 0.0
    model: str | None = None
    provider: str | None = None
    finish_reason: str | None = None
    attachment_count: int = 0
    time_to_first_token_ms: float | None = None
    prompt_metadata: Mapping[str, Any] | None = None
    reasoning_content: str | None = None
    pending: tuple[Pending, ...] = ()
    exception: BaseException | None = field(default=None, compare=False, repr=False)

    def to_json(self) -> dict[str, Any]:
        """As ``--json`` prints it. ``completion_tokens`` includes ``reasoning_tokens``, as OpenAI counts them."""
        return {
            "step_id": self.step_id,
            "status": str(self.status),
            "output": json_value(self.output),
            "error": self.error,
            "error_classification": self.error_classification,
            "reason": self.reason,
            "duration_ms": self.duration_ms,
            "attempts": self.attempts,
            "token_usage": {
                "prompt_tokens": self.usage.input_tokens,
                "completion_tokens": self.usage.output_tokens,
                "reasoning_tokens": self.usage.reasoning_tokens,
                "cache_read_tokens": self.usage.cache_read_tokens,
                "cache_write_tokens": self.usage.cache_write_tokens,
                "total_tokens": self.usage.total_tokens,
            },
            "cost_usd": self.cost_usd,
            "model": self.model,
            "provider": self.provider,
            "finish_reason": self.finish_reason,
            "attachment_count": self.attachment_count,
            "time_to_first_token_ms": self.time_to_first_token_ms,
            "prompt_metadata": json_value(self.prompt_metadata),
            "reasoning_content": self.reasoning_content,
            "pending": [each.to_json() for each in self.pending],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """What a run came to. ``total_tokens`` and ``total_cost_usd`` are None where any part is unknown.

    A run with a paused step is paused, whatever became of the others; ``error`` then names the first that failed.
    ``budget_usd`` is the limit of ``total_cost_usd``, None where the run has none of its own.
    ``warnings`` are what did not stop the run and its owner should know, each distinct one once.
    """

    run_id: str
    workflow_name: str
    status: RunStatus
    step_results: Mapping[str, StepResult]
    final_state: Mapping[str, Any]
    total_tokens: int | None
    total_cost_usd: float | None
    total_duration_ms: float
    error: str | None = None
    budget_usd: float | None = None
    warnings: tuple[RunWarning, ...] = ()
    annotations: tuple[Mapping[str, Any], ...] = field(default=())

    @property
    def ok(self) -> bool:
        """Whether the run did what it was to do, or waits for a person."""
        return self.status in (RunStatus.SUCCESS, RunStatus.PAUSED)

    @property
    def pending(self) -> tuple[Pending, ...]:
        """What the paused steps wait for, in the order of the document."""
        return tuple(pending for each in self.step_results.values() for pending in each.pending)

    def to_json(self) -> dict[str, Any]:
        """As ``--json`` prints it."""
        return {
            "run_id": self.run_id,
            "workflow_name": self.workflow_name,
            "status": str(self.status),
            "step_results": {step_id: result.to_json() for step_id, result in self.step_results.items()},
            "final_state": json_value(self.final_state),
            "total_tokens": self.total_tokens,
            "total_cost_usd": self.total_cost_usd,
            "budget_usd": self.budget_usd,
            "total_duration_ms": self.total_duration_ms,
            "error": self.error,
            "pending": [each.to_json() for each in self.pending],
            "warnings": [{"step_id": each.step_id, "message": each.message} for each in self.warnings],
            "annotations": json_value(self.annotations),
        }
