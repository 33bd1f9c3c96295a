"""How a run has ended, and what becomes of steps that it leaves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from treadle.contracts.results import RunStatus, StepResult, StepStatus

if TYPE_CHECKING:
    from treadle._engine.run import Run

__all__ = ["first_failed", "note_unfinished", "status_of"]


def note_unfinished(run: Run) -> None:
    """The run was ended: say of every step that has not settled what became of it."""
    for step in run._graph.steps:
        if step.id in run._results:
            continue
        progress = run._progress.get(step.id)
        if progress is None:
            reason = run._cancel_reason or "the budget was used up before it began"
            result = StepResult(step_id=step.id, status=StepStatus.SKIPPED, reason=reason)
            if run._earlier is not None and run._path(step.id) in run._earlier.steps:
                run._note(result)  # the journal knows more of it
                continue
        else:
            result = run._step_result(step.id, StepStatus.CANCELLED, progress)
        run.record("step_finished", step.id, progress.attempt if progress else 0, 0, {"result": result})
        run._note(result)


def status_of(run: Run) -> tuple[RunStatus, str | None]:
    """How the run has ended, and its error."""
    if run._cancel_reason is not None:
        return RunStatus.TIMEOUT if run._timed_out else RunStatus.CANCELLED, run._cancel_reason
    failed = first_failed(run)
    error = f"step '{failed.step_id}': {failed.error}" if failed else None
    if any(each.status is StepStatus.PAUSED for each in run._results.values()):
        return RunStatus.PAUSED, error
    if run.halted is not None:
        by = next((name for name, each in run._results.items() if each.exception is run.halted), None)
        return RunStatus.BUDGET_EXCEEDED, f"step '{by}': {run.halted}" if by else str(run.halted)
    return RunStatus.FAILED if failed else RunStatus.SUCCESS, error


def first_failed(run: Run) -> StepResult | None:
    """Of the steps that failed, the first in the document."""
    results = (run._results.get(step.id) for step in run._graph.steps)
    return next((each for each in results if each and each.status in (StepStatus.FAILED, StepStatus.TIMEOUT)), None)
