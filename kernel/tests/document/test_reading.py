"""YAML text to data with places: what is read as what, what is refused, and where."""

import sys
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from treadle._document import reading
from treadle._document.reading import MAX_DEPTH, decode, read
from treadle.errors import DocumentError


@pytest.fixture(params=["libyaml", "pure"], autouse=True)
def _loader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Everything holds with libyaml and with PyYAML's own parser."""
    if request.param == "libyaml":
        monkeypatch.setattr(reading, "_Loader", yaml.CSafeLoader)
    else:
        monkeypatch.setattr(reading, "_Loader", yaml.SafeLoader)
    return


BRACE_HINT = 'a value that begins with { or [ needs quotes: "{state.name}"'
LESS_FAR_IN = "this line is less far in than what stands above it, and belongs to nothing in column "
TAG_HINT = "write plain YAML; values are not built by tags"


def data(text: str) -> Any:
    value, _, problems = read(text, "f")
    assert problems == []
    return value


def refusal(text: str) -> list[str]:
    """Everything that the reader has against a text."""
    try:
        problems = read(text, "f")[2]
    except DocumentError as error:
        problems = list(error.problems)
    return [str(problem).removeprefix("f:") for problem in problems]


@pytest.mark.parametrize(
    ("written", "value"),
    [
        # Only these are booleans and null (https://yaml.org/spec/1.2.2/#103-core-schema).
        ("true", True),
        ("True", True),
        ("TRUE", True),
        ("false", False),
        ("null", None),
        ("~", None),
        ("", None),
        ("yes", "yes"),
        ("no", "no"),
        ("NO", "NO"),
        ("on", "on"),
        ("off", "off"),
        ("y", "y"),
        ("tRUE", "tRUE"),
        # Integers: decimal whatever the leading zero, 0o, 0x.
        ("12", 12),
        ("-12", -12),
        ("+12", 12),
        ("012", 12),
        ("0o14", 12),
        ("0xC", 12),
        ("0b11", "0b11"),
        ("1_000", "1_000"),
        ("-0x1", "-0x1"),
        ("1:30", "1:30"),
        # Floats.
        ("1.5", 1.5),
        ("1.", 1.0),
        (".5", 0.5),
        ("1e3", 1000.0),
        ("1.5E-3", 0.0015),
        ("-1.5", -1.5),
        (".", "."),
        ("-", [None]),
        ("1e", "1e"),
        # Dates and versions are text.
        ("2026-01-01", "2026-01-01"),
        ("2026-01-01T10:00:00Z", "2026-01-01T10:00:00Z"),
        ("1.2.3", "1.2.3"),
        # Quotes make text, and tags say what they say.
        ('"12"', "12"),
        ("'true'", "true"),
        ("!!str 12", "12"),
        ('!!int "12"', 12),
        ('!!float "1.5"', 1.5),
        ("! 12", "12"),
        ("|\n  a\n  b\n", "a\nb\n"),
        (">-\n  a\n  b\n", "a b"),
        ('"\\u00e9\\x41"', "éA"),
        ("[1, a, {b: c}]", [1, "a", {"b": "c"}]),
    ],
)
def test_a_scalar_is_what_the_core_schema_says(written: str, value: object) -> None:
    read_value = data(f"k: {written}" if written != "-" else "k:\n- ")["k"]
    assert read_value == value
    assert type(read_value) is type(value)


def test_keys_that_yaml_1_1_turns_into_booleans_stay_text() -> None:
    assert data("on: 1\noff: 2\nyes: 3\nNO: 4\ny: 5") == {"on": 1, "off": 2, "yes": 3, "NO": 4, "y": 5}


def test_places_count_from_one_in_characters() -> None:
    text = "name: é\nsteps:\n  - {id: ü, type: x}\n  - id: b\n    depends_on:\n      - a\n"
    _, marks, _ = read(text, "f")
    assert marks.place == (1, 1, 6, 10, "")
    assert marks.value(("name",)) == (1, 7)
    assert marks.key(("steps",)) == (2, 1)
    assert marks.value(("steps",)) == (3, 3)
    assert marks.value(("steps", 0)) == (3, 5)
    assert marks.key(("steps", 0, "type")) == (3, 13)
    assert marks.value(("steps", 0, "type")) == (3, 19)
    assert marks.value(("steps", 1, "depends_on", 0)) == (6, 9)


