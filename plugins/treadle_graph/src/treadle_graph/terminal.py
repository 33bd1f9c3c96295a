"""Graphs as text for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from treadle_graph.rails import Event, Mark, lay
from treadle_graph.text import cell_width, cut, inner_graphs, short_label, visible

if TYPE_CHECKING:
    from treadle_graph.graph import GraphEdge, WorkflowGraph

__all__ = ["ASCII", "UNICODE", "Glyphs", "draw"]

LEAST_WIDTH = 40


@dataclass(frozen=True, slots=True)
class Glyphs:
    """What lines are made of. ``left`` and ``right`` are the marks of a bus on either side of the steps."""

    step: str
    choice: str
    down: str
    across: str
    left: Mapping[Mark, str]
    right: Mapping[Mark, str]
    into_from_left: str
    into_from_right: str
    waits_for: str
    cut: str

    @property
    def all(self) -> str:
        """Every character of them."""
        marks = "".join([*self.left.values(), *self.right.values()])
        return (
            f"{self.step}{self.choice}{self.down}{self.across}{marks}{self.into_from_left}{self.into_from_right}"
            f"{self.waits_for}{self.cut}"
        )


UNICODE = Glyphs(
    step="●",
    choice="◆",
    down="│",
    across="─",
    left={Mark.BEGIN: "╭", Mark.JOIN: "├", Mark.GIVE: "├", Mark.END: "╰"},
    right={Mark.BEGIN: "╮", Mark.JOIN: "┤", Mark.GIVE: "┤", Mark.END: "╯"},
    into_from_left="▸",
    into_from_right="◂",
    waits_for="←",
    cut="…",
)

ASCII = Glyphs(
    step="o",
    choice="?",
    down="|",
    across="-",
    left={Mark.BEGIN: ".", Mark.JOIN: "+", Mark.GIVE: "+", Mark.END: "`"},
    right={Mark.BEGIN: ".", Mark.JOIN: "+", Mark.GIVE: "+", Mark.END: "'"},
    into_from_left=">",
    into_from_right="<",
    waits_for="<-",
    cut="...",
)


def draw(graph: WorkflowGraph, *, width: int, ascii_only: bool) -> str:
    """See :meth:`WorkflowGraph.to_text`."""
    glyphs = ASCII if ascii_only else UNICODE
    width = max(LEAST_WIDTH, width)
    steps, longest = len(graph.nodes), len(graph.critical_path())
    title = cut(visible(graph.name), width - 30, glyphs.cut)
    counts = f"{steps:,} step{'' if steps == 1 else 's'}" + (f", longest path {longest:,}" if longest > 1 else "")
    head = [f"{title}: {counts}", ""] if steps else [f"{title}: {counts}"]
    lines = [*head, *_rows(graph, width, glyphs)]
    for path, inner in inner_graphs(graph):
        lines += ["", f"{cut(visible(path), width - 1, glyphs.cut)}:", *_rows(inner, width, glyphs)]
    return "".join(f"{line.rstrip()}\n" for line in lines)


def _rows(graph: WorkflowGraph, width: int, glyphs: Glyphs) -> Iterator[str]:
    rails = lay(graph.dag, most=(width * 2 // 5 - 3) // 4)
    gutter = _Gutter(rails.left, rails.right, glyphs)
    choices: dict[str, list[GraphEdge]] = {}
    for edge in graph.edges:
        if edge.by_choice:
            choices.setdefault(edge.target, []).append(edge)
    choosing = {edge.source for edges in choices.values() for edge in edges}
    names = [visible(node.id) for node in graph.nodes]
    types = [visible(node.type) for node in graph.nodes]
    room = width - gutter.width - 2
    columns = (_column(names, room // 2), _column(types, min(16, room // 4)))
    for index, step in enumerate(rails.order):
        node = graph.nodes[step]
        if index in rails.joined:
            yield gutter.between(glyphs.down)
        notes = [_branch(edge, glyphs, named=len(node.depends_on) > 1) for edge in choices.get(node.id, ())]
        if step in rails.named:
            notes.append(f"{glyphs.waits_for} {', '.join(map(visible, node.depends_on))}")
        notes += [f"when {short_label(node.when, glyphs.cut)}"] if node.when else []
        notes += [f"after {visible(edge.source)}" for edge in graph.order if edge.target == node.id]
        mark = glyphs.choice if node.id in choosing else glyphs.step
        first, *more = _text(names[step], types[step], notes, columns, room, glyphs)
        yield f"{gutter.row(index, mark)}  {first}"
        # The line to the next row goes on beside what is written below this one.
        down = glyphs.down if more and index + 1 in rails.joined else " "
        for line in more:
            yield f"{gutter.between(down)}  {line}"


def _column(texts: Sequence[str], most: int) -> int:
    return min(most, max(map(cell_width, texts), default=0))


def _branch(edge: GraphEdge, glyphs: Glyphs, *, named: bool) -> str:
    label = short_label(edge.label or "", glyphs.cut)
    return f"[{visible(edge.source)}: {label}]" if named else f"[{label}]"


def _text(
    name: str, kind: str, notes: Sequence[str], columns: tuple[int, int], room: int, glyphs: Glyphs
) -> Iterator[str]:
    """What stands beside a step's mark: a first line, and further ones for what does not fit into it."""
    parts = [_fit(name, columns[0], glyphs), _fit(kind, columns[1], glyphs)]
    line = "  ".join(parts)
    indent = "  "
    words: list[str] = []
    for note in notes:
        if not words and cell_width(line) + 2 + cell_width(note) <= room:
            line = f"{line}  {note}"
        else:
            words.extend(note.split(" "))
    yield line
    line = indent
    for word in words:
        short = cut(word, room - len(indent), glyphs.cut)
        if line != indent and cell_width(line) + 1 + cell_width(short) > room:
            yield line
            line = indent
        line = f"{line} {short}" if line != indent else indent + short
    if line != indent:
        yield line


