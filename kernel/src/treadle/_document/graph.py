"""The graph of a workflow's steps, by number."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
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
    :param gates: for each step, those of its dependencies that may decide that it does not run.
    :param earlier: for each step, all that it starts after and sees the writes of: its dependencies, and those whose
        outcome is nothing to it.
    :param later: for each step, all that start after it.
    """

    steps: tuple[Step, ...]
    number: Mapping[str, int]
    rank: Sequence[int]
    dependencies: tuple[tuple[int, ...], ...]
    gates: tuple[tuple[int, ...], ...]
    earlier: tuple[tuple[int, ...], ...]
    later: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, steps: Sequence[Step], order: Iterable[tuple[str, str]] = ()) -> Graph:
        """The graph of checked steps: ids are unique, dependencies exist, nothing waits for itself.

        ``order`` are the order-only edges, each from the earlier step to the later one; a dependency is none.
        """
        number = {step.id: index for index, step in enumerate(steps)}
        dependencies = tuple(
            tuple(number[each] for each in dict.fromkeys(step.depends_on)) if step.depends_on else () for step in steps
        )
        gates: list[tuple[int, ...]] = [()] * len(steps)
        for index, step in enumerate(steps):
            for target in step.targets():
                gated = number[target]
                if index in dependencies[gated]:
                    gates[gated] += (index,)
        earlier = dependencies
        if edges := [(number[first], number[second]) for first, second in order]:
            starts_after = [dict.fromkeys(each) for each in dependencies]
            for first, second in edges:
                starts_after[second][first] = None
            earlier = tuple(map(tuple, starts_after))
        later: list[list[int]] = [[] for _ in steps]
        for index, each in enumerate(earlier):
            for one in each:
                later[one].append(index)
        return cls(
            tuple(steps), number, _ranks(earlier, later), dependencies, tuple(gates), earlier, tuple(map(tuple, later))
        )


def _ranks(earlier: Sequence[Sequence[int]], later: Sequence[Sequence[int]]) -> Sequence[int]:
    """Kahn's algorithm, the first of the document first."""
    count = len(earlier)
    if all(not each or max(each) < index for index, each in enumerate(earlier)):
        return range(count)  # as most documents are written
    waiting = [len(each) for each in earlier]
    ready = [index for index in range(count) if not waiting[index]]
    ranks = [0] * count
    for rank in range(count):
        index = heappop(ready)
        ranks[index] = rank
        for each in later[index]:
            waiting[each] -= 1
            if not waiting[each]:
                heappush(ready, each)
    return ranks
