"""SVG, drawn here: no other program, no font file, no script."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape, quoteattr

from treadle_graph.layout import Layout, Line, Place, place
from treadle_graph.text import short_label, visible

if TYPE_CHECKING:
    from treadle_graph.graph import WorkflowGraph

__all__ = ["BOX_PADDING", "draw", "text_width"]

MARGIN = 16.0
BOX_PADDING = 14.0
BOX_HEIGHT = 44.0
LEAST_BOX = 84.0
NAME_SIZE = 13.0
TYPE_SIZE = 11.0
LABEL_SIZE = 11.0
LONGEST_NAME = 40

# Greys that can be read on light and on dark, and boxes that follow the reader's setting. Nothing is drawn behind.
STYLE = """\
text { font-family: system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; text-anchor: middle }
.box { fill: #ffffff; stroke: #64748b; stroke-width: 1.2 }
.choice .box { fill: #fef6e0; stroke: #b7791f }
.name { font-size: 13px; font-weight: 600; fill: #1a202c }
.type { font-size: 11px; fill: #5a6779 }
.line { fill: none; stroke: #7b8794; stroke-width: 1.3 }
.order { stroke-dasharray: 5 4 }
.head { fill: #7b8794 }
.label { font-size: 11px; fill: #a8660c }
@media (prefers-color-scheme: dark) {
  .box { fill: #1f2733; stroke: #8b98ab }
  .choice .box { fill: #3a2f17; stroke: #d69e2e }
  .name { fill: #edf2f7 }
  .type { fill: #a3afc0 }
  .label { fill: #e0a94a }
}
"""

# Widths in thousandths of the font's size, a little above those of common sans-serif fonts. No font is looked at.
_NARROW = frozenset("iljI.,:;'|!`")
_SLIM = frozenset('frt()[]{}/\\- "')
_BROAD = frozenset("mwMW@%")


def text_width(text: str, size: float, *, bold: bool = False) -> float:
    """About how wide the text is, rather too much than too little."""
    thousandths = sum(map(_char_width, text))
    return thousandths * size / 1000 * (1.1 if bold else 1.0)


def _char_width(char: str) -> int:
    if char in _NARROW:
        return 340
    if char in _SLIM:
        return 430
    if char in _BROAD:
        return 1000
    if char in "=<>+~#_&…":
        return 520 if char == "_" else 840
    if char.isascii():
        return 730 if char.isupper() else 640
    return 700 if ord(char) < 0x2E80 else 1050


def draw(graph: WorkflowGraph) -> str:
    """The drawing: top down or left to right, whichever is the handier size.

    :raises ValueError: the graph is too large.
    """
    names = [_cut(visible(node.id)) for node in graph.nodes]
    types = [_cut(visible(node.type)) for node in graph.nodes]
    labels = [short_label(edge.label) if edge.label else "" for edge in (*graph.edges, *graph.order)]
    boxes = [
        (
            max(LEAST_BOX, text_width(name, NAME_SIZE, bold=True), text_width(kind, TYPE_SIZE)) + 2 * BOX_PADDING,
            BOX_HEIGHT,
        )
        for name, kind in zip(names, types, strict=True)
    ]
    label_boxes = [(text_width(label, LABEL_SIZE) + 8, LABEL_SIZE + 5) if label else None for label in labels]
    layout, sideways = _laid_out(graph, boxes, label_boxes)
    width, height = (layout.length, layout.breadth) if sideways else (layout.breadth, layout.length)
    width, height = width + 2 * MARGIN, height + 2 * MARGIN
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_n(width)} {_n(height)}" width="{_n(width)}"',
        f' height="{_n(height)}" role="img" aria-label={quoteattr(visible(graph.name))}>',
        f"<title>{escape(visible(graph.name))}</title>",
        f"<style>\n{STYLE}</style>",
        '<defs><marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" orient="auto">',
        '<path class="head" d="M0 1 L10 5 L0 9 z"/></marker></defs>',
        f'<g transform="translate({_n(MARGIN)} {_n(MARGIN)})">',
    ]
    dashed = len(graph.edges)
    lines.extend(_path(line, layout, sideways, dashed=at >= dashed) for at, line in enumerate(layout.lines))
    for line, label in zip(layout.lines, labels, strict=True):
        if line.label is not None:
            x, y = _point(line.label.across, line.label.along, sideways)
            lines.append(f'<text class="label" x="{_n(x)}" y="{_n(y + LABEL_SIZE * 0.35)}">{escape(label)}</text>')
    choosing = {edge.source for edge in graph.edges if edge.by_choice}
    for node, name, kind, size, box in zip(graph.nodes, names, types, boxes, layout.boxes, strict=True):
        lines.extend(_box(visible(node.id), name, kind, size, box, sideways, chooses=node.id in choosing))
    return "\n".join([*lines, "</g>", "</svg>", ""])


def _laid_out(
    graph: WorkflowGraph, boxes: Sequence[tuple[float, float]], labels: Sequence[tuple[float, float] | None]
) -> tuple[Layout, bool]:
    number = {node.id: index for index, node in enumerate(graph.nodes)}
    depths = graph.dag.depths()
    # An order-only edge leads to a later layer, as the others do: it is there because of the layers.
    edges = [(number[edge.source], number[edge.target]) for edge in (*graph.edges, *graph.order)]
    down = place(depths, boxes, edges, labels)
    across = place(depths, list(map(_turned, boxes)), edges, [label and _turned(label) for label in labels])
    # A page is wider than it is high; a drawing that runs down is the usual one, and wins where both will do.
    if _extent(across.length, across.breadth) * 1.2 < _extent(down.breadth, down.length):
        return across, True
    return down, False


def _turned(size: tuple[float, float]) -> tuple[float, float]:
    return size[1], size[0]


def _extent(width: float, height: float) -> float:
    return max(width / 1.4, height)


def _point(across: float, along: float, sideways: bool) -> tuple[float, float]:
    return (along, across) if sideways else (across, along)


def _path(line: Line, layout: Layout, sideways: bool, *, dashed: bool) -> str:
    """The line of an edge: curves between layers, straight through them; broken where its label stands."""
    source, target = layout.boxes[line.source], layout.boxes[line.target]
    points = [f"M{_at(source.across, source.end, sideways)}"]
    previous = source
    for each in (*line.bends, target):
        points.append(f"L{_at(previous.across, previous.layer_end, sideways)}")
        middle = (previous.layer_end + each.layer_start) / 2
        controls = (_at(previous.across, middle, sideways), _at(each.across, middle, sideways))
        points.append(f"C{' '.join(controls)} {_at(each.across, each.layer_start, sideways)}")
        points.append(f"L{_at(each.across, each.start, sideways)}")
        if each is line.label:
            points.append(f"M{_at(each.across, each.end, sideways)}")
        previous = each
    # Where a box fills its layer, the straight piece beside it has no length.
    drawn = [point for before, point in zip(["", *points], points, strict=False) if not _is_standing(before, point)]
    return f'<path class="line{" order" if dashed else ""}" d="{" ".join(drawn)}" marker-end="url(#head)"/>'


def _is_standing(before: str, point: str) -> bool:
    return point[0] == "L" and before[1:].rpartition(" ")[2] == point[1:]


def _box(
    title: str, name: str, kind: str, size: tuple[float, float], box: Place, sideways: bool, *, chooses: bool
) -> Iterator[str]:
    x, y = _point(box.across, box.along, sideways)
    width, height = size
    corner = 14 if chooses else 7
    yield f'<g class="{"step choice" if chooses else "step"}"><title>{escape(title)}</title>'
    yield (
        f'<rect class="box" x="{_n(x - width / 2)}" y="{_n(y - height / 2)}" width="{_n(width)}" '
        f'height="{_n(height)}" rx="{corner}"/>'
    )
    yield f'<text class="name" x="{_n(x)}" y="{_n(y - 2.5)}">{escape(name)}</text>'
    yield f'<text class="type" x="{_n(x)}" y="{_n(y + 13.5)}">{escape(kind)}</text></g>'


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_NAME else text[: LONGEST_NAME - 1] + "…"


def _at(across: float, along: float, sideways: bool) -> str:
    x, y = _point(across, along, sideways)
    return f"{_n(x)},{_n(y)}"


def _n(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
