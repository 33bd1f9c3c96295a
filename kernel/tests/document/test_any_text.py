"""No text, however broken, is anything but a document or a list of its problems."""

import random
import re
import sys
from collections.abc import Callable

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from treadle._document import parse_workflow, reading
from treadle._plugins import Host
from treadle.errors import DocumentError, Problem

GOOD = """\
name: demo
version: 1.0
description: a bit of everything
config:
  provider: fake
  max_retries: 2
  replies: {a: 1}
state:
  word: hello
  answer: none
  list: [1, 2.5, true, null]
steps:
  - id: ask
    type: say
    prompt: |
      Say {state.word} to {state.list[0]}
    temperature: 0.5
    shape:
      kind: object
    output: answer
  - id: choose
    type: route
    depends_on: [ask]
    conditions:
      - expression: state.answer == "yes"
        target: high
    default: low
  - id: high
    type: use
    depends_on: [choose]
    tool: echo
    arguments: {text: "{state.answer}", n: 1}
  - id: low
    type: idle
    depends_on: [choose]
    retry:
      max_retries: 1
    timeout: 5
"""


def problems_of(text: str, host: Host) -> list[Problem]:
    """The problems of the text; every one inside it."""
    try:
        parse_workflow(text, host=host, file="f")
    except DocumentError as error:
        problems = list(error.problems)
    else:
        return []
    assert problems, "an error says what is wrong"
    lines = 2 + text.count("\n") + text.count("\r")
    for problem in problems:
        assert problem.line is not None
        assert problem.column is not None
        assert 1 <= problem.line <= lines
        assert problem.column >= 1
        assert problem.message
    assert [each.position for each in problems] == sorted(each.position for each in problems)
    return problems


def test_the_example_is_good(shared_host: Host) -> None:
    workflow = parse_workflow(GOOD, host=shared_host)
    assert workflow.warnings == ()
    assert len(workflow.steps) == 4


YAML_LIKE = st.text(
    alphabet=st.sampled_from(list("ab:-{}[]&*!|>'\"%@`#,?~<=.\n\n  \t01ü\u2028\x00\ufeff😀")), max_size=60
)


@settings(deadline=None, max_examples=400)
@given(text=st.text(max_size=60) | YAML_LIKE)
@example(text="&a *a : b")
@example(text="? ? a")
@example(text="- &a\n- *a")
@example(text="<<: *a")
@example(text="!!float x")
@example(text="name: !!float abc\nsteps: []")
@example(text="steps: [[]]\nname: {}")
def test_no_text_raises_anything_but_a_document_error(text: str, shared_host: Host) -> None:
    problems_of(text, shared_host)


