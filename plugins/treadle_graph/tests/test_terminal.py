"""The drawing for the terminal: whole examples, and that it says exactly what the graph says."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import treadle
from treadle_graph import WorkflowGraph
from treadle_graph.text import cell_width, cut, short_label, visible

ROOT = Path(__file__).parents[3]
Sketch = Callable[..., WorkflowGraph]

DRAWINGS = {
    "demo.yaml": """\
triage: 5 steps, longest path 4

  ●    classify          llm_call
  │
╭─◆    route             router
├▸●─╮  billing_policy    tool      [state.ticket.topic == "billing"]
╰▸●─┤  technical_policy  tool      [default]
  ●◂╯  reply             llm_call
""",
    "first.yaml": """\
first: 1 step

●  explain  llm_call
""",
    "parallel.yaml": """\
parallel: 4 steps, longest path 2

●─╮  history  llm_call
●─┤  physics  llm_call
●─┤  prices   llm_call
●◂╯  summary  llm_call
""",
    "tools.yaml": """\
tools: 3 steps, longest path 3

●  count      tool
│
●  keep       tool
│
●  read_back  tool
""",
}

DEMO_IN_ASCII = """\
triage: 5 steps, longest path 4

  o    classify          llm_call
  |
.-?    route             router
+>o-.  billing_policy    tool      [state.ticket.topic == "billing"]
`>o-+  technical_policy  tool      [default]
  o<'  reply             llm_call
"""


def load(name: str) -> WorkflowGraph:
    return WorkflowGraph.of(treadle.load_workflow(ROOT / "examples" / name, host=treadle.Host.discover()))


@pytest.mark.parametrize("name", DRAWINGS)
def test_the_examples_look_like_this(name: str) -> None:
    assert load(name).to_text() == DRAWINGS[name]


def test_without_line_characters_it_is_the_same_picture() -> None:
    assert load("demo.yaml").to_text(ascii_only=True) == DEMO_IN_ASCII


def test_a_fan_of_any_width_takes_one_rail_on_either_side(sketch: Sketch) -> None:
    middle = {f"q{index}": ["ask"] for index in range(300)}
    lines = sketch({"ask": [], **middle, "sum": list(middle)}).to_text().splitlines()
    assert lines[2:5] == ["╭─●    ask   task", "├▸●─╮  q0    task", "├▸●─┤  q1    task"]
    assert lines[-2:] == ["╰▸●─┤  q299  task", "  ●◂╯  sum   task"]


def test_steps_that_wait_for_the_same_steps_share_a_rail(sketch: Sketch) -> None:
    graph = sketch({"a": [], "b": [], "c": [], "x": ["a", "b", "c"], "y": ["c", "b", "a"]})
    assert graph.to_text().splitlines()[2:] == [
        "●─╮  a  task",
        "●─┤  b  task",
        "●─┤  c  task",
        "●◂┤  x  task",
        "●◂╯  y  task",
    ]


def test_a_branch_into_a_step_with_other_dependencies_names_its_router(sketch: Sketch) -> None:
    graph = sketch({"r": [], "a": [], "x": ["r", "a"]}, {"r": {"x": "state.n > 1"}})
    assert "●◂╯  x  task    [r: state.n > 1]" in graph.to_text()


def test_what_is_too_long_for_a_row_goes_on_below_it(sketch: Sketch) -> None:
    graph = sketch(
        {"router_of_it": [], "target_of_it": ["router_of_it"]}, {"router_of_it": {"target_of_it": "a b " * 9}}
    )
    lines = graph.to_text(width=40).splitlines()[2:]
    assert lines == [
        "◆  router_of_it  router",
        "│",
        "●  target_of_it  task",
        "     [a b a b a b a b a b a b a b a…]",
    ]


def test_where_rails_run_out_steps_are_named(sketch: Sketch) -> None:
    """20 steps, each pair of neighbours with a follower of its own that is far away."""
    steps: dict[str, Sequence[str]] = {f"s{index:02}": [] for index in range(20)}
    steps |= {f"t{index:02}": [f"s{index:02}", f"s{(index + 7) % 20:02}"] for index in range(20)}
    text = sketch(steps).to_text()
    assert max(map(cell_width, text.splitlines())) <= 80
    named = re.findall(r"(t\d+) +task +← (s\d+), (s\d+)$", text, flags=re.MULTILINE)
    assert named
    assert all(steps[step] == [one, other] for step, one, other in named)


def test_control_characters_do_not_reach_the_terminal(attack: WorkflowGraph) -> None:
    for text in (attack.to_text(), attack.to_text(ascii_only=True)):
        assert re.findall(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\ud800-\udfff\ufffe]", text) == []
        assert len(text.splitlines()) == len(attack.nodes) + 2
        assert "[\\x1b[31mred\\x07]" in text
        assert "[\\u202egnp.exe]" in text


@pytest.mark.parametrize("width", [0, 40, 60, 80, 200])
def test_no_line_is_wider_than_the_terminal(sketch: Sketch, attack: WorkflowGraph, width: int) -> None:
    long = "step_" + "x" * 90
    wide = "漢" * 50
    targets = {long: {"short": "an expression that has no end " * 9}, wide: {"short": "漢字 " * 40}}
    others = {f"n{index}": [f"n{index - 1}", long] if index else [long] for index in range(30)}
    graph = sketch({long: [], wide: [], "short": [long, wide], **others}, targets, name="n" * 200)
    for each in (graph, attack):
        for ascii_only in (False, True):
            lines = each.to_text(width=width, ascii_only=ascii_only).splitlines()
            assert max(map(cell_width, lines)) <= max(40, width)


@st.composite
def dags(draw: st.DrawFn) -> dict[str, list[str]]:
    count = draw(st.integers(1, 14))
    return {
        f"s{index}": [f"s{each}" for each in draw(st.sets(st.integers(0, index - 1), max_size=4))] if index else []
        for index in range(count)
    }


@given(dags(), st.booleans())
def test_the_lines_can_be_read_back_as_exactly_the_dependencies(steps: Mapping[str, Any], ascii_only: bool) -> None:
    text = _graph(steps).to_text(width=400, ascii_only=ascii_only)
    if ascii_only:
        text = text.translate(str.maketrans("o|-<>", "●│─◂▸")).replace("tas●", "task")
    assert {step: set(parents) for step, parents in read(text).items()} == {
        step: set(parents) for step, parents in steps.items()
    }


@given(dags())
def test_lines_and_names_together_are_the_dependencies_in_a_narrow_terminal(steps: Mapping[str, Any]) -> None:
    text = _graph(steps).to_text(width=40)
    found = {step: set(parents) for step, parents in read(text).items()}
    for step, names in named(text).items():
        assert not found[step], "either a line or names"
        found[step] = names
    assert found == {step: set(parents) for step, parents in steps.items()}


def named(text: str) -> dict[str, set[str]]:
    """What each step is said to wait for in words, beside it or on the lines below."""
    found: dict[str, set[str]] = {}
    step = ""
    for line in text.splitlines()[2:]:
        row = re.search(r"[●◆].*?  (s\d+) (.*)", line)
        step, rest = (row[1], row[2]) if row else (step, line)
        names = set(re.findall(r"s\d+", rest))
        if names:
            assert "←" in rest or step in found
            found.setdefault(step, set()).update(names)
    return found


def read(text: str) -> dict[str, list[str]]:
    """What each step waits for, by following the lines of a drawing from top to bottom."""
    found: dict[str, list[str]] = {}
    buses: dict[int, list[str]] = {}
    above: str | None = None
    lines = text.splitlines()[2:]
    middle = next(each.start() for each in re.finditer("[●◆]", lines[0]))
    for line, below in zip(lines, [*lines[1:], ""], strict=True):
        row = re.match(r"(.*?)[●◆](.*?)  (s\d+) ", line)
        if row is None:
            if line[middle : middle + 1] != "│":
                above = None
            continue
        step = row[3]
        assert len(row[1]) == middle, "steps stand below each other"
        found[step] = [above] if above else []
        begun: dict[int, list[str]] = {}
        for column in [*range(0, middle, 2), *range(middle + 2, row.end(2), 2)]:
            char, inner = line[column], line[column + 1] if column < middle else line[column - 1]
            gives = inner in "▸◂"
            assert not gives or char in "├┤╰╯+`'"
            if gives:
                found[step].extend(buses[column])
                if char in "╰╯`'":
                    del buses[column]
            elif char in "╭╮.":
                assert column not in buses
                begun[column] = [step]
            elif char in "┤+":
                buses[column].append(step)
            else:
                assert (column in buses) == (char == "│"), line
        buses |= begun
        above = step if below[middle : middle + 1] == "│" else None
    assert not buses, "a rail that leads nowhere"
    return found


