"""Initial state from the command line."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle import ConfigurationError
from treadle_cli.state_args import Assignment, initial_state, parse_assignment, parse_value, read_state_file


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("3", 3),
        ("-2.5e3", -2500.0),
        ("0", 0),
        (" 7 ", 7),
        ("true", True),
        ("false", False),
        ("null", None),
        ('"007"', "007"),
        ('""', ""),
        ('["a", 1]', ["a", 1]),
        ('{"a": {"b": null}}', {"a": {"b": None}}),
        (" [1]\n", [1]),
    ],
)
def test_what_looks_like_json_is_decoded(written: str, value: Any) -> None:
    assert parse_value(written) == (value, None)


@pytest.mark.parametrize(
    "written",
    [
        "", " ", "hello", "007", "+1", "1.", ".5", "0x10", "1_000", "1e999", "-1e999", "NaN", "Infinity", "True",
        "None", "https://example.org/?a=b", "1.2.3", "2026-11-30", "[todo",
        "{name} is late", "'a'", '"', "{", "9" * 5000,
    ],
)  # fmt: skip
def test_everything_else_is_text_as_it_stands(written: str) -> None:
    assert parse_value(written) == (written, None)


@pytest.mark.parametrize(
    ("written", "why"),
    [
        ("{'a': 1}", "Expecting property name enclosed in double quotes at character 2"),
        ("[1, 2", None),
        ("[NaN]", "NaN is no JSON number"),
        ("[draft]", "Expecting value at character 2"),
    ],
)
def test_text_that_is_almost_json_stays_text_with_a_doubt(written: str, why: str | None) -> None:
    value, doubt = parse_value(written)
    assert value == written
    assert doubt == (f"looks like JSON but is not ({why}), and is taken as text" if why else None)


def test_json_nested_too_deeply_stays_text() -> None:
    deep = "[" * 200_000 + "]" * 200_000
    assert parse_value(deep) == (deep, "looks like JSON but is nested too deeply, and is taken as text")


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda leaf: st.lists(leaf)))
def test_whatever_json_writes_is_read_back(value: Any) -> None:
    assert parse_value(json.dumps(value)) == (value, None)


def test_only_the_first_equals_sign_parts_key_and_value() -> None:
    assert parse_assignment("url=http://x/?a=1") == Assignment(("url",), "http://x/?a=1")


def test_a_key_may_be_dotted_and_begin_with_state() -> None:
    assert parse_assignment("state.user.name=Ann").path == ("user", "name")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("topic", "-s topic: no value; write it as key=value"),
        ("=1", "-s =...: '' is no key of a state; write topic=... or user.name=..."),
        ("a..b=1", "-s a..b=...: 'a..b' is no key of a state; write topic=... or user.name=..."),
        ("items[0]=1", "-s items[0]=...: 'items[0]' is no key of a state; write topic=... or user.name=..."),
    ],
)
def test_what_is_no_assignment_is_refused(text: str, message: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse_assignment(text)
    assert str(caught.value) == message


def test_assignments_win_over_the_file_and_the_last_one_wins() -> None:
    assignments = [parse_assignment("a=1"), parse_assignment("a=2")]
    assert initial_state({"a": 9, "b": 9}, {"a": 0, "c": 3}, assignments) == {"a": 2, "c": 3}


def test_a_dotted_key_changes_one_entry_of_the_documents_mapping_and_not_the_document() -> None:
    document = {"user": {"name": "Bob", "tags": {"x": 1}}}
    assert initial_state(document, {}, [parse_assignment("user.tags.y=2")]) == {
        "user": {"name": "Bob", "tags": {"x": 1, "y": 2}}
    }
    assert document == {"user": {"name": "Bob", "tags": {"x": 1}}}


def test_a_dotted_key_makes_the_mappings_that_are_not_there() -> None:
    assert initial_state({}, {"a": {"z": 0}}, [parse_assignment("a.b.c=1")]) == {"a": {"z": 0, "b": {"c": 1}}}


def test_a_dotted_key_does_not_lead_through_a_text() -> None:
    with pytest.raises(ConfigurationError) as caught:
        initial_state({"user": "Bob"}, {}, [parse_assignment("user.name=Ann")])
    assert str(caught.value) == "-s user.name: 'user' holds a text, not a mapping; set it whole, as user={...}"


def test_a_state_file_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    file = tmp_path / "state.json"
    file.write_bytes(b'\xef\xbb\xbf{"a": "\xc3\xa9"}')
    assert read_state_file(str(file)) == {"a": "é"}


def test_a_dash_reads_stdin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b'{"a": 1}')))
    assert read_state_file("-") == {"a": 1}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"a": 1,\n "b" 2}', "{file}:2:6: not JSON: Expecting ':' delimiter"),
        (b"[1]", "{file}: holds a list, not a JSON object of state keys"),
        (b"null", "{file}: holds null, not a JSON object of state keys"),
        (b'{"a": NaN}', "{file}: not JSON: NaN is no JSON number"),
        (b"\xff", "{file}: not UTF-8 text: invalid start byte at byte 0"),
        (b"", "{file}:1:1: not JSON: Expecting value"),
    ],
)
def test_a_bad_state_file_is_located(tmp_path: Path, content: bytes, message: str) -> None:
    file = tmp_path / "state.json"
    file.write_bytes(content)
    with pytest.raises(ConfigurationError) as caught:
        read_state_file(str(file))
    assert str(caught.value) == message.format(file=file)


def test_a_missing_state_file_is_named() -> None:
    with pytest.raises(ConfigurationError) as caught:
        read_state_file("nope.json")
    assert str(caught.value) == "nope.json: cannot be read: No such file or directory"
