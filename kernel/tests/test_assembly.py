"""Tool calls out of fragments, by the rules that the module writes down."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.assembly import ToolCallAssembly, tool_call_part, with_unique_ids
from treadle.messages import ToolCallDelta


def piece(
    arguments: str = "", *, index: int | None = None, call_id: str | None = None, name: str | None = None
) -> dict[str, Any]:
    return {"arguments": arguments, "index": index, "call_id": call_id, "tool_name": name}


def assembled(*pieces: dict[str, Any]) -> list[tuple[str, str, Any]]:
    assembly = ToolCallAssembly()
    for each in pieces:
        assembly.add(**each)
    return [(part.call_id, part.tool_name, part.arguments) for part in assembly.parts()]


def test_the_usual_way_an_id_and_name_first_then_arguments_by_index() -> None:
    assert assembled(piece(index=0, call_id="a", name="f"), piece('{"x"', index=0), piece(": 1}", index=0)) == [
        ("a", "f", {"x": 1})
    ]


def test_interleaved_calls_are_told_apart_by_index() -> None:
    assert assembled(
        piece(index=0, call_id="a", name="f"),
        piece(index=1, call_id="b", name="g"),
        piece('{"x":', index=0),
        piece('{"y":', index=1),
        piece("1}", index=0),
        piece("2}", index=1),
    ) == [("a", "f", {"x": 1}), ("b", "g", {"y": 2})]


def test_a_seen_id_wins_over_the_index() -> None:
    assert assembled(
        piece('{"x":', index=0, call_id="a", name="f"),
        piece('{"y":', index=1, call_id="b", name="g"),
        piece("1}", index=1, call_id="a"),
        piece("2}", index=0, call_id="b"),
    ) == [("a", "f", {"x": 1}), ("b", "g", {"y": 2})]


def test_a_new_id_never_merges_though_the_index_is_in_use() -> None:
    assert assembled(
        piece('{"x": 1}', index=0, call_id="a", name="f"),
        piece('{"y":', index=0, call_id="b", name="g"),
        piece("2}", index=0),
    ) == [("a", "f", {"x": 1}), ("b", "g", {"y": 2})]


def test_one_index_for_two_calls_without_ids_is_told_by_the_names() -> None:
    found = assembled(piece('{"x": 1}', index=0, name="f"), piece('{"y": 2}', index=0, name="g"))
    assert [each[1:] for each in found] == [("f", {"x": 1}), ("g", {"y": 2})]


def test_a_name_after_whole_arguments_opens_a_call_even_if_it_is_the_same_name() -> None:
    found = assembled(piece('{"x": 1}', index=0, name="f"), piece('{"x": 2}', index=0, name="f"))
    assert [each[1:] for each in found] == [("f", {"x": 1}), ("f", {"x": 2})]


def test_a_name_repeated_with_every_fragment_is_one_call() -> None:
    found = assembled(piece('{"x":', index=0, name="f"), piece(" 1}", index=0, name="f"))
    assert [each[1:] for each in found] == [("f", {"x": 1})]


def test_a_missing_index_goes_to_the_open_call() -> None:
    assert assembled(
        piece(index=0, call_id="a", name="f"),
        piece("{}", index=0),
        piece('{"y":', index=1, call_id="b", name="g"),
        piece("2}"),
    ) == [("a", "f", {}), ("b", "g", {"y": 2})]


def test_whole_calls_without_index_are_told_apart_by_their_ids() -> None:
    assert assembled(piece('{"x": 1}', call_id="a", name="f"), piece('{"x": 2}', call_id="b", name="f")) == [
        ("a", "f", {"x": 1}),
        ("b", "f", {"x": 2}),
    ]


def test_an_orphan_fragment_goes_to_the_call_opened_last() -> None:
    assert assembled(
        piece("{}", index=0, call_id="a", name="f"),
        piece('{"y":', index=1, call_id="b", name="g"),
        piece("2}", index=7),
    ) == [("a", "f", {}), ("b", "g", {"y": 2})]


def test_a_call_may_receive_its_id_late() -> None:
    assert assembled(piece('{"x":', index=0, name="f"), piece("1}", index=0, call_id="a")) == [("a", "f", {"x": 1})]


def test_a_fragment_says_which_call_it_belongs_to() -> None:
    assembly = ToolCallAssembly()
    assert assembly.add(**piece("{", index=3, call_id="a", name="f")) == ToolCallDelta(
        index=0, call_id="a", tool_name="f", arguments="{"
    )
    assert assembly.add(**piece("}", index=3)) == ToolCallDelta(index=0, call_id="a", arguments="}")


JSON_OBJECTS = st.dictionaries(st.text(max_size=4), st.integers() | st.text(max_size=6), max_size=3)


@given(calls=st.lists(st.tuples(st.sampled_from("fgh"), JSON_OBJECTS), min_size=1, max_size=4), data=st.data())
def test_however_calls_are_cut_and_interleaved_they_come_back_whole(
    calls: Sequence[tuple[str, dict[str, Any]]], data: st.DataObject
) -> None:
    queues: list[list[dict[str, Any]]] = []
    for number, (name, arguments) in enumerate(calls):
        text = json.dumps(arguments)
        cuts = sorted({0, len(text), *data.draw(st.lists(st.integers(0, len(text)), max_size=4))})
        texts = [text[a:b] for a, b in pairwise(cuts)]
        opening = piece(index=number, call_id=f"id{number}", name=name)
        queues.append([opening, *(piece(each, index=number) for each in texts)])
    assembly = ToolCallAssembly()
    opened: list[int] = []
    while any(queues):
        at = data.draw(st.sampled_from([n for n, queue in enumerate(queues) if queue]))
        if at not in opened:
            opened.append(at)
        assembly.add(**queues[at].pop(0))
    assert [(part.tool_name, part.arguments) for part in assembly.parts()] == [calls[n] for n in opened]


@pytest.mark.parametrize(
    ("text", "arguments", "error"),
    [
        ("", {}, None),
        ("  \n", {}, None),
        ('{"a": [1]}', {"a": [1]}, None),
        ("[1]", None, "the arguments are not a JSON object but an array"),
        ('"x"', None, "the arguments are not a JSON object but a string"),
        ("null", None, "the arguments are not a JSON object but null"),
        ("1.5", None, "the arguments are not a JSON object but a number"),
        ("true", None, "the arguments are not a JSON object but a boolean"),
        ('{"a": ', None, "the arguments are not JSON: Expecting value"),
        ('{"a": NaN}', None, "the arguments are not JSON: NaN is not a JSON value"),
        ("{'a': 1}", None, "the arguments are not JSON: Expecting property name enclosed in double quotes"),
    ],
)
def test_arguments_that_are_no_object_are_kept_as_text_with_the_reason(
    text: str, arguments: dict[str, Any] | None, error: str | None
) -> None:
    part = tool_call_part("a", "f", text)
    assert (part.arguments, part.raw_arguments) == (arguments, text)
    if error is None:
        assert part.parse_error is None
    else:
        assert part.parse_error is not None
        assert part.parse_error.startswith(error)


def test_ids_that_repeat_or_are_empty_become_unique() -> None:
    ids = [call.call_id for call in with_unique_ids(tool_call_part(i, "f", "") for i in ("a", "a", "a_2", "", "", "a"))]
    assert ids[:3] == ["a", "a_3", "a_2"]
    assert ids[5] == "a_4"
    assert all(each.startswith("call_") for each in ids[3:5])
    assert len(set(ids)) == 6