def _graph(steps: Mapping[str, Sequence[str]]) -> WorkflowGraph:
    made = [
        SimpleNamespace(id=step, type="task", depends_on=each, when=None, targets=dict) for step, each in steps.items()
    ]
    workflow: Any = SimpleNamespace(name="random", steps=made, order=(), children={})
    return WorkflowGraph.of(workflow)


def test_the_drawing_grows_with_the_steps_and_not_faster(sketch: Sketch) -> None:
    def size(count: int) -> int:
        steps = {f"s{i}": [f"s{each}" for each in {i // 2, i - 1, i - 9} if 0 <= each < i] for i in range(count)}
        return len(sketch(steps).to_text())

    assert size(4000) < 12 * size(400)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\n  b\tc", "a b c"),
        ("\x1b[0m\x85\u202e", "\\x1b[0m \\u202e"),
        ("\ud800\U000f0000", "\\ud800\\U000f0000"),
        ("é 漢字 👩\u200d💻", "é 漢字 👩\u200d💻"),
    ],
)
def test_texts_are_made_visible(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_labels_are_cut_where_they_are_long() -> None:
    assert short_label("x" * 32) == "x" * 32
    assert short_label("x" * 33) == "x" * 30 + "…"
    assert short_label("x" * 29 + " yyyy") == "x" * 29 + "…"


def test_wide_characters_take_two_columns() -> None:
    assert cell_width("漢e\u0301") == 3
    assert cut("漢字漢字", 6) == "漢字…"
    assert cut("abc", 3) == "abc"
