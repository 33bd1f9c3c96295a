"""The picture: well-formed, nothing over anything else, every line from step to step."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

import treadle
from treadle_graph import WorkflowGraph
from treadle_graph.layout import place
from treadle_graph.svg import text_width

ROOT = Path(__file__).parents[3]
SVG = "{http://www.w3.org/2000/svg}"
Sketch = Callable[..., WorkflowGraph]
Box = tuple[float, float, float, float]  # left, top, right, bottom


class Picture:
    """What is in a drawing."""

    def __init__(self, text: str) -> None:
        self.root = ElementTree.fromstring(text)
        (drawing,) = self.root.findall(f"{SVG}g")
        self.steps = {str(each.findtext(f"{SVG}title")): each for each in drawing.findall(f"{SVG}g")}
        self.boxes = {title: self._box(each) for title, each in self.steps.items()}
        self.lines = [str(each.get("d")) for each in drawing.findall(f"{SVG}path")]
        self.labels = [(str(each.text), self._text(each, 11)) for each in drawing.findall(f"{SVG}text")]
        self.width, self.height = float(self.root.get("width", 0)), float(self.root.get("height", 0))

    @staticmethod
    def _box(step: ElementTree.Element) -> Box:
        (rect,) = step.findall(f"{SVG}rect")
        left, top, width, height = (float(rect.get(name, 0)) for name in ("x", "y", "width", "height"))
        return left, top, left + width, top + height

    @staticmethod
    def _text(text: ElementTree.Element, size: float, *, bold: bool = False) -> Box:
        x, y = float(text.get("x", 0)), float(text.get("y", 0))
        half = text_width(text.text or "", size, bold=bold) / 2
        return x - half, y - size * 0.8, x + half, y + size * 0.25

    def texts(self, title: str) -> list[Box]:
        """The places of a step's two texts."""
        name, kind = self.steps[title].findall(f"{SVG}text")
        return [self._text(name, 13, bold=True), self._text(kind, 11)]

    def assert_tidy(self) -> None:
        """Nothing is drawn over anything else or outside, and texts are inside of their boxes."""
        for title, box in self.boxes.items():
            for text in self.texts(title):
                assert _is_inside(text, box), title
        for one, other in combinations([*self.boxes.values(), *(box for _, box in self.labels)], 2):
            assert not _meet(one, other)
        canvas = (-16.0, -16.0, self.width - 16, self.height - 16)
        assert all(_is_inside(box, canvas) for box in [*self.boxes.values(), *(box for _, box in self.labels)])
        for line in self.lines:
            for x, y in _points(line):
                assert _is_inside((x, y, x, y), canvas)

    def assert_joins(self, edges: Sequence[tuple[str, str]]) -> None:
        """The lines are these edges, and each ends at its boxes' borders."""
        assert len(self.lines) == len(edges)
        for line, (source, target) in zip(self.lines, edges, strict=True):
            points = _points(line)
            assert _touches(points[0], self.boxes[source])
            assert _touches(points[-1], self.boxes[target])

    def assert_no_line_crosses_a_box(self) -> None:
        """Judged by points along each line."""
        inner = {title: (x + 1, y + 1, r - 1, b - 1) for title, (x, y, r, b) in self.boxes.items()}
        for line in self.lines:
            for x, y in _along(line):
                assert not [title for title, box in inner.items() if _is_inside((x, y, x, y), box)], line


def _is_inside(inner: Box, outer: Box) -> bool:
    slack = 0.11  # numbers are written with one digit
    return (
        inner[0] >= outer[0] - slack
        and inner[1] >= outer[1] - slack
        and inner[2] <= outer[2] + slack
        and inner[3] <= outer[3] + slack
    )


def _meet(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def _touches(point: tuple[float, float], box: Box) -> bool:
    x, y = point
    on_side = min(abs(x - box[0]), abs(x - box[2])) < 0.2 and box[1] <= y <= box[3]
    on_end = min(abs(y - box[1]), abs(y - box[3])) < 0.2 and box[0] <= x <= box[2]
    return on_side or on_end


def _points(line: str) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in re.findall(r"(-?[\d.]+),(-?[\d.]+)", line)]


