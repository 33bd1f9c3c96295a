"""How far a run is, made from its events. Knows no clock and no screen."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
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
from treadle_cli.pending import waits_for

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


_MOST_DONE_BELOW = 10
"""Steps of its child runs that are done and that a step keeps. Where there are more, they are only counted."""

_OVER = (Phase.DONE, Phase.SKIPPED)

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

    :param label: its id as seen from the step whose child run it is in; the id itself in the outermost run.
    :param depth: how many steps it is below, by their child runs.
    :param children: steps of its child runs, in the order in which they began.
    :param counted: how many more there were, which are done.
    :param started: when its first attempt began, on the clock of the caller.
    :param seconds: how long it took, once it has settled.
    :param retry_at: when its next attempt begins, while it waits for that.
    :param tokens: those of the calls that have ended; None where a call did not say.
    :param cost_usd: known once it has settled; None where it is unknown.
    :param settled: its number in the order of settling, 0 before.
    """

    id: str
    type: str
    label: str = ""
    depth: int = 0
    children: dict[str, StepProgress] = field(default_factory=dict)
    counted: int = 0
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
        if self.counted:
            parts.append(f"{self.counted + sum(each.phase in _OVER for each in self.children.values())} steps done")
        parts.append(self.activity if self.phase is Phase.RUNNING else self.reason)
        return ", ".join(part for part in parts if part)


class Progress:
    """Every step of a run, in the order of the document, and those of its child runs as far as they matter now."""

    def __init__(self, steps: Iterable[tuple[str, str]], started: float) -> None:
        """``steps`` are ids with types; ``started`` is when the run began, on the clock of the caller."""
        self.started = started
        self._steps = {step_id: StepProgress(step_id, step_type, step_id) for step_id, step_type in steps}
        self._own = list(self._steps.values())
        self._settled = 0

    def rows(self) -> Iterator[StepProgress]:
        """The steps, each followed by those of its child runs."""
        left = self._own[::-1]
        while left:
            step = left.pop()
            yield step
            # Where some are only counted, so are all that are done: the latest few of many tell nothing.
            shown = (each for each in reversed(step.children.values()) if not (step.counted and each.phase in _OVER))
            left.extend(shown)

    @property
    def total(self) -> int:
        """How many steps the outermost run has."""
        return len(self._own)

    @property
    def settled_count(self) -> int:
        """How many of those have settled."""
        return sum(step.settled > 0 for step in self._own)

    def apply(self, event: RunEvent, now: float) -> None:
        """Take in an event."""
        if isinstance(event, RunStarted):
            self.started = now
            return
        step_id = getattr(event, "step_id", None) or ""
        step = self._steps.get(step_id)
        if step is None and isinstance(event, StepStarted | StepFinished):
            step = self._of_child(step_id)
        if step is None:
            return
        match event:
            case StepStarted(attempt=1):
                # The first may come again: where the step above is repeated, so is its child run.
                step.started, step.tokens, step.cost_usd, step.settled, step.reason = now, 0, 0.0, 0, ""
                step.counted = 0
                step.phase, step.attempt, step.activity = Phase.RUNNING, 1, ""
            case StepStarted():
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

    def _of_child(self, step_id: str) -> StepProgress | None:
        """A step of a child run, below the step with the longest id that its own begins with."""
        above_id = step_id
        while above_id:
            above_id = above_id.rpartition(".")[0]
            if above := self._steps.get(above_id):
                step = StepProgress(step_id, "", step_id[len(above_id) + 1 :], above.depth + 1)
                self._steps[step_id] = above.children[step_id] = step
                return step
        return None

    def _settle(self, step: StepProgress, result: StepResult) -> None:
        self._settled += 1
        step.settled = self._settled
        step.phase = _PHASES[result.status]
        step.seconds = result.duration_ms / 1000
        step.attempt = result.attempts
        step.tokens = result.usage.total_tokens
        step.cost_usd = result.cost_usd
        step.reason = result.reason or (result.error if step.phase is Phase.FAILED else None) or waits_for(result)
        above = self._steps.get(step.id.removesuffix(f".{step.label}"))
        if above is not None and step.phase in _OVER:
            self._count_done(above)

    def _count_done(self, above: StepProgress) -> None:
        """Of what is done below a step keep only as much as a person reads; a run may have any number of steps."""
        done = [each for each in above.children.values() if each.phase in _OVER]
        if len(done) <= _MOST_DONE_BELOW:
            return
        for step in done:
            del above.children[step.id], self._steps[step.id]
            above.counted += 1 + step.counted
            below = list(step.children.values())
            while below:
                each = below.pop()
                if each.phase in _OVER:
                    del self._steps[each.id]
                    above.counted += 1 + each.counted
                    below.extend(each.children.values())
                else:
                    each.label, each.depth = each.id[len(above.id) + 1 :], above.depth + 1
                    above.children[each.id] = each
