"""Expressions: what is in the grammar, what is refused, and how a failure is explained."""

import subprocess
import sys
import warnings
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from treadle._language import Expression
from treadle.errors import ExpressionError


class Report(BaseModel):
    score: int = 90

    @property
    def secret(self) -> str:
        return "never"


NAMES: dict[str, Any] = {
    "state": {
        "score": 85,
        "name": " Ada ",
        "tags": ["red", "blue"],
        "user": {"name": "Bob", "items": 5, "true": "key"},
        "report": Report(),
        "none": None,
        "pair": (1, 2),
        "format": "json",
    },
    "steps": {"draft": {"output": "text", "status": "success"}},
}


def evaluate(source: str) -> Any:
    return Expression.compile(source).evaluate(NAMES)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("state.score > 80", True),
        ("80 < state.score <= 85", True),
        ("90 < state.score < state.missing", False),
        ("state.score == 85 and not state.none", True),
        ("state.none or 'default'", "default"),
        ("state.score and state.tags and 0 and state.name", 0),
        ("'red' in state.tags and 'x' not in state.tags", True),
        ("'name' in state.user", True),
        ("state.missing", None),
        ("state.missing.deeper[3]['x']", None),
        ("state.missing is None and state.none is None", True),
        ("state.score is 85, state.score is 85.0, state.score is not 85", (True, False, False)),
        ("true, false, null, True, False, None", (True, False, None, True, False, None)),
        ("[1, 'a', (2.5,)]", [1, "a", (2.5,)]),
        ("{'a': state.score}['a']", 85),
        ("-state.score + 5 - +3", -83),
        ("state.name + '!'", " Ada !"),
        ("'high' if state.score > 80 else 'low'", "high"),
        ("steps.draft.output == 'text' and steps['draft'].status", "success"),
        ("state['user']['name']", "Bob"),
        ("state.tags[-1], state.tags[+0], state.tags[7]", ("blue", "red", None)),
        ("state.tags[:1], state.tags[-1:], state.tags[::-1]", (["red"], ["blue"], ["blue", "red"])),
        ("state.name[1], state.name[1:3], state.name[99]", ("A", "Ad", None)),
        ("state.pair[1]", 2),
        ("state.missing[:2]", None),
        ("state.report.score, state.report.secret, state.report['model_dump']", (90, None, None)),
        ("state.user.true", "key"),
        ("state.format == 'json'", True),
        # A key wins over a method, unless it is called.
        ("state.user.items", 5),
        ("state.user.items()", [("name", "Bob"), ("items", 5), ("true", "key")]),
        ("state.user.keys()[0], len(state.user.values())", ("name", 3)),
        ("state.get('score'), state.user.get('x', 7), state.get('x')", (85, 7, None)),
        ("state.name.strip().lower().startswith('a')", True),
        ("str(state.score).replace('8', '9')", "95"),
        ("state.user.name.join(state.tags)", "redBobblue"),
        ("state.tags.count('red') + state.tags.index('blue')", 2),
        ("state.name.upper", None),
        (
            "len(state.tags), int('7') + int('ff', 16), float('1.5'), bool([]), abs(-2)",
            (2, 262, 1.5, False, 2),
        ),
        ("min(state.pair), max(1, state.score, 3)", (1, 85)),
        ("isinstance(state.score, int), isinstance(state.name, (int, list))", (True, False)),
        ("  state.score\n", 85),
        ("(state.score\n > 80)", True),
    ],
)
def test_evaluates(source: str, expected: Any) -> None:
    result = evaluate(source)
    assert result == expected
    assert type(result) is type(expected)


