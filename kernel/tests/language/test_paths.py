"""State paths: reading them, looking up values, and writing without changing the input."""

import copy
from typing import Any

import language_path_table as table
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from treadle._language import MISSING, StatePath, assign, look_up
from treadle.errors import StateError


@pytest.mark.parametrize(("text", "parts"), table.PARSED)
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


@pytest.mark.parametrize(("text", "message"), table.MALFORMED)
def test_a_malformed_path_is_quoted_with_what_is_wrong(text: str, message: str) -> None:
    with pytest.raises(StateError) as caught:
        StatePath.parse(text)
    assert str(caught.value) == f"{message}; write it like items[0].name"


@pytest.mark.parametrize(("text", "expected"), table.READ)
def test_look_up_reads_keys_indices_and_declared_fields_only(text: str, expected: Any) -> None:
    found = look_up(table.STATE, StatePath.parse(text).parts)
    assert found is expected if expected is MISSING else found == expected


def test_look_up_of_no_parts_is_the_value_itself() -> None:
    assert look_up(table.STATE, ()) is table.STATE
    assert look_up((1, 2), (-1,)) == 2
    assert look_up(table.STATE, (0,)) is look_up(table.STATE, ("r", 0)) is look_up(table.STATE, ("a", "0")) is MISSING


def test_a_field_that_was_never_set_is_missing() -> None:
    class Bare(BaseModel):
        title: str

    assert look_up(Bare.model_construct(), ("title",)) is MISSING


def test_look_up_compares_keys_exactly() -> None:
    assert look_up({"caf\u00e9": 1}, ("cafe\u0301",)) is MISSING


def test_missing_is_one_object() -> None:
    assert repr(MISSING) == "MISSING"
    assert copy.deepcopy(MISSING) is MISSING


@pytest.mark.parametrize(("root", "text", "expected"), [*table.WRITTEN, ((1, 2), "a[0]", (9, 2))])
def test_assign_makes_a_new_value(root: Any, text: str, expected: Any) -> None:
    before = copy.deepcopy(root)
    assert assign(root, StatePath.parse(text), 9) == expected
    assert root == before


@pytest.mark.parametrize(("root", "text", "message"), table.NOT_WRITTEN)
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
    assert Document.model_json_schema()["properties"]["output"] == {
        "title": "Output",
        "type": "string",
        "$comment": "A state path, such as report.title or items[0]",
    }


def test_its_error_is_an_ordinary_validation_error() -> None:
    with pytest.raises(ValidationError) as caught:
        Document.model_validate({"output": "a..b"})
    (error,) = caught.value.errors()
    assert (error["type"], error["loc"]) == ("state_path", ("output",))
    assert error["msg"] == "state path 'a..b' has an empty segment; write it like items[0].name"
    with pytest.raises(ValidationError, match="Input should be a valid string"):
        Document.model_validate({"output": 1})
