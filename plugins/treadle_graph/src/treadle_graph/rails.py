"""The rails of a text drawing: which lines run beside which rows of steps.

One row is one step; a step comes after those it waits for. Steps that wait for one other alone hang on its *bus*, which
begins at its row, on the left, and passes by theirs. Steps that wait for the same several others share a bus on the
right, which begins at the first of the others. So a fan of any width takes one rail on either side. Where one step
alone hangs on another, and stands right below it, a plain line joins the two.

Rails are numbered from 1, the nearest to the steps. A bus for which no rail is left is not drawn; its steps are named.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict
from dataclasses import dataclass, field
from enum import Enum

from treadle_graph.dag import Dag

__all__ = ["Event", "Mark", "Rails", "lay"]


class Mark(Enum):
    """What a bus does at a row: it takes its first line in, takes another, gives one, or gives its last."""

    BEGIN = "begin"
    JOIN = "join"
    GIVE = "give"
    END = "end"


@dataclass(frozen=True, slots=True)
class Event:
    """``rail`` counts from 1 on its side."""

    rail: int
    mark: Mark


@dataclass(frozen=True, slots=True)
class _Bus:
    """Steps by row, sorted: those it comes from and those it leads to, all of which come later."""

    sources: tuple[int, ...]
    targets: tuple[int, ...]

    @property
    def first(self) -> int:
        return self.sources[0]

    @property
    def last(self) -> int:
        return self.targets[-1]


@dataclass(slots=True)
class Rails:
    """The plan of a drawing.

    :param order: the step of each row.
    :param joined: rows that are joined to the row above.
    :param left: events by row. ``right`` likewise.
    :param named: steps whose parents are to be named, as no line leads to them.
    """

    order: list[int]
    joined: set[int] = field(default_factory=set)
    left: dict[int, list[Event]] = field(default_factory=dict)
    right: dict[int, list[Event]] = field(default_factory=dict)
    named: set[int] = field(default_factory=set)


def lay(dag: Dag, most: int) -> Rails:
    """Plan the rails, at most so many on each side."""
    order = dag.order()
    row = [0] * len(order)
    for index, node in enumerate(order):
        row[node] = index
    only_children: dict[int, list[int]] = defaultdict(list)
    groups: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for index, node in enumerate(order):
        parents = dag.parents[node]
        if len(parents) == 1:
            only_children[row[parents[0]]].append(index)
        elif parents:
            groups[parents].append(index)
    rails = Rails(order)
    left: list[_Bus] = []
    for source, targets in only_children.items():
        if targets == [source + 1]:
            rails.joined.add(source + 1)
        else:
            left.append(_Bus((source,), tuple(targets)))
    right = [_Bus(tuple(sorted(row[each] for each in sources)), tuple(targets)) for sources, targets in groups.items()]
    rails.left = _assign(left, most, rails)
    rails.right = _assign(right, most, rails)
    return rails


def _assign(buses: list[_Bus], most: int, rails: Rails) -> dict[int, list[Event]]:
    """Give each bus the nearest rail that is free, short ones first, so that long ones run around them."""
    taken: list[list[tuple[int, int]]] = [[] for _ in range(most)]
    events: dict[int, list[Event]] = defaultdict(list)
    for bus in sorted(buses, key=lambda bus: (bus.last - bus.first, bus.first)):
        rail = next((number for number, spans in enumerate(taken, 1) if _is_free(spans, bus)), None)
        if rail is None:
            rails.named.update(rails.order[target] for target in bus.targets)
            continue
        insort(taken[rail - 1], (bus.first, bus.last))
        for source in bus.sources:
            events[source].append(Event(rail, Mark.BEGIN if source == bus.first else Mark.JOIN))
        for target in bus.targets:
            events[target].append(Event(rail, Mark.END if target == bus.last else Mark.GIVE))
    return events


def _is_free(spans: list[tuple[int, int]], bus: _Bus) -> bool:
    """Whether none of the spans, which do not meet each other, meets the bus's."""
    place = bisect_left(spans, (bus.first, bus.last))
    after = place < len(spans) and spans[place][0] <= bus.last
    before = place > 0 and spans[place - 1][1] >= bus.first
    return not (after or before)
