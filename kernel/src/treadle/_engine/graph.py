"""The graph of a workflow's steps, by number."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from heapq import heappop, heappush

from treadle._dataclasses import dataclass
from treadle.contracts.step import Step

__all__ = ["Graph"]


@dataclass(frozen=True, slots=True)
class Graph:
    """Steps are numbered in the order of the document.

    :param number: each step's number, by id.
    :param rank: each step's place in an order in which it comes after all that it waits for, and which otherwise is
        that of the document.
    :param dependencies: for each step, those it waits for.
    :param dependents: for each step, those that wait for it.
    :param gates: for each step, those of its dependencies that may decide that it does not run.
    :param after: for each step, those it starts after and sees the writes of, whatever becomes of them.
    :param followers: for each step, those that start after it in that way.
    """

    steps: tuple[Step, ...]
    number: Mapping[str, int]
    rank: Sequence[int]
    dependencies: tuple[tuple[int, ...], ...]
    dependents: tuple[tuple[int, ...], ...]
    gates: tuple[tuple[int, ...], ...]
    after: tuple[tuple[int, ...], ...]
    followers: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, steps: Sequence[Step], order: Iterable[tuple[str, str]] = ()) -> Graph:
        """The graph of checked steps: ids are unique, dependencies exist, nothing waits for itself.

        ``order`` are the order-only edges, each from the earlier step to the later one; a dependency is none.
        """
        number = {step.id: index for index, step in enumerate(steps)}
        dependencies = tuple(
            tuple(number[each] for each in dict.fromkeys(step.depends_on)) if step.depends_on else () for step in steps
        )
        dependents: list[list[int]] = [[] for _ in steps]
        for index, waits_for in enumerate(dependencies):
            for dependency in waits_for:
                dependents[dependency].append(index)
        gates: list[tuple[int, ...]] = [()] * len(steps)
        for index, step in enumerate(steps):
            for target in step.targets():
                gated = number[target]
                if index in dependencies[gated]:
                    gates[gated] += (index,)
        after: list[dict[int, None]] = [{} for _ in steps]
        followers: list[list[int]] = [[] for _ in steps]
        for earlier, later in order:
            first, second = number[earlier], number[later]
            if first not in dependencies[second] and first not in after[second]:
                after[second][first] = None
                followers[first].append(second)
        return cls(
            tuple(steps),
            number,
            _ranks(dependencies, after, dependents, followers),
            dependencies,
            tuple(map(tuple, dependents)),
            tuple(gates),
            tuple(map(tuple, after)),
            tuple(map(tuple, followers)),
        )


def _ranks(
    dependencies: Sequence[Sequence[int]],
    after: Sequence[Collection[int]],
    dependents: Sequence[Sequence[int]],
    followers: Sequence[Sequence[int]],
) -> Sequence[int]:
    """Kahn's algorithm, the first of the document first."""
    count = len(dependencies)
    if all(all(each < index for each in (*dependencies[index], *after[index])) for index in range(count)):
        return range(count)  # as most documents are written
    waiting = [len(dependencies[index]) + len(after[index]) for index in range(count)]
    ready = [index for index in range(count) if not waiting[index]]
    ranks = [0] * count
    for rank in range(count):
        index = heappop(ready)
        ranks[index] = rank
        for later in (*dependents[index], *followers[index]):
            waiting[later] -= 1
            if not waiting[later]:
                heappush(ready, later)
    return ranks
