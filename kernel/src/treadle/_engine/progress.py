"""How far a step that runs has come."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from treadle._asking import NOTHING_ASKED, Questions
from treadle._engine.done_calls import DoneCalls
from treadle._engine.meter import Meter

if TYPE_CHECKING:
    from treadle._engine.resuming import StepRecord
    from treadle._engine.slots import Slot
    from treadle.contracts.budget import Budget
    from treadle.contracts.results import Pending
    from treadle.errors import BudgetExceededError

__all__ = ["Progress"]


class Progress:
    """Of one step, over its attempts. A step has one while it is at work.

    :ivar started: by the run's clock.
    :ivar attempt: the one under way, from 1.
    :ivar before: attempts of a run that had failed, and is gone on with.
    :ivar kept: the record of an attempt that goes on, which another process has begun.
    :ivar questions: what earlier attempts asked.
    :ivar children: keys of the child runs of the attempt.
    :ivar pending: what its paused children wait for.
    :ivar exceeded: budgets around the step that its children have used up. It fails by them once it has ended by
        itself.
    """

    __slots__ = (
        "_done",
        "_model_ordinals",
        "_tool_ordinals",
        "attempt",
        "before",
        "budgets",
        "children",
        "exceeded",
        "kept",
        "meter",
        "pending",
        "questions",
        "slot",
        "started",
    )

    def __init__(self, started: float, meter: Meter, slot: Slot, budgets: Sequence[Budget] = ()) -> None:
        self.started = started
        self.meter = meter
        self.slot = slot
        self.budgets = budgets
        self.attempt = 0
        self.before = 0
        self.kept: StepRecord | None = None
        self.questions: Questions = NOTHING_ASKED
        self._done: DoneCalls | None = None
        self._tool_ordinals: Iterator[int] | None = None
        self._model_ordinals: Iterator[int] | None = None
        self.children: set[str] = set()
        self.pending: list[Pending] = []
        self.exceeded: list[BudgetExceededError] = []

    def begin_attempt(self) -> None:
        """The next one, with nothing of the one before it but what that did once and for all."""
        self.attempt += 1
        if self.attempt == 1:
            return
        self.kept = self._tool_ordinals = self._model_ordinals = None
        self.children = set()
        self.pending, self.exceeded = [], []
        if self._done is not None:
            self._done.begin_attempt()

    @property
    def done(self) -> DoneCalls:
        """What the attempts did with ``once`` tools."""
        if self._done is None:
            self._done = DoneCalls()
        return self._done

    @done.setter
    def done(self, before: DoneCalls) -> None:
        self._done = before

    # What an earlier process began in the attempt keeps its number.

    @property
    def tool_ordinals(self) -> Iterator[int]:
        """Numbers for the tool calls of the attempt."""
        if self._tool_ordinals is None:
            self._tool_ordinals = itertools.count(self.kept.next_ordinal(self.kept.tool_calls) if self.kept else 1)
        return self._tool_ordinals

    @property
    def model_ordinals(self) -> Iterator[int]:
        """Numbers for the model calls of the attempt."""
        if self._model_ordinals is None:
            self._model_ordinals = itertools.count(self.kept.next_ordinal(self.kept.model_calls) if self.kept else 1)
        return self._model_ordinals
