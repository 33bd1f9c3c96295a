"""Child runs: where they hang, and how what happens in them is told to the observers of the outermost run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from treadle._dataclasses import dataclass
from treadle._document import sandbox_block
from treadle.contracts.events import RunEvent, RunFinished, RunStarted, StepFinished

if TYPE_CHECKING:
    import trio
    from pydantic import BaseModel

    from treadle._engine.meter import Meter
    from treadle._engine.observers import Hub
    from treadle._engine.run import Run
    from treadle._engine.state import StateView
    from treadle.contracts.budget import Budget
    from treadle.contracts.sandbox import Sandbox

__all__ = ["ChildHub", "ParentStep", "block_of"]


@dataclass(frozen=True, slots=True)
class ParentStep:
    """The attempt of a step that runs a child, under ``key`` where it runs several; over ``state``, if any."""

    run: Run
    step_id: str
    attempt: int
    key: str
    meter: Meter
    state: StateView | None = None
    budgets: Sequence[Budget] = ()

    @property
    def path(self) -> str:
        """What stands before the ids of the child's steps, as seen from the parent."""
        return f"{self.step_id}.{self.key}" if self.key else self.step_id


class ChildHub:
    """Tells the outermost run's observers of a child, under dotted step ids.

    That the child begins and ends they hear as the start and end of the parent step: a run has one
    :class:`RunStarted` and one :class:`RunFinished`.
    """

    def __init__(self, hub: Hub | ChildHub, run_id: str, path: str) -> None:
        self._hub = hub
        self._run_id = run_id
        self._path = path

    @property
    def active(self) -> bool:
        """Whether anybody listens."""
        return self._hub.active

    def start(self, nursery: trio.Nursery) -> None:
        """Nothing: the tasks are the outermost run's."""

    def send(self, event: RunEvent) -> None:
        """Queue an event for every observer. Never waits."""
        if isinstance(event, RunStarted | RunFinished):
            return
        path = self._path if event.step_id is None else f"{self._path}.{event.step_id}"
        if isinstance(event, StepFinished):
            pending = tuple(replace(each, step_id=f"{self._path}.{each.step_id}") for each in event.result.pending)
            event = replace(event, result=replace(event.result, step_id=path, pending=pending))
        self._hub.send(replace(event, run_id=self._run_id, step_id=path))

    def close(self) -> None:
        """Nothing: the outermost run goes on."""


def block_of(run: Run, kind: type[Sandbox]) -> BaseModel:
    """What the sandbox holds a run to: its own block within the deployment's, and within every outer run's."""
    missing = [run]
    while run._sandbox_block is None and run._parent is not None:
        run = run._parent.run
        missing.append(run)
    outer = missing.pop()._sandbox_block if run._sandbox_block is not None else None
    for run in reversed(missing):
        block = sandbox_block(run.workflow.host, kind, run.config.sandbox or {})
        outer = run._sandbox_block = block if outer is None else kind.combine(outer, block)
    assert outer is not None
    return outer
