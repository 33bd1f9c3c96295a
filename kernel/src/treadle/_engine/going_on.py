"""A step that an earlier process of the run has begun or finished."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from treadle._engine.meter import Meter
from treadle._engine.progress import Progress
from treadle._engine.resuming import Record, StepRecord
from treadle._engine.slots import Slot
from treadle._language import StatePath
from treadle.contracts.events import StepStarted
from treadle.contracts.step import Step, StepOutcome
from treadle.redaction import has_placeholder

if TYPE_CHECKING:
    from treadle._document import Workflow
    from treadle._engine.children import ParentStep
    from treadle._engine.run import Run

__all__ = ["below", "go_on", "record_answers", "record_start", "restore", "time_left", "time_used"]


def restore(run: Run, index: int, step: Step, sees: int, kept: StepRecord) -> None:
    """Settle a step that succeeded in an earlier process."""
    assert kept.result is not None
    outcome = kept.outcome
    writes = [] if step.output is None else [(step.output, outcome.value)]
    writes += [(StatePath.parse_state(path), value) for path, value in outcome.writes.items()]
    fixed = run._earlier.fixed if run._earlier and not run._parent else ()
    for parsed, value in writes:
        if parsed.root in fixed:
            continue
        given = has_placeholder(value) and len(parsed.parts) == 1 and parsed.root in run._given
        run._state.prepare(run._graph.rank[index], sees, [(parsed, run._given[parsed.root] if given else value)])()
    if run._parent:
        run._parent.meter.add(kept.result.usage, kept.result.cost_usd)
    not_taken = (run._graph.number[name] for name in outcome.not_taken if name in run._graph.number)
    run._progress[step.id] = Progress(0.0, Meter(), Slot(run._slots))  # as of any step that settles
    run._settle(index, kept.result, frozenset(not_taken))


def go_on(run: Run, step: Step, progress: Progress, kept: StepRecord) -> bool:
    """Take a step up where an earlier process left it. True where it must wait to be told what became of a call."""
    assert run._earlier is not None
    path = run._path(step.id)
    below_goes_on = not kept.is_under_way and run._earlier.is_unfinished_below(path)
    if not kept.is_under_way:
        kept.end_attempt(() if below_goes_on else run._earlier.forget_below(path))
        progress.before = kept.attempt
    progress.attempt, progress.done = kept.attempt, kept.done_calls(run.tool)
    progress.questions = run._earlier.gates.of(run._path(step.id))
    progress.meter.add(kept.spent.usage, kept.spent.cost_usd)
    kept.count(progress.meter)
    if not kept.is_under_way:
        run._begin_attempt(step, progress)
        progress.kept = kept if below_goes_on else None
        return False
    progress.kept = kept
    if run.hub.active:
        run.hub.send(StepStarted(run_id=run.run_id, step_id=step.id, attempt=progress.attempt))
    questions = kept.questions(run.tool)
    if questions:
        progress.slot.give_back()
        run._pause(step, StepOutcome(pending=questions), (), progress)
    return bool(questions)


def below(parent: ParentStep) -> Record | None:
    """The record of an earlier process, where the attempt that runs a child was begun by that."""
    return parent.run._earlier if parent.run._progress[parent.step_id].kept else None


def record_start(run: Run, attempt: int, workflow: Workflow, state: Mapping[str, Any]) -> None:
    """Record that the run begins, or goes on."""
    earlier = run._earlier
    if earlier is None or run._parent:
        data: dict[str, Any] = {"workflow": workflow, "state": state}
        if not run._parent and (tools := {*run._tools, *run.session.host.own_tools()}):
            data["tools"] = sorted(tools)
        run.record("run_started", "", attempt, 0, data)
        return
    given = {name: value for name, value in state.items() if name in run._given}
    run.record(
        "run_resumed",
        "",
        0,
        0,
        {"workflow": workflow, "state": given, "assumed": earlier.assumed, "after": earlier.length},
    )
    record_answers(run)


def record_answers(run: Run) -> None:
    """Record what is newly answered, so that nobody is asked again, whoever goes on with the run."""
    if run._earlier and ((gates := run._earlier.gates).answered or gates.expired):
        run._note_concealed()
        told = {"answers": gates.answered, "expired": gates.expired, "after": run._earlier.length}
        run.record("answered", "", 0, 0, told)


def time_used(run: Run) -> float:
    """Seconds that earlier processes have spent on the run."""
    return run._earlier.elapsed if run._earlier and not run._parent else 0.0


def time_left(run: Run, limit: float) -> float:
    """Of its limit. A run that was out of time gets it anew, or it could not go on at all."""
    anew = run._earlier is not None and run._earlier.is_timed_out
    return limit if anew else max(0.0, limit - time_used(run))
