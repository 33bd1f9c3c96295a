"""State paths: reading them, looking up values, and writing without changing the input."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from treadle._language import MISSING, StatePath, assign, look_up
from treadle.errors import StateError


class Report(BaseModel):
    title: str = "T"

    @property
    def secret(self) -> str:
        return "never"


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("a", ("a",)),
        ("items[0].name", ("items", 0, "name")),
        ("m[0][1]", ("m", 0, 1)),
        ("results[-1]", ("results", -1)),
        ("a.0.two words.é-_", ("a", "0", "two words", "é-_")),
        ("state.a", ("state", "a")),
        ("cafe\u0301", ("cafe\u0301",)),
    ],
)
def test_parses_names_and_indices(text: str, parts: tuple[str | int, ...]) -> None:
    path = StatePath.parse(text)
    assert path.parts == parts
    assert path.root == parts[0]
    assert path.text == str(path) == text
    assert len({path, StatePath.parse(text)}) == 1


def test_the_text_of_a_path_is_canonical() -> None:
    assert StatePath.parse("a[007][-0]").text == "a[7][0]"


def test_only_parse_state_strips_a_leading_state() -> None:
    assert StatePath.parse_state("state.a[0]") == StatePath.parse_state("a[0]") == StatePath.parse("a[0]")
    assert StatePath.parse_state("state").parts == ("state",)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the state path is empty"),
        (".a", "state path '.a' has an empty segment"),
        ("a..b", "state path 'a..b' has an empty segment"),
        ("a.", "state path 'a.' has an empty segment"),
        ("[0]", "state path '[0]' has an empty segment"),
        ("a.[0]", "state path 'a.[0]' has an empty segment"),
        ("a[x]", "state path 'a[x]' has '[x]' where an index like [0] or [-1] belongs"),
        ("a[]", "state path 'a[]' has '[]' where an index like [0] or [-1] belongs"),
        ("a[0]b", "state path 'a[0]b' has 'b' where an index like [0] or [-1] belongs"),
        ("a[0", "state path 'a[0' has '[0' where an index like [0] or [-1] belongs"),
        ("a[٣]", "state path 'a[٣]' has '[٣]' where an index like [0] or [-1] belongs"),
        ("a]", "state path 'a]' has a ']' in the name 'a]'"),
        ("{state.a}", "state path '{state.a}' has a '{' in the name '{state'"),
        (" a", "state path ' a' has a space or control character at an end of the name ' a'"),
        ("a\x00", "state path 'a\\x00' has a space or control character at an end of the name 'a\\x00'"),
    ],
)
def test_a_malformed_path_is_quoted_with_what_is_wrong(text: str, message: str) -> None:
    with pytest.raises(StateError) as caught:
        StatePath.parse(text)
    assert str(caught.value) == f"{message}; write it like items[0].name"


def test_look_up_reads_keys_indices_and_declared_fields_only() -> None:
    value = {"a": [{"b": None}], "t": (1, 2), "s": "text", "r": Report(), "items": 1}
    assert look_up(value, ()) is value
    assert look_up(value, ("a", 0, "b")) is None
    assert look_up(value, ("t", -1)) == 2
    assert look_up(value, ("r", "title")) == "T"
    assert look_up(value, ("items",)) == 1
    for parts in [
        ("x",), ("a", 1), ("a", -2), ("a", "0"), ("a", "append"), (0,), ("s", 0), ("s", "upper"),
        ("r", "secret"),        ("r", "__class__"), ("r", 0), ("__class__",), ("a", 0, "b", "c"), ("keys",),
    ]:  # fmt: skip
        assert look_up(value, parts) is MISSING


def test_a_field_that_was_never_set_is_missing() -> None:
    class Bare(BaseModel):
        title: str

    assert look_up(Bare.model_construct(), ("title",)) is MISSING


def test_look_up_compares_keys_exactly() -> None:
    assert look_up({"caf\u00e9": 1}, ("cafe\u0301",)) is MISSING


def test_missing_is_one_object() -> None:
    assert repr(MISSING) == "MISSING"
    assert copy.deepcopy(MISSING) is MISSING


@pytest.mark.parametrize(
    ("root", "text", "expected"),
    [
        (MISSING, "a", 9),
        ([1], "a", 9),
        (MISSING, "a.b.c", {"b": {"c": 9}}),
        ({"x": 1}, "a.b", {"x": 1, "b": 9}),
        ({"b": [1, {"c": 2}]}, "a.b[1].c", {"b": [1, {"c": 9}]}),
        ([1, 2], "a[-1]", [1, 9]),
        ([{}], "a[0].x.y", [{"x": {"y": 9}}]),
        ((1, 2), "a[0]", (9, 2)),
    ],
)
def test_assign_makes_a_new_value(root: Any, text: str, expected: Any) -> None:
    before = copy.deepcopy(root)
    assert assign(root, StatePath.parse(text), 9) == expected
    assert root == before


@pytest.mark.parametrize(
    ("root", "text", "message"),
    [
        ([1, 2], "a[2]", ("cannot write 'a[2]': 'a' has length 2, so [2] is out of range; "
         "a list is not grown by an index; write the whole list to 'a'")),
        ({"b": []}, "a.b[-1]", ("cannot write 'a.b[-1]': 'a.b' has length 0, so [-1] is out of range; "
         "a list is not grown by an index; write the whole list to 'a.b'")),
        ({"b": "x"}, "a.b.c", "cannot write 'a.b.c': 'a.b' is of type str, which has no parts"),
        (None, "a.b", "cannot write 'a.b': 'a' is of type None, which has no parts"),
        (5, "a[0]", "cannot write 'a[0]': 'a' is of type int, which has no parts"),
        ([1], "a.b", "cannot write 'a.b': 'a' is of type list; use an index, as in a[0]"),
        ({}, "a[0]", "cannot write 'a[0]': 'a' is of type dict, which has names and no indices"),
        (MISSING, "a[0]", ("cannot write 'a[0]': 'a' is missing, so it has no [0]; "
         "write the whole list to 'a' first")),
        (Report(), "a.title", ("cannot write 'a.title': 'a' is of type Report, a pydantic instance, "
         "which is not written into; write a whole new value to 'a'")),
    ],
)  # fmt: skip
def test_a_write_that_cannot_be_names_the_prefix_and_its_type(root: Any, text: str, message: str) -> None:
    with pytest.raises(StateError) as caught:
        assign(root, StatePath.parse(text), 9)
    assert str(caught.value) == message


def test_long_paths_do_not_recurse() -> None:
    path = StatePath.parse("a" + ".b" * 100_000)
    root = assign(MISSING, path, 1)
    assert look_up({"a": root}, path.parts) == 1


names = st.sampled_from(["a", "b", "c d"])
trees = st.recursive(
    st.integers(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=12,
)
paths = st.builds(lambda root, rest: StatePath((root, *rest)), names, st.lists(names | st.integers(-3, 2), max_size=5))


def places(value: Any, prefix: tuple[str | int, ...] = ()) -> dict[tuple[str | int, ...], Any]:
    found = {prefix: value}
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for part, below in entries:
        found |= places(below, (*prefix, part))
    return found


@given(trees, paths)
def test_look_up_after_assign_gives_the_value_and_shares_the_rest(root: Any, path: StatePath) -> None:
    before, written = copy.deepcopy(root), object()
    try:
        after = assign(root, path, written)
    except StateError:
        assert root == before
        return
    parts = path.parts[1:]
    assert look_up(after, parts) is written
    assert root == before
    positive: list[str | int] = []
    for part in parts:
        length = len(here) if isinstance(here := look_up(root, positive), list) else 0
        positive.append(part + length if isinstance(part, int) and part < 0 else part)
    for place, value in places(root).items():
        on_path = place == tuple(positive[: len(place)]) or tuple(positive) == place[: len(positive)]
        if not on_path:
            assert look_up(after, place) is value


@given(st.text() | st.text("ab.[]01-{} \x00\ud800"))
def test_any_text_is_a_path_or_a_state_error(text: str) -> None:
    try:
        path = StatePath.parse(text)
    except StateError:
        return
    assert StatePath.parse(path.text) == path


class Document(BaseModel):
    output: StatePath


def test_is_a_pydantic_field() -> None:
    document = Document.model_validate({"output": "state.a[00]"})
    assert document.output == StatePath.parse("a[0]")
    assert document.model_dump() == {"output": "a[0]"}
    assert Document.model_validate_json(document.model_dump_json()) == document
    assert Document.model_json_schema()["properties"]["output"] == {"title": "Output", "type": "string"}


def test_its_error_is_an_ordinary_validation_error() -> None:
    with pytest.raises(ValidationError) as caught:
        Document.model_validate({"output": "a..b"})
    (error,) = caught.value.errors()
    assert (error["type"], error["loc"]) == ("state_path", ("output",))
    assert error["msg"] == "state path 'a..b' has an empty segment; write it like items[0].name"
    with pytest.raises(ValidationError, match="Input should be a valid string"):
        Document.model_validate({"output": 1})