def test_a_place_that_is_not_there_is_the_nearest_container() -> None:
    _, marks, _ = read("a:\n  b: 1\n", "f")
    assert marks.value(("a", "z", "y")) == marks.key(("a", "z")) == (2, 3)
    assert marks.key(("z", "y", "x")) == (1, 1)


def test_crlf_counts_as_one_line_break() -> None:
    value, marks, _ = read("a: 1\r\nb: |\r\n  x\r\n  y\r\nc: 2\r\n", "f")
    assert value == {"a": 1, "b": "x\ny\n", "c": 2}
    assert marks.key(("c",)) == (5, 1)


def test_only_what_editors_call_a_line_break_counts_as_one() -> None:
    """PyYAML follows YAML 1.1, where NEL, U+2028 and U+2029 end a line; text from the web has them."""
    text = "a: 'x\u2028y\x85z'\r\nb: 'x\u2029y'\nc: {d: 'x\u2028y', e: 1}\n"
    _, marks, _ = read(text, "f")
    assert marks.key(("b",)) == (2, 1)
    assert marks.key(("c", "e")) == (3, 15)
    assert refusal("a: 'x\u2028y'\nb: [")[0].startswith("2:5: ")
    assert refusal("a: 1\nb: [")[0].startswith("2:5: ")
    assert refusal("a: 'x\u2028y'\nb: Note: c")[0].startswith("2:8: ")


def test_a_byte_order_mark_is_not_part_of_the_first_key() -> None:
    assert data(decode(b"\xef\xbb\xbfname: x\n", "f")) == {"name": "x"}
    assert data("\ufeffname: x\n") == {"name": "x"}


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"a: 1\nb: \xe9\n", "2:4: byte 0xe9 is not UTF-8; save it as UTF-8"),
        ("a: éé".encode() + b"\xff", "1:6: byte 0xff is not UTF-8; save it as UTF-8"),
        (b"\xef\xbb\xbfab\xff", "1:3: byte 0xff is not UTF-8; save it as UTF-8"),
        ("a: 1".encode("utf-16"), "1:1: byte 0xff is not UTF-8; it looks like UTF-16; save it as UTF-8"),
        (b"a: \xed\xa0\x80", "1:4: byte 0xed is not UTF-8; save it as UTF-8"),
    ],
)
def test_bytes_that_are_not_utf_8_are_named_with_their_place(raw: bytes, message: str) -> None:
    with pytest.raises(DocumentError) as caught:
        decode(raw, "f")
    assert str(caught.value) == f"f:{message}"


def test_a_file_beyond_the_limit_is_refused_by_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MAX_BYTES", 10)
    with pytest.raises(DocumentError, match=r"^f:1:1: the file has 11 bytes; the limit is 10$"):
        decode(b"a: 12345678", "f")


def test_utf_16_without_a_mark_is_recognised_by_its_zeros() -> None:
    (message,) = refusal("a: 1".encode("utf-16-le").decode())
    assert message.startswith("1:2: not valid YAML: ")
    assert message.endswith("; it looks like UTF-16; save it as UTF-8")


def test_a_control_character_is_placed_by_characters_not_bytes() -> None:
    (message,) = refusal("é: 1\nü: é\x01")
    assert message.startswith("2:5: not valid YAML: ")
    assert message.endswith("; write it as an escape in double quotes, or take it out")


def test_a_lone_surrogate_is_refused_where_it_stands() -> None:
    (message,) = refusal("a: 1\nb: \ud800")
    assert message.startswith("2:4: ")


