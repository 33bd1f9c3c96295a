"""What a step sees of the steps before it, and whether by that it is to run."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from treadle._engine.context import evaluate
from treadle._engine.failures import Failure
from treadle._engine.meter import Meter
from treadle._engine.progress import Progress
from treadle._engine.slots import Slot
from treadle._engine.state import StateView
from treadle.contracts.results import StepStatus
from treadle.contracts.step import Step
from treadle.errors import ExpressionError

if TYPE_CHECKING:
    from treadle._engine.run import Run

__all__ = ["StepsView", "is_wanted"]


def is_wanted(run: Run, index: int, step: Step, sees: int) -> bool:
    """Whether the step's ``when`` is true. Where it is not, or cannot be told, the step settles here."""
    assert step.when is not None
    steps = StepsView(run, sees)
    try:
        names = {"state": StateView(run._state, sees, steps), "steps": steps}
        if evaluate(step.when, names, partial(run.warn, step.id)):
            return True
    except ExpressionError as error:
        run._progress[step.id] = progress = Progress(run._now(), Meter(), Slot(run._slots))
        run._fail(index, step, Failure.of(error, step.retry), progress)
        return False
    run._note_skipped(step.id, f"when: {step.when.source} is not true")
    for skipped in run._settling.settle(index, StepStatus.SKIPPED):
        run._skip(skipped)
    return False


class StepsView(Mapping[str, Any]):
    """``steps.<id>`` as one step sees it: output and status of each ancestor that made something or failed."""

    __slots__ = ("_run", "_sees")

    def __init__(self, run: Run, sees: int) -> None:
        self._run = run
        self._sees = sees

    def __getitem__(self, step_id: str) -> Any:
        result = self._run._results.get(step_id)
        graph = self._run._graph
        if result is None or not self._sees >> graph.rank[graph.number[step_id]] & 1:
            raise KeyError(step_id)
        if result.output is None and result.status is StepStatus.SUCCESS:
            raise KeyError(step_id)
        return {"output": result.output, "status": str(result.status)}

    def __iter__(self) -> Any:
        return (step.id for step in self._run._graph.steps if step.id in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __contains__(self, step_id: object) -> bool:
        try:
            self[step_id]  # type: ignore[index]  # a key that is not text is simply not there
        except KeyError:
            return False
        return True