def test_nor_does_pyyamls_own_parser(shared_host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_Loader", yaml.SafeLoader)

    @settings(deadline=None, max_examples=150)
    @given(text=st.text(max_size=60) | YAML_LIKE)
    def check(text: str) -> None:
        problems_of(text, shared_host)

    check()


@settings(deadline=None, max_examples=200)
@given(
    edits=st.lists(
        st.tuples(
            st.sampled_from(["drop", "double", "swap", "insert", "line"]),
            st.integers(0, len(GOOD) - 2),
            st.integers(0, 60),
        ),
        min_size=1,
        max_size=4,
    )
)
def test_no_slip_of_the_keyboard_raises_anything_else(edits: list[tuple[str, int, int]], shared_host: Host) -> None:
    text = GOOD
    for kind, place, amount in edits:
        at = min(place, max(len(text) - 2, 0))
        if kind == "drop":
            text = text[:at] + text[at + amount % 12 + 1 :]
        elif kind == "double":
            text = text[: at + amount] + text[at:]
        elif kind == "swap":
            text = text[:at] + text[at : at + 2][::-1] + text[at + 2 :]
        elif kind == "insert":
            text = text[:at] + ":{}[]-#&*!'\" \n\t|"[amount % 16] + text[at:]
        else:
            lines = text.splitlines(keepends=True)
            del lines[at % max(len(lines), 1) :][:1]
            random.Random(amount).shuffle(lines)
            text = "".join(lines)
    problems_of(text, shared_host)


def every_key() -> list[tuple[int, int, str]]:
    """Line (from 1), column (from 0) and name of every key that a schema knows, by its own line."""
    found = []
    in_state = False
    for number, line in enumerate(GOOD.splitlines(), 1):
        bare = line.lstrip(" -")
        in_state = (in_state or line == "state:") and line != "steps:"
        key, colon, _ = bare.partition(":")
        if colon and key.isidentifier() and not (in_state and line != "state:"):
            found.append((number, len(line) - len(bare), key))
    return found


@pytest.mark.parametrize(("line", "column", "key"), every_key())
def test_a_misspelt_key_is_named_on_its_line(line: int, column: int, key: str, shared_host: Host) -> None:
    lines = GOOD.splitlines()
    wrong = key[:-1] + "x" + key[-1]
    lines[line - 1] = lines[line - 1][:column] + wrong + lines[line - 1][column + len(key) :]
    problems = problems_of("\n".join(lines), shared_host)
    (unknown,) = [each for each in problems if each.code == "unknown-field" and each.path.endswith(wrong)] or [None]
    if key == "type":  # without its type a step's other fields are not known
        assert any("'type' is missing" in each.message for each in problems)
    else:
        assert unknown is not None
        assert (unknown.line, unknown.column) == (line, column + 1)
        assert unknown.hint == f"did you mean '{key}'?"


@pytest.mark.parametrize(("line", "column", "key"), every_key())
def test_a_key_written_twice_is_named_on_its_second_line(line: int, column: int, key: str, shared_host: Host) -> None:
    lines = GOOD.splitlines()
    lines.insert(line, " " * column + f"{key}: again")
    if lines[line - 1].endswith((":", "|")):  # the first has a block below it; put the second above it
        lines[line - 1], lines[line] = " " * column + f"{key}: again", lines[line - 1].replace("- ", "  ")
        if column and GOOD.splitlines()[line - 1].lstrip().startswith("-"):
            pytest.skip("no such key in the example")
    problems = problems_of("\n".join(lines), shared_host)
    doubles = [(each.line, each.column, each.message) for each in problems if each.code == "duplicate-key"]
    assert doubles == [(line + 1, column + 1, f"the key '{key}' already stands on line {line}")]


@pytest.mark.parametrize(("line", "column", "key"), every_key())
def test_a_value_of_the_wrong_type_is_named_at_the_value(line: int, column: int, key: str, shared_host: Host) -> None:
    lines = GOOD.splitlines()
    if lines[line - 1].endswith((":", "|")):
        return  # a block is replaced by the test below
    wrong = "[[1]]" if key != "expression" else "{x: [1]}"
    lines[line - 1] = " " * column + f"{key}: {wrong}"
    if GOOD.splitlines()[line - 1].lstrip().startswith("- "):
        lines[line - 1] = " " * (column - 2) + f"- {key}: {wrong}"
    problems = problems_of("\n".join(lines), shared_host)
    value_column = column + len(key) + 3
    assert any(
        each.line == line
        and value_column <= (each.column or 0) <= value_column + 2
        and each.code in ("wrong-type", "bad-value")
        for each in problems
    ), problems


def required_keys() -> list[tuple[str, str]]:
    return [
        ("name: demo\n", "the field 'name' is missing"),
        ("    type: say\n", "steps.ask: the field 'type' is missing"),
        ("    tool: echo\n", "steps.high: the field 'tool' is missing"),
        ("        target: high\n", "steps.choose.conditions.0: the field 'target' is missing"),
    ]


@pytest.mark.parametrize(("line", "message"), required_keys())
def test_a_missing_key_is_named(line: str, message: str, shared_host: Host) -> None:
    assert GOOD.count(line) == 1
    found = [str(each).split(": ", 1)[1] for each in problems_of(GOOD.replace(line, ""), shared_host)]
    assert message in [each.partition(";")[0] for each in found]


def calls_to_check(text: str, host: Host) -> int:
    """How many Python and C calls checking the text takes: a clock that no load on the machine disturbs."""
    calls = 0

    def count(frame: object, event: str, arg: object) -> None:
        nonlocal calls
        if event in ("call", "c_call"):
            calls += 1

    sys.setprofile(count)
    try:
        problems_of(text, host)
    finally:
        sys.setprofile(None)
    return calls


def chain(length: int, **fields: str) -> str:
    more = "".join(f", {key}: {value}" for key, value in fields.items())
    steps = (
        f"  - {{id: s{n}, type: say, prompt: 'x', depends_on: [{f's{n - 1}' if n else ''}]{more}}}"
        for n in range(length)
    )
    return "name: x\nsteps:\n" + "\n".join(steps)


@pytest.mark.parametrize(
    "make",
    [
        lambda length: chain(length),
        lambda length: chain(length, colour="red"),
        lambda length: chain(length).replace("depends_on: [s", "depends_on: [z"),
        lambda length: chain(length).replace("type: say", "type: sya"),
        lambda length: re.sub(r"id: s\d+", "id: s", chain(length)),
        lambda length: re.sub(r"depends_on: \[.*?\]", "output: k", chain(length)),
        lambda length: re.sub(r"depends_on: \[.*?\]", "output: k", chain(length)).replace("'x'", "'{state.k}'"),
        lambda length: re.sub(r"\{id: s(\d+)(.*)'x'", r"{output: k\1, id: s\1\2'{state.k\1}'", chain(length)),
        lambda length: re.sub(r"id: s(\d+)(.*)'x'", r"id: s\1, output: key\1\2'{word\1} {kye\1}'", chain(length)),
    ],
    ids=[
        "right",
        "unknown field",
        "unknown step",
        "unknown type",
        "one id",
        "one output",
        "one output that all read",
        "reads of what the step writes itself",
        "words in braces",
    ],
)
def test_ten_times_the_steps_take_about_ten_times_the_work(make: Callable[[int], str], shared_host: Host) -> None:
    small, large = calls_to_check(make(300), shared_host), calls_to_check(make(3000), shared_host)
    assert large <= 12 * small


def test_ten_thousand_steps_cost_no_more_than_twelve_times_a_thousand(shared_host: Host) -> None:
    def flow(length: int) -> str:
        reads = re.sub(r"\{id: s(\d+)", r"{output: o\1, id: s\1", chain(length))
        return re.sub(r"'x'(.*\[s(\d+)\])", r"'{state.o\2}'\1", reads)

    small, large = calls_to_check(flow(1_000), shared_host), calls_to_check(flow(10_000), shared_host)
    assert large <= 12 * small


def test_a_circle_of_a_hundred_thousand_steps_is_printed_as_a_way(shared_host: Host) -> None:
    text = chain(100_000).replace("depends_on: []", "depends_on: [s99999]")
    (problem,) = problems_of(text, shared_host)
    assert problem.line == 3
    assert problem.message == (
        "the steps wait for each other: s0 -> s99999 -> s99998 -> s99997 -> s99996 -> s99995 -> s99994 -> s99993 -> "
        "s99992 -> s99991 -> ... -> s0"
    )


def test_a_chain_of_many_thousand_steps_is_checked(shared_host: Host) -> None:
    workflow = parse_workflow(chain(20_000), host=shared_host)
    assert len(workflow.steps) == 20_000
