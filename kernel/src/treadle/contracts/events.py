"""What happens in a run, as told to observers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from treadle._dataclasses import dataclass

if TYPE_CHECKING:
    from treadle.contracts.results import RunResult, StepResult
    from treadle.messages import ModelRequest, ModelResponse

__all__ = [
    "ModelCallFailed",
    "ModelCallFinished",
    "ModelCallStarted",
    "Observer",
    "RunEvent",
    "RunFinished",
    "RunStarted",
    "RunWarning",
    "StepFinished",
    "StepRetrying",
    "StepStarted",
    "TextEmitted",
    "ToolCallFinished",
    "ToolCallStarted",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStarted:
    """A run begins. ``steps`` are the ids of all its steps, in the order of the document."""

    run_id: str
    workflow_name: str
    steps: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepStarted:
    """An attempt of a step begins; attempts count from 1."""

    run_id: str
    step_id: str
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRetrying:
    """An attempt failed and the next one follows after ``wait`` seconds."""

    run_id: str
    step_id: str
    attempt: int
    error: str
    wait: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFinished:
    """A step has settled (succeeded, failed, timed out, was skipped or cancelled), or pauses."""

    run_id: str
    step_id: str
    result: StepResult


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCallStarted:
    """A request goes to a provider."""

    run_id: str
    step_id: str
    provider: str
    request: ModelRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCallFinished:
    """A provider answered in full; ``seconds`` from the request to the last event."""

    run_id: str
    step_id: str
    response: ModelResponse
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCallFailed:
    """A call of a provider raised."""

    run_id: str
    step_id: str
    provider: str
    error: str
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallStarted:
    """A tool is about to run."""

    run_id: str
    step_id: str
    call_id: str
    tool_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallFinished:
    """A tool gave a result, or failed with ``error``."""

    run_id: str
    step_id: str
    call_id: str
    tool_name: str
    seconds: float
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TextEmitted:
    """A piece of a streamed reply. Pieces of one step come in order; parallel steps interleave."""

    run_id: str
    step_id: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunWarning:
    """Something that did not stop the run and that its owner should know."""

    run_id: str
    step_id: str | None
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFinished:
    """The run is over; nothing follows."""

    run_id: str
    result: RunResult


RunEvent = (
    RunStarted
    | StepStarted
    | StepRetrying
    | StepFinished
    | ModelCallStarted
    | ModelCallFinished
    | ModelCallFailed
    | ToolCallStarted
    | ToolCallFinished
    | TextEmitted
    | RunWarning
    | RunFinished
)


class Observer(Protocol):
    """Sees everything that happens in a run, and changes nothing.

    What happens in a child run is told under the outermost run's id and a dotted step id, such as ``sub.draft``.

    Each observer has its own task and bounded queue: a slow one does not slow the run down. When its queue
    is full, text pieces are joined; nothing else is ever dropped. One that raises is named in a warning and
    hears nothing more of that run; the run goes on.
    """

    async def observe(self, event: RunEvent) -> None:
        """Called with one event at a time, in order, the last being :class:`RunFinished`."""
        ...
