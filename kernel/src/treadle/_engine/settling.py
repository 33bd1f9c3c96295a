"""Which steps may start, and which are skipped, as steps settle."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import field

from treadle._dataclasses import dataclass
from treadle._document.graph import Graph
from treadle.contracts.results import StepStatus

__all__ = ["Settling", "Skipped"]

_NONE: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Skipped:
    """A step that will not run, and why."""

    index: int
    reason: str


@dataclass(slots=True)
class Settling:
    """Decides as steps settle. Knows no time and runs nothing.

    A step is decided when everything it waits for has settled:

    1. A router that it is a target of did not choose it: skipped.
    2. Something it waits for failed, or was skipped because of a failure: skipped, naming the nearest failed
       step, unless failures are to be passed over.
    3. Something it waits for was skipped because of a router: skipped, naming the router, unless another thing it
       waits for lies on that router's taken branch and succeeded. So a join after a branch runs.
    4. Something it waits for was skipped by its own ``when``: skipped, naming that, unless another thing it waits for
       succeeded.
    5. Otherwise it may start.

    What it only starts after must have settled too, and has no part in the decision. A paused step has not settled:
    what waits for it is not decided, and everything else goes on.
    """

    graph: Graph
    pass_over_failures: bool = False
    status: list[StepStatus] = field(init=False)
    _waiting: list[int] = field(init=False)
    _not_taken: dict[int, frozenset[int]] = field(init=False, default_factory=dict)
    _branch: list[frozenset[int]] = field(init=False)
    _skipped_by: list[frozenset[int]] = field(init=False)
    _has_routers: bool = field(init=False)
    _is_plain: bool = field(init=False)
    """So far every step that has settled succeeded, and none can decide about others: so nothing is skipped."""
    _blamed: dict[int, tuple[int, int]] = field(init=False, default_factory=dict)
    """For a step skipped because of a failure: how many steps away the nearest failed one is, and which."""
    _ready: deque[int] = field(init=False, default_factory=deque)

    def __post_init__(self) -> None:
        count = len(self.graph.steps)
        self.status = [StepStatus.PENDING] * count
        self._waiting = [len(each) for each in self.graph.earlier]
        self._branch = [_NONE] * count
        self._skipped_by = [_NONE] * count
        self._has_routers = any(self.graph.gates)
        self._is_plain = not self._has_routers
        self._ready.extend(index for index, waiting in enumerate(self._waiting) if not waiting)

    def next_ready(self) -> int:
        """A step that may start, in the order in which they became ready; only where there is one."""
        return self._ready.popleft()

    @property
    def has_ready(self) -> bool:
        """Whether a step may start."""
        return bool(self._ready)

    def settle(self, index: int, status: StepStatus, not_taken: frozenset[int] = _NONE) -> Sequence[Skipped]:
        """A step has run, or was skipped by its own ``when``.

        Gives the steps that are skipped in consequence; those that may start become ready.
        """
        self.status[index] = status
        if self._is_plain and status is StepStatus.SUCCESS:
            for later in self.graph.later[index]:
                self._waiting[later] -= 1
                if not self._waiting[later]:
                    self._ready.append(later)
            return ()
        self._is_plain = False
        if status is StepStatus.SKIPPED:  # by its own ``when``
            self._skipped_by[index] = frozenset({index})
        if not_taken:
            self._not_taken[index] = not_taken
        if self._has_routers:
            self._branch[index] = self._branch_of(index)
        return self._settle_later(index)

    def _settle_later(self, index: int) -> list[Skipped]:
        skipped = []
        pending = [index]
        while pending:
            for later in self.graph.later[pending.pop()]:
                self._waiting[later] -= 1
                if self._waiting[later]:
                    continue
                reason = self._why_skip(later)
                if reason is None:
                    self._ready.append(later)
                else:
                    self.status[later] = StepStatus.SKIPPED
                    skipped.append(Skipped(later, reason))
                    pending.append(later)
        return skipped

    def _branch_of(self, index: int) -> frozenset[int]:
        """The routers on whose taken branch a step lies that has run."""
        branch = _NONE
        for dependency in self.graph.dependencies[index]:
            if self._branch[dependency] and self._branch[dependency] is not branch:
                branch = branch | self._branch[dependency] if branch else self._branch[dependency]
        gates = [gate for gate in self.graph.gates[index] if self.status[gate] is StepStatus.SUCCESS]
        return branch.union(gates) if gates else branch

    def _why_skip(self, index: int) -> str | None:
        graph = self.graph
        if graph.gates[index]:
            refusing = frozenset(
                gate
                for gate in graph.gates[index]
                if index in self._not_taken.get(gate, _NONE) or gate in self._skipped_by[gate]
            )
            if refusing:
                self._skipped_by[index] = refusing
                return f"{self._names(refusing)} did not choose it"
        unexcused: frozenset[int] = _NONE
        blamed: tuple[int, int] | None = None
        for dependency in graph.dependencies[index]:
            status = self.status[dependency]
            if status is StepStatus.SUCCESS:
                continue
            routers = self._skipped_by[dependency]
            if routers:
                unexcused |= routers
            elif not self.pass_over_failures:
                distance, failed = self._blamed.get(dependency, (0, dependency))
                if blamed is None or distance + 1 < blamed[0]:
                    blamed = (distance + 1, failed)
        if blamed is not None:
            self._blamed[index] = blamed
            return f"step '{graph.steps[blamed[1]].id}' failed"
        if unexcused:
            for dependency in graph.dependencies[index]:
                if self.status[dependency] is StepStatus.SUCCESS:
                    skipped = frozenset(each for each in unexcused if each in self._skipped_by[each])
                    unexcused -= self._branch[dependency] | skipped
        if unexcused:
            self._skipped_by[index] = unexcused
            if all(each in self._skipped_by[each] for each in unexcused):
                return f"it follows {self._names(unexcused)}, which was skipped"
            return f"it follows a branch that {self._names(unexcused)} did not choose"
        return None

    def _names(self, routers: frozenset[int]) -> str:
        return ", ".join(f"'{self.graph.steps[router].id}'" for router in sorted(routers))