def _along(line: str) -> list[tuple[float, float]]:
    """Points of the curves and straight pieces of a path."""
    found: list[tuple[float, float]] = []
    at = (0.0, 0.0)
    for command, numbers in re.findall(r"([MLC])([^MLC]*)", line):
        points = _points(numbers)
        if command == "C":
            a, b, c = points
            for step in range(1, 20):
                t = step / 20
                s = 1 - t
                weights = (s**3, 3 * s * s * t, 3 * s * t * t, t**3)
                found.append(
                    tuple(sum(w * p[axis] for w, p in zip(weights, (at, a, b, c), strict=True)) for axis in (0, 1))  # type: ignore[arg-type]
                )
        elif command == "L":
            found.extend(
                (at[0] + (points[0][0] - at[0]) * n / 5, at[1] + (points[0][1] - at[1]) * n / 5) for n in range(1, 5)
            )
        at = points[-1]
    return found


def test_the_demo_is_drawn_with_its_labels() -> None:
    graph = WorkflowGraph.of(treadle.load_workflow(ROOT / "examples" / "demo.yaml", host=treadle.Host.discover()))
    picture = Picture(graph.to_svg())
    assert list(picture.boxes) == ["classify", "route", "billing_policy", "technical_policy", "reply"]
    assert [text for text, _ in picture.labels] == ['state.ticket.topic == "billing"', "default"]
    assert [step for step, each in picture.steps.items() if each.get("class") == "step choice"] == ["route"]
    tops = [picture.boxes[step][1] for step in ("classify", "route", "billing_policy", "reply")]
    assert tops == sorted(tops)
    assert picture.boxes["billing_policy"][1] == picture.boxes["technical_policy"][1]
    picture.assert_tidy()
    picture.assert_joins([(edge.source, edge.target) for edge in graph.edges])
    assert graph.to_svg() == graph.to_svg()


def test_it_follows_the_readers_light_or_dark_setting_and_loads_nothing() -> None:
    graph = WorkflowGraph.of(treadle.load_workflow(ROOT / "examples" / "demo.yaml", host=treadle.Host.discover()))
    text = graph.to_svg()
    assert "@media (prefers-color-scheme: dark)" in text
    assert re.findall(r"https?:[^\"]*", text) == ["http://www.w3.org/2000/svg"]
    assert "<script" not in text


def test_no_text_breaks_out(attack: WorkflowGraph) -> None:
    text = attack.to_svg()
    picture = Picture(text)
    picture.assert_tidy()
    tags = {each.tag.removeprefix(SVG) for each in picture.root.iter()}
    assert tags == {"svg", "title", "style", "defs", "marker", "path", "g", "text", "rect"}
    labels = [label for label, _ in picture.labels]
    assert "<script>x</script>" in labels
    assert '"] --> x["' in labels
    assert picture.root.get("aria-label") == picture.root.findtext(f"{SVG}title") == 'x" ] } \\'


def test_a_wide_fan_is_laid_on_its_side(sketch: Sketch) -> None:
    """Side by side, 40 boxes would be five screens wide."""
    middle = {f"question_{index}": ["ask"] for index in range(40)}
    picture = Picture(sketch({"ask": [], **middle, "sum": list(middle)}).to_svg())
    assert picture.width < 700
    assert picture.boxes["ask"][2] < picture.boxes["question_0"][0] < picture.boxes["sum"][0]
    picture.assert_tidy()


def test_long_ids_are_cut_and_kept_as_title(sketch: Sketch) -> None:
    long = "x" * 90
    picture = Picture(sketch({long: []}).to_svg())
    assert list(picture.boxes) == [long]
    assert picture.steps[long].findtext(f"{SVG}text") == "x" * 39 + "…"
    picture.assert_tidy()