@pytest.mark.parametrize(
    ("text", "messages"),
    [
        ("", ["1:1: the document is empty"]),
        ("# only a comment\n", ["1:1: the document is empty"]),
        ("a: 1\n--- \nb: 2\n", ["2:1: a second document begins; a file holds one"]),
        ("a: 1\nb: 2\na: 3\n", ["3:1: the key 'a' already stands on line 1; remove one of them"]),
        ("x: {a: 1, a: 2}", ["1:11: the key 'a' already stands on line 1; remove one of them"]),
        ("a: 1\n'a': 2", ["2:1: the key 'a' already stands on line 1; remove one of them"]),
        ("1: a", ['1:1: a key must be text, and 1 is not; write "1"']),
        ("true: a", ['1:1: a key must be text, and true is not; write "true"']),
        ("~: a", ['1:1: a key must be text, and ~ is not; write "~"']),
        (
            "? [a]\n: b",
            ["1:3: a key must be text, not a list or a mapping; " + BRACE_HINT],
        ),
        ("? - a\n: b", ["1:3: a key must be text, not a list or a mapping"]),
        ("a: &x [1]\n*x : b", ["2:1: a key must be text, not a list or a mapping"]),
        (
            "a: !!binary aGk=",
            ["1:4: unknown tag tag:yaml.org,2002:binary; write plain YAML; values are not built by tags"],
        ),
        (
            "a: !!python/object:os.system x",
            ["1:4: unknown tag tag:yaml.org,2002:python/object:os.system; " + TAG_HINT],
        ),
        ("a: !thing {b: 1}", ["1:4: unknown tag !thing; write plain YAML"]),
        ("a: *x", ["1:4: no anchor &x before this alias"]),
        ("a: &x [1, *x]", ["1:11: alias *x stands inside what it stands for"]),
        ("a: &x {b: {c: *x}}", ["1:15: alias *x stands inside what it stands for"]),
        ("a:\n  <<: 3", ["2:7: << merges mappings only"]),
        ("a: &x 1\nb:\n  <<: [*x]", ["3:7: << merges mappings only"]),
        ("a: {<<: {b: 1}, <<: {c: 1}}", ["1:17: the key '<<' already stands on line 1; remove one of them"]),
    ],
)
def test_what_the_reader_refuses(text: str, messages: list[str]) -> None:
    assert refusal(text) == messages


def test_problems_that_leave_the_rest_readable_are_all_found() -> None:
    assert refusal("a: 1\na: 2\n1: x\nb: !x 1\nc: *d\n") == [
        "2:1: the key 'a' already stands on line 1; remove one of them",
        '3:1: a key must be text, and 1 is not; write "1"',
        "4:4: unknown tag !x; write plain YAML; values are not built by tags",
        "5:4: no anchor &d before this alias",
    ]


def test_a_syntax_error_does_not_hide_what_came_before_it() -> None:
    first, second = refusal("a: 1\na: 2\nb: [\n")
    assert first == "2:1: the key 'a' already stands on line 1; remove one of them"
    assert second.startswith("4:1: not valid YAML: while parsing a flow ")


@pytest.mark.parametrize(
    ("text", "place", "hint"),
    [
        ("a:\n\tb: 1", "2:", "indent with spaces; YAML does not allow tabs"),
        ("a: Note: b", "1:8:", "put the value in quotes, or use a block with |, as it has a colon in it"),
        ("s:\n- a: Note: b", "2:10:", "put the value in quotes, or use a block with |, as it has a colon in it"),
        ("a: do this:", "1:11:", "put the value in quotes, or use a block with |, as it has a colon in it"),
        (
            'a: "x\nb: 1\nc: "y"\n',
            "3:5:",
            "the quote that opens on line 1 is closed only here; close it where its text ends",
        ),
        ("s:\n  - a: 1\n    b: 2\n   c: 3\n", "4:4:", LESS_FAR_IN + "4"),
        ("s:\n  - a: 1\n    b: 2\n - a: 3\n", "4:2:", LESS_FAR_IN + "2"),
    ],
)
def test_the_common_slips_of_yaml_have_a_hint(text: str, place: str, hint: str) -> None:
    (message,) = refusal(text)
    assert message.startswith(f"{place}")
    assert message.endswith(f"; {hint}")


def test_a_quote_that_is_closed_nowhere_is_told_where_it_opens() -> None:
    assert refusal("a: 1\nb: 'x\nc: 2\n") == ["2:4: not valid YAML: a quote opens here and is closed nowhere"]


@pytest.mark.parametrize("text", ['a: "x', "a: [1", "a: {b", "%YAML 3.0\n---\na: 1", "@a: 1", "a: `x`", "a: %x\nb"])
def test_broken_syntax_is_a_document_error_without_a_false_hint(text: str) -> None:
    (message,) = refusal(text)
    assert "not valid YAML: " in message
    assert "colon" not in message
    assert "tabs" not in message


