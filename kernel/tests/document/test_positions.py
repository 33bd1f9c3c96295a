"""Where a problem stands: from its first character to behind its last, inside a value where that can be told."""

from __future__ import annotations

import pytest
import yaml

from treadle._document import parse_workflow, reading
from treadle._plugins import Host
from treadle.errors import DocumentError, Problem

HEAD = "name: x\nstate: {topic: 1}\nsteps:\n"


@pytest.fixture(params=[yaml.CSafeLoader, yaml.SafeLoader], ids=["libyaml", "pure"], autouse=True)
def _loader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_Loader", request.param)


def only(text: str, host: Host) -> Problem:
    try:
        found = list(parse_workflow(text, host=host, file="f").warnings)
    except DocumentError as error:
        found = list(error.problems)
    (problem,) = found
    return problem


def marked(problem: Problem, text: str) -> str:
    """The text from where a problem begins to where it ends, on its one line."""
    assert problem.line is not None
    assert problem.line == problem.end_line, problem
    assert problem.column is not None
    assert problem.end_column is not None
    return text.splitlines()[problem.line - 1][problem.column - 1 : problem.end_column - 1]


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        # A misspelt reference in every way a text can be written.
        ("prompt: Grüße an {state.topik}!", "state.topik"),
        ("prompt: 'Grüße an {state.topik}!'", "state.topik"),
        ('prompt: "Grüße 😀 an {state.topik}!"', "state.topik"),
        ("prompt: |\n      one\n\n        two 😀 {state.topik!r:>5}\n      three", "state.topik"),
        ("prompt: |2-\n        two {state.topik}", "state.topik"),
        ("prompt: |  # why\n      {state.topik}\n", "state.topik"),
        ("prompt: one {state.topik}\n      two", "state.topik"),
        ("prompt: 'one {state.topik}\n      two'", "state.topik"),
        # Where the text is not what stands in the file, the whole value.
        ("prompt: 'it''s {state.topik}'", "'it''s {state.topik}'"),
        ('prompt: "\\u0041 {state.topik}"', '"\\u0041 {state.topik}"'),
        # What goes wrong in a template.
        ("prompt: |\n      one {word} \n      two {state.topic", "{state.topic"),
        ("prompt: 'one {state..x} two'", "{state..x}"),
        # A key, a name in a list, a value.
        ("prompt: x\n    tepmerature: 1", "tepmerature"),
        ("prompt: x\n    'tepmerature': 1", "'tepmerature'"),
        ("prompt: x\n    depends_on: [bb]", "bb"),
        ("prompt: x\n    timeout: -1  # no", "-1"),
        ("prompt: x\n    tags: {a: 1}  # no", "{a: 1}"),
    ],
)
def test_a_problem_spans_what_is_wrong(step: str, expected: str, host: Host) -> None:
    text = f"{HEAD}  - id: a\n    type: say\n    {step}\n"
    assert marked(only(text, host), text) == expected


@pytest.mark.parametrize("step", [">\n      one\n      two {state.topik}", "one\n      two {state.topik}"])
def test_a_problem_in_folded_text_stands_at_the_value(step: str, host: Host) -> None:
    text = f"{HEAD}  - id: a\n    type: say\n    prompt: {step}\n"
    problem = only(text, host)
    assert (problem.line, problem.column) == (6, 13)
    assert (problem.end_line, problem.fix) != (6, "state.topic")


def test_a_windows_file_has_the_same_places(host: Host) -> None:
    text = f"{HEAD}  - id: a\n    type: say\n    prompt: |\n      one\n      two {{state.topik}}\n".replace(
        "\n", "\r\n"
    )
    problem = only(text, host)
    assert (problem.line, problem.column, problem.end_line, problem.end_column) == (8, 12, 8, 23)


def test_a_problem_in_arguments_stands_at_the_argument(host: Host) -> None:
    text = f"""{HEAD}  - id: a
    type: use
    tool: echo
    arguments:
      fine: "{{state.topic}}"
      deep: [1, {{text: "a {{state.topic"}}]
      block: |
        one
        {{state.}}
"""
    with pytest.raises(DocumentError) as caught:
        parse_workflow(text, host=host, file="f")
    first, second = caught.value.problems
    assert (first.path, marked(first, text)) == ("steps.a.arguments.deep.1.text", "{state.topic")
    assert (second.path, marked(second, text)) == ("steps.a.arguments.block", "{state.}")
    assert [each.line for each in (first, second)] == [9, 12]


def test_a_block_ends_with_its_last_line(host: Host) -> None:
    text = f"{HEAD}  - id: a\n    type: say\n\n\n  - {{id: b, type: idle}}\n"
    problem = only(text, host)
    assert problem.message == "the field 'prompt' is missing"
    assert (problem.line, problem.column, problem.end_line, problem.end_column) == (4, 5, 5, 14)


def test_an_alias_is_wrong_where_its_anchor_is(host: Host) -> None:
    text = f"{HEAD}  - {{id: a, type: say, prompt: &p 'x {{state.topik}}'}}\n  - {{id: b, type: say, prompt: *p}}\n"
    problem = only(text, host)
    assert (problem.line, problem.path) == (4, "steps.a.prompt")


def test_data_that_came_from_no_text_has_no_places(host: Host) -> None:
    from treadle._document import build_workflow

    workflow = build_workflow({"name": "x", "steps": [{"id": "a", "type": "say", "prompt": "{state.x}"}]}, host=host)
    (problem,) = workflow.warnings
    assert (problem.line, problem.column, problem.end_line, problem.end_column, problem.fix) == (None,) * 5
    with pytest.raises(DocumentError, match="closed"):
        build_workflow({"name": "x", "steps": [{"id": "a", "type": "say", "prompt": "{state.x"}]}, host=host)


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("state.topic == 1 and score > 1", "score"),
        ("'state.topic == 1 and score > 1'", "score"),
        ('"état and state.topic"', "état"),
        ("state.topic * 2", "state"),
        # Where the text is not what stands in the file, or goes on elsewhere, the whole value or where it begins.
        ('"state.topic and \\u0041"', '"state.topic and \\u0041"'),
    ],
)
def test_an_expression_is_wrong_at_its_own_column(written: str, expected: str, host: Host) -> None:
    conditions = f"[{{expression: {written}, target: b}}]"
    text = HEAD + (
        f"  - id: a\n    type: route\n    conditions: {conditions}\n  - id: b\n    type: idle\n    depends_on: [a]\n"
    )
    problem = only(text, host)
    assert problem.code == "bad-expression"
    assert marked(problem, text) == expected