@st.composite
def workflows(draw: st.DrawFn) -> dict[str, tuple[list[str], bool]]:
    """Up to 16 steps, each with what it waits for and whether it chooses."""
    count = draw(st.integers(1, 16))
    found: dict[str, tuple[list[str], bool]] = {}
    for index in range(count):
        waits_for = draw(st.sets(st.integers(max(0, index - 6), index - 1), max_size=3)) if index else set()
        name = "s" * draw(st.integers(1, 30)) + str(index)
        found[name] = ([list(found)[each] for each in sorted(waits_for)], draw(st.booleans()))
    return found


@given(workflows())
def test_every_picture_is_tidy_and_shows_each_edge(steps: Mapping[str, tuple[list[str], bool]]) -> None:
    made = [
        SimpleNamespace(
            id=step,
            type="task",
            depends_on=waits_for,
            when=None,
            targets=lambda step=step, chooses=chooses: (
                {each: f"state.{each} > 1" for each, (waits, _) in steps.items() if step in waits} if chooses else {}
            ),
        )
        for step, (waits_for, chooses) in steps.items()
    ]
    workflow: Any = SimpleNamespace(name="random", steps=made, order=(), children={})
    graph = WorkflowGraph.of(workflow)
    picture = Picture(graph.to_svg())
    picture.assert_tidy()
    picture.assert_joins([(edge.source, edge.target) for edge in graph.edges])
    picture.assert_no_line_crosses_a_box()
    assert len(picture.labels) == sum(edge.by_choice for edge in graph.edges)


def test_parts_that_nothing_joins_stand_close_together(sketch: Sketch) -> None:
    alone = {f"alone_{each}": [] for each in range(5)}
    middle = {f"q{each}": ["ask"] for each in range(30)}
    picture = Picture(sketch({"first": [], "ask": [], **middle, **alone}).to_svg())
    picture.assert_tidy()
    assert picture.height < 36 * (44 + 40)


def test_lines_that_need_not_cross_do_not(sketch: Sketch) -> None:
    """Two chains whose steps are listed crosswise in the document."""
    graph = sketch({"a": [], "b": [], "b1": ["b"], "a1": ["a"], "a2": ["a1"], "b2": ["b1"]})
    picture = Picture(graph.to_svg())
    a_is_first = {picture.boxes[f"a{each}"] < picture.boxes[f"b{each}"] for each in ("", "1", "2")}
    assert len(a_is_first) == 1


def test_the_order_in_a_layer_is_changed_where_that_saves_crossings(sketch: Sketch) -> None:
    """As listed, the line from c to one would cross those from a to three and from b to two."""
    graph = sketch({"a": [], "b": [], "c": [], "one": ["a", "c"], "two": ["b"], "three": ["a"]})
    picture = Picture(graph.to_svg())
    middle = {step: (box[0] + box[2], box[1] + box[3]) for step, box in picture.boxes.items()}
    axis = 0 if middle["a"][1] == middle["b"][1] else 1
    ends = [(middle[edge.source][axis], middle[edge.target][axis]) for edge in graph.edges]
    assert not [pair for pair in combinations(ends, 2) if (pair[0][0] - pair[1][0]) * (pair[0][1] - pair[1][1]) < 0]


def test_a_chain_is_a_straight_line(sketch: Sketch) -> None:
    picture = Picture(sketch({f"s{i}": [f"s{i - 1}"] if i else [] for i in range(20)}).to_svg())
    assert (
        len({sum(box[0::2]) for box in picture.boxes.values()}) == 1
        or len({sum(box[1::2]) for box in picture.boxes.values()}) == 1
    )


def test_bends_are_counted_before_they_are_made() -> None:
    """Every step of a long chain also leads to the last: the square of its length in bends."""
    count = 1000
    edges = [(index, index + 1) for index in range(count - 1)] + [(index, count - 1) for index in range(count - 2)]
    with pytest.raises(
        ValueError, match=r"^the graph is too large to be drawn \(over 100,000 boxes and pieces of lines\); "
    ):
        place(range(count), [(10.0, 10.0)] * count, edges, [None] * len(edges))