def test_a_number_of_more_digits_than_python_converts_is_refused() -> None:
    digits = "9" * (sys.get_int_max_str_digits() + 1)
    (message,) = refusal(f"a: {digits}")
    assert message == (
        "1:4: a number that cannot be read: Exceeds the limit (4300 digits) for integer string conversion: "
        f"value has {len(digits)} digits; put it in quotes"
    )


@pytest.mark.parametrize("number", [f"0x{'f' * 5000}", f"0o{'7' * 6000}"])
def test_nor_is_one_read_that_could_not_be_written_again(number: str) -> None:
    """It would fail later, where a run is recorded or a template filled in."""
    (message,) = refusal(f"a: {number}")
    assert message.startswith("1:4: a number that cannot be read: Exceeds the limit (4300 digits)")
    assert message.endswith("; put it in quotes")


@pytest.mark.parametrize("number", ["1e400", "-1e400", "1" * 400 + ".0"])
def test_a_number_larger_than_any_is_not_infinite(number: str) -> None:
    (message,) = refusal(f"a: {number}")
    assert message == (
        "1:4: a number that cannot be read: it is larger than the largest there is, 1.8e308; put it in quotes"
    )


@pytest.mark.parametrize("number", ["1e400", "9" * 5000])
def test_a_number_that_cannot_be_read_is_no_key_either(number: str) -> None:
    (message,) = refusal(f"? {number}\n: 1")
    assert message == f'1:3: a key must be text, and {number} is not; write "{number}"'


def test_depth_is_limited_without_recursion() -> None:
    assert data("[" * MAX_DEPTH + "]" * MAX_DEPTH)
    assert refusal("[" * 500) == [f"1:{MAX_DEPTH + 1}: nested more than {MAX_DEPTH} levels deep"]
    assert "nest" in refusal("[" * 100_000)[0]  # here libyaml may be the first to give up
    assert "nest" in refusal("\n".join(f"{' ' * n}a:" for n in range(500)))[0]


def test_an_anchor_gives_the_same_value_and_the_place_of_the_anchor() -> None:
    value, marks, _ = read("a: &x {b: 1}\nc: *x\nd: [*x]\n", "f")
    assert value == {"a": {"b": 1}, "c": {"b": 1}, "d": [{"b": 1}]}
    assert marks.value(("c", "b")) == marks.value(("d", 0, "b")) == (1, 11)


def test_an_alias_may_be_a_key() -> None:
    assert data("a: &x word\n*x : 1") == {"a": "word", "word": 1}


def test_an_anchor_may_be_given_again() -> None:
    assert data("a: &x 1\nb: &x 2\nc: *x") == {"a": 1, "b": 2, "c": 2}


def test_merge_keys_fill_in_what_is_missing_and_keep_their_places() -> None:
    text = "base: &b {x: 1, y: 2}\nmore: &m {y: 3, z: 4}\nout:\n  x: 0\n  <<: [*b, *m]\n"
    value, marks, problems = read(text, "f")
    assert problems == []
    assert value["out"] == {"x": 0, "y": 2, "z": 4}
    assert list(value["out"]) == ["x", "y", "z"]
    assert marks.key(("out", "y")) == (1, 17)
    assert marks.value(("out", "z")) == (2, 20)


def test_merges_of_merges_work() -> None:
    text = "a: &a {x: 1}\nb: &b {<<: *a, y: 2}\nc: {<<: *b, z: 3}"
    assert data(text)["c"] == {"x": 1, "y": 2, "z": 3}


def test_a_quoted_merge_key_is_a_key() -> None:
    assert data('"<<": 1') == {"<<": 1}


def test_a_merged_key_may_be_overridden_after_the_merge() -> None:
    assert data("a: &a {x: 1}\nb: {<<: *a, x: 2}")["b"] == {"x": 2}


def test_aliases_may_not_blow_the_document_up() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 30)]
    tracemalloc.start()
    try:
        (message,) = refusal("\n".join(lines))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert message.endswith("aliases blow the document up beyond 5,000,000 values")
    assert message.startswith("7:")  # 10 ** 7 in the seventh line
    assert peak < 10_000_000


def test_nor_may_aliases_of_a_long_text() -> None:
    text = f"a: &a {'x' * 1_000_000}\nb: [{', '.join(['*a'] * 1000)}]"
    assert refusal(text) == ["2:321: aliases blow the document up beyond 5,000,000 values"]
