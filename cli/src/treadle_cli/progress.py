"""How far a run is, made from its events. Knows no clock and no screen."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from treadle import RunEvent, StepResult, StepStatus
from treadle.contracts.events import (
    ModelCallFailed,
    ModelCallFinished,
    ModelCallStarted,
    RunStarted,
    StepFinished,
    StepRetrying,
    StepStarted,
    TextEmitted,
    ToolCallFinished,
    ToolCallStarted,
)

__all__ = ["Phase", "Progress", "StepProgress"]


class Phase(Enum):
    """Where a step stands on the screen."""

    WAITING = "waiting"
    RUNNING = "running"
    RETRYING = "retrying"
    DONE = "done"
    FAILED = "failed"
    SKIPPED = "skipped"
    PAUSED = "paused"
    CANCELLED = "cancelled"


_PHASES = {
    StepStatus.PENDING: Phase.WAITING,
    StepStatus.RUNNING: Phase.RUNNING,
    StepStatus.SUCCESS: Phase.DONE,
    StepStatus.FAILED: Phase.FAILED,
    StepStatus.TIMEOUT: Phase.FAILED,
    StepStatus.SKIPPED: Phase.SKIPPED,
    StepStatus.PAUSED: Phase.PAUSED,
    StepStatus.CANCELLED: Phase.CANCELLED,
}


@dataclass(slots=True)
class StepProgress:
    """One step.

    :param started: when its first attempt began, on the clock of the caller.
    :param seconds: how long it took, once it has settled.
    :param retry_at: when its next attempt begins, while it waits for that.
    :param tokens: those of the calls that have ended; None where a call did not say.
    :param cost_usd: known once it has settled; None where it is unknown.
    :param settled: its number in the order of settling, 0 before.
    """

    id: str
    type: str
    phase: Phase = Phase.WAITING
    started: float = 0.0
    seconds: float = 0.0
    attempt: int = 0
    retry_at: float = 0.0
    tokens: int | None = 0
    cost_usd: float | None = 0.0
    settled: int = 0
    activity: str = ""
    reason: str = ""

    def elapsed(self, now: float) -> float:
        """Seconds since it began, or that it took."""
        return now - self.started if self.phase in (Phase.RUNNING, Phase.RETRYING) else self.seconds

    def note(self, now: float) -> str:
        """What is to be said of it beyond numbers."""
        if self.phase is Phase.RETRYING:
            return f"again in {max(0.0, self.retry_at - now):.0f} s: {self.reason}"
        parts = [f"attempt {self.attempt}" if self.attempt > 1 else ""]
        parts.append(self.activity if self.phase is Phase.RUNNING else self.reason)
        return ", ".join(part for part in parts if part)


class Progress:
    """Every step of a run, in the order of the document."""

    def __init__(self, steps: Iterable[tuple[str, str]], started: float) -> None:
        """``steps`` are ids with types; ``started`` is when the run began, on the clock of the caller."""
        self.started = started
        self.steps = {step_id: StepProgress(step_id, step_type) for step_id, step_type in steps}
        self._settled = 0

    def apply(self, event: RunEvent, now: float) -> None:
        """Take in an event."""
        if isinstance(event, RunStarted):
            self.started = now
            return
        step = self.steps.get(getattr(event, "step_id", None) or "")
        if step is None:
            return
        match event:
            case StepStarted():
                if step.attempt == 0:
                    step.started = now
                step.phase, step.attempt, step.activity = Phase.RUNNING, event.attempt, ""
            case StepRetrying():
                step.phase, step.reason, step.retry_at = Phase.RETRYING, event.error, now + event.wait
            case StepFinished():
                self._settle(step, event.result)
            case ModelCallStarted():
                step.activity = " ".join(part for part in (event.provider, event.request.model) if part)
            case TextEmitted():
                step.activity = "writing"
            case ModelCallFinished():
                step.activity = ""
                total = event.response.usage.total_tokens
                step.tokens = None if step.tokens is None or total is None else step.tokens + total
            case ToolCallStarted():
                step.activity = f"tool {event.tool_name}"
            case ModelCallFailed() | ToolCallFinished():
                step.activity = ""
            case _:
                pass

    def _settle(self, step: StepProgress, result: StepResult) -> None:
        self._settled += 1
        step.settled = self._settled
        step.phase = _PHASES[result.status]
        step.seconds = result.duration_ms / 1000
        step.attempt = result.attempts
        step.tokens = result.usage.total_tokens
        step.cost_usd = result.cost_usd
        step.reason = result.reason or (result.error if step.phase is Phase.FAILED else None) or ""

    @property
    def settled_count(self) -> int:
        """How many steps have settled."""
        return self._settled