ALLOWED = "; allowed are literals, state.x, steps.id.output, comparisons, and, or, not, +, -,"


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("", "the expression is empty; write a condition such as state.x > 1"),
        ("score > 1", "column 1: unknown name score in expression 'score > 1'; write state.score"),
        ("  score > 1", "column 3: unknown name score in expression '  score > 1'; write state.score"),
        ("'é' + é", "column 7: unknown name é in expression \"'é' + é\"; write state.é"),
        ("(1 +\n  x)", "line 2, column 3: unknown name x in expression"),
        ("undefined", "unknown name undefined in expression 'undefined'; write None, True or False"),
        ("{state.x} > 1", "column 1: a set is not allowed in expression '{state.x} > 1'; write state.x"),
        ("${state.x}", "; write state.x without braces"),
        ("state.x = 5", "column 9: cannot be read: invalid syntax in expression 'state.x = 5'; write `==`"),
        ("state.x === 5", "; write `==` for `===`"),
        ("state.x && 1", "; write `and` for `&&`"),
        ("state.x || 1", "; write `or` for `||`"),
        ("!state.x", "; write `not` for `!`"),
        ("state.x <> 1", "; write `!=` for `<>`"),
        ("state.x AND 1", "; write `and`, `or` and `not` in small letters"),
        ("state.x ? 1 : 2", "; write `a if condition else b`"),
        ("state.x\n> 1", "; put an expression of several lines into parentheses"),
        ("state.x == '&&' 1", "column 1"),
        ("state._x", "column 1: a name that begins with an underscore (_x) is not allowed"),
        ("state.__class__", "a name that begins with an underscore (__class__) is not allowed"),
        ("state['_x']", "column 7: a key that begins with an underscore ('_x') is not allowed"),
        ("__import__", "column 1: a name that begins with an underscore (__import__) is not allowed"),
        ("state.mro", "column 1: the attribute mro is not allowed in expression 'state.mro'; a key of"),
        ("state.x.format_map(state)", "method format_map() is not allowed"),
        ("state.x.format(1)", ("column 1: method format() is not allowed in expression 'state.x.format(1)'; "
         "the methods are strip, ")),
        ("state.x.append(1)", "method append() is not allowed"),
        ("'a'.upper()", "column 1: the method upper() of something other than a name, a path or a call"),
        ("(state.a or state.b).upper()", "the method upper() of something other than a name, a path or"),
        ("[1].x", "an attribute of something other than state, steps or a call is not allowed"),
        ("eval('1')", "column 1: unknown function eval in expression \"eval('1')\"; the functions are len, "),
        ("len", "column 1: len without a call is not allowed in expression 'len'; write len(...), or"),
        ("isinstance(state.x, set)", "column 21: this second argument of isinstance is not allowed"),
        ("len()", "column 1: wrong number of arguments (0) for len() in expression 'len()'"),
        ("len(state.x, 1)", "wrong number of arguments (2) for len()"),
        ("state.x.lower(1)", "wrong number of arguments (1) for lower()"),
        ("int(state.x, base=2)", "column 14: a keyword argument is not allowed"),
        ("min(*state.x)", "column 5: a starred value is not allowed"),
        ("state.x * 2", "column 1: the operator * is not allowed in expression 'state.x * 2'; of this"),
        ("state.x / 2", "the operator / is not allowed"),
        ("2 ** 99", "the operator ** is not allowed"),
        ("~state.x", "the operator ~ is not allowed"),
        ("state.x | state.y", "the operator | is not allowed"),
        ("lambda: 1", "column 1: a lambda is not allowed in expression 'lambda: 1'" + ALLOWED),
        ("[x for x in state.y]", "column 1: a comprehension is not allowed"),
        ("f'{state.x}'", "an f-string is not allowed"),
        ("(x := 1)", "column 2: an assignment (:=) is not allowed"),
        ("{**state.x}", "** in a dictionary is not allowed"),
        ("{state.x: 1}", "column 2: a dictionary key that is not a literal is not allowed"),
        ("state[state.x]", "column 7: a computed subscript is not allowed"),
        ("state.x[1.5]", "a computed subscript is not allowed"),
        ("state.x[::0]", "a slice with a step of 0 is not allowed"),
        ("(lambda: 1)()", "a call of something other than a function or method is not allowed"),
        ("b'x'", "a literal of type bytes is not allowed"),
        ("1j", "a literal of type complex is not allowed"),
        ("1\0", "null bytes"),
        ("'\ud800'", "surrogates not allowed"),
        ("state.x" + " " * 10_000, "the expression is longer than 10000 characters"),
        ("(" * 500 + "1" + ")" * 500, "nest"),
        ("-" * 9_999 + "1", "nest"),
        ("not " * 2_000 + "1", "nest"),
        ("-" * 100 + "1", "column 65: more than 64 levels of nesting"),
    ],
)  # fmt: skip
def test_refuses_at_compile(source: str, message: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        Expression.compile(source)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("state.gone > 80", "state.gone is missing, so `state.gone > 80` cannot be compared"),
        ("1 < 2 < state.tags[5]", "state.tags[5] is missing, so `1 < 2 < state.tags[5]` cannot be compared"),
        ("state.none > 80", "state.none is None, so `state.none > 80` cannot be compared"),
        ("'x' in state.gone", "state.gone is missing, so `'x' in state.gone` cannot be compared"),
        (
            "state.score and state.gone > 80",
            ("state.gone is missing, so `state.gone > 80` cannot be compared (in 'state.score and state.gone > 80')"),
        ),
        ("len(state.gone)", "state.gone is missing, so `len(state.gone)` cannot be evaluated"),
        ("state.gone.lower()", "state.gone is missing, so `state.gone.lower()` cannot be evaluated"),
        ("state.score.lower()", "`state.score.lower()` cannot be evaluated: int has no method lower()"),
        ("state.report.get('a')", "`state.report.get('a')` cannot be evaluated: Report has no method get()"),
        ("state.name > 5", "`state.name > 5` cannot be compared: '>' not supported between instances of"),
        ("state.name + 1", "`state.name + 1` cannot be evaluated: can only concatenate"),
        ("int(state.name)", "`int(state.name)` cannot be evaluated: invalid literal for int()"),
        ("-state.name", "`-state.name` cannot be evaluated: bad operand type"),
        ("state.tags.index('x')", "`state.tags.index('x')` cannot be evaluated: 'x' is not in list"),
    ],
)
def test_a_failure_says_what_is_missing(source: str, message: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        evaluate(source)
    assert str(caught.value).startswith(message)


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
    assert Expression.compile(source).references == references


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
    }


def test_its_error_is_an_ordinary_validation_error() -> None:
    with pytest.raises(ValidationError) as caught:
        Document.model_validate({"expression": "{state.a} > 1"})
    (error,) = caught.value.errors()
    assert (error["type"], error["loc"]) == ("expression", ("expression",))
    assert error["msg"].startswith("column 1: a set is not allowed in expression '{state.a} > 1'; write")
