"""Expressions: what is in the grammar, what is refused, and how a failure is explained."""

import subprocess
import sys
import warnings
from typing import Any

import language_expression_table as table
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from treadle._language import Expression
from treadle.errors import ExpressionError


def evaluate(source: str) -> Any:
    return Expression.compile(source).evaluate(table.NAMES)


@pytest.mark.parametrize(("source", "expected"), table.EVALUATED)
def test_evaluates(source: str, expected: Any) -> None:
    result = evaluate(source)
    assert result == expected
    assert type(result) is type(expected)


@pytest.mark.parametrize(("source", "message"), table.REFUSED + table.LIMITS)
def test_refuses_at_compile(source: str, message: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        Expression.compile(source)
    assert message in str(caught.value)


@pytest.mark.parametrize(("source", "message"), table.FAILURES)
def test_a_failure_says_what_is_missing(source: str, message: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        evaluate(source)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    "source",
    [
        "state.big + state.big",
        "state.big.replace('a', state.big)",
        "state.big.replace('', state.big, 3)",
        "state.big.join(state.big)",
        "state.list + state.list",
    ],
)
def test_one_operation_cannot_make_something_huge(source: str) -> None:
    names = {"state": {"big": "a" * 6_000_000, "list": [0] * 6_000_000}, "steps": {}}
    with pytest.raises(ExpressionError, match="would have more than 10000000 characters or entries"):
        Expression.compile(source).evaluate(names)


@pytest.mark.parametrize("source", ["state.a == state.b", "str(state.a)"])
def test_deeply_nested_data_is_an_error(source: str) -> None:
    deep: list[Any] = [[], []]
    for index in range(2):
        for _ in range(50_000):
            deep[index] = [deep[index]]
    with pytest.raises(ExpressionError, match="a value is nested too deeply"):
        Expression.compile(source).evaluate({"state": {"a": deep[0], "b": deep[1]}})


@pytest.mark.parametrize(
    ("source", "references"),
    [
        ("1", ()),
        ("state", (("state", ()),)),
        ("state.a.b[0]['c'] > state.a.b[0]['c']", (("state", ("a", "b", 0, "c")),)),
        ("state.a[1:].b", (("state", ("a",)),)),
        ("state.a.strip().lower()", (("state", ("a",)),)),
        ("state.get('a').b", (("state", ("a",)),)),
        ("state.a if steps.x.output else len(state.c)",
         (("steps", ("x", "output")), ("state", ("a",)), ("state", ("c",)))),
    ],
)  # fmt: skip
def test_references_are_as_long_as_they_are_literal(source: str, references: Any) -> None:
    assert tuple((each.root, each.parts) for each in Expression.compile(source).references) == references


def test_a_reference_is_written_as_a_path_is() -> None:
    (reference,) = Expression.compile("state['a'][0].b == 1").references
    assert (reference.text, reference.offset) == ("state.a[0].b", None)


def test_compiling_warns_of_nothing() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Expression.compile("'\\d' is state.x")


def test_expressions_are_equal_and_hashed_by_their_source() -> None:
    assert len({Expression.compile("state.a"), Expression.compile("state.a")}) == 1


def test_importing_the_language_does_not_import_pydantic() -> None:
    code = "import sys, treadle._language; sys.exit(any(name.startswith('pydantic') for name in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


atoms = st.sampled_from(["state.a", "state", "1", "'x'", "None", "state.b[0]", "steps.s.output", "true", "{", "__"])
expressions = st.recursive(
    atoms,
    lambda inner: (
        st.tuples(inner, st.sampled_from(["+", "-", "<", "==", "in", "is", "and", "or", "*"]), inner).map(" ".join)
        | st.tuples(st.sampled_from(["not ", "-", "len", "int", "str", "lambda: "]), inner).map("{0[0]}({0[1]})".format)
        | inner.map("[{}, 1]".format)
        | inner.map("{}.strip()".format)
    ),
)


@given(expressions | st.text() | st.text("stae.x()[]'\"{}=<>!&|+-*:,0_ \n\\\ud800\0"))
def test_any_text_compiles_and_evaluates_or_is_an_expression_error(source: str) -> None:
    try:
        expression = Expression.compile(source)
        expression.evaluate({"state": {"a": "text", "b": [1, None]}, "steps": {}})
    except ExpressionError:
        return
    assert Expression.compile(source) == expression


class Document(BaseModel):
    expression: Expression


def test_is_a_pydantic_field() -> None:
    document = Document.model_validate({"expression": "state.a > 1"})
    assert document.expression.evaluate({"state": {"a": 2}, "steps": {}}) is True
    assert document.model_dump() == {"expression": "state.a > 1"}
    assert document.model_copy(deep=True) == document
    assert Document.model_json_schema()["properties"]["expression"] == {
        "title": "Expression",
        "type": "string",
        "$comment": "An expression, such as state.score > 80 and 'red' in state.tags",
    }


def test_its_error_is_an_ordinary_validation_error() -> None:
    with pytest.raises(ValidationError) as caught:
        Document.model_validate({"expression": "{state.a} > 1"})
    (error,) = caught.value.errors()
    assert (error["type"], error["loc"]) == ("expression", ("expression",))
    assert error["msg"].startswith("column 1: a set is not allowed in expression '{state.a} > 1'; write")
