"""The graph of a workflow's steps, by number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from treadle.contracts.step import Step

__all__ = ["Graph"]


@dataclass(frozen=True, slots=True)
class Graph:
    """Steps are numbered in the order of the document.

    :param number: each step's number, by id.
    :param dependencies: for each step, those it waits for.
    :param dependents: for each step, those that wait for it.
    :param gates: for each step, those of its dependencies that may decide that it does not run.
    """

    steps: tuple[Step, ...]
    number: Mapping[str, int]
    dependencies: tuple[tuple[int, ...], ...]
    dependents: tuple[tuple[int, ...], ...]
    gates: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, steps: Sequence[Step]) -> Graph:
        """The graph of checked steps: ids are unique, dependencies exist, nothing waits for itself."""
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
        return cls(tuple(steps), number, dependencies, tuple(map(tuple, dependents)), tuple(gates))