def _fit(text: str, cells: int, glyphs: Glyphs) -> str:
    short = cut(text, cells, glyphs.cut)
    return short + " " * (cells - cell_width(short))


class _Gutter:
    """The columns to the left of the texts. Rows are asked for in order, as it remembers which buses are open."""

    def __init__(
        self, left: Mapping[int, Sequence[Event]], right: Mapping[int, Sequence[Event]], glyphs: Glyphs
    ) -> None:
        self._left = left
        self._right = right
        self._glyphs = glyphs
        self._rails = tuple(
            max((each.rail for row in side.values() for each in row), default=0) for side in (left, right)
        )
        self._open: tuple[set[int], set[int]] = (set(), set())
        self.width = 2 * sum(self._rails) + 1

    def row(self, index: int, mark: str) -> str:
        """The row of a step."""
        glyphs = self._glyphs
        left = self._side(0, self._left.get(index, ()), glyphs.left, glyphs.into_from_left)
        right = self._side(1, self._right.get(index, ()), glyphs.right, glyphs.into_from_right)
        return (
            "".join(char + joint for joint, char in reversed(left))
            + mark
            + "".join(joint + char for joint, char in right)
        )

    def between(self, mark: str) -> str:
        """A row without a step: what is open goes on."""
        down = self._glyphs.down
        left, right = ([down if rail in side else " " for rail in range(1, count + 1)] for side, count in self._both())
        return "".join(f"{char} " for char in reversed(left)) + mark + "".join(f" {char}" for char in right)

    def _both(self) -> Iterator[tuple[set[int], int]]:
        return zip(self._open, self._rails, strict=True)

    def _side(self, side: int, events: Sequence[Event], marks: Mapping[Mark, str], arrow: str) -> list[tuple[str, str]]:
        """From the step outwards: what joins a rail to the one before, and what is on it."""
        glyphs, is_open = self._glyphs, self._open[side]
        at = {event.rail: event.mark for event in events}
        reach = max(at, default=0)
        cells: list[tuple[str, str]] = []
        for rail in range(1, self._rails[side] + 1):
            mark = at.get(rail)
            joint = " " if rail > reach else arrow if mark in (Mark.GIVE, Mark.END) else glyphs.across
            if mark is not None:
                char = marks[mark]
            elif rail in is_open:
                char = glyphs.down
            else:
                char = glyphs.across if rail < reach else " "
            cells.append((joint, char))
        for event in events:
            if event.mark is Mark.BEGIN:
                is_open.add(event.rail)
            elif event.mark is Mark.END:
                is_open.discard(event.rail)
        return cells
