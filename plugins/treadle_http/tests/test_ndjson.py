"""JSON texts one a line, however the bytes are cut."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle_http import BodyTooLargeError, NDJSONDecoder

SAMPLE = '\ufeff{"a": "é🙂"}\r\n\n  \n[1, 2]\n"x"\nnull\n{"last": true}'
VALUES = [{"a": "é🙂"}, [1, 2], "x", None, {"last": True}]


def decoded(*pieces: bytes) -> list[Any]:
    decoder = NDJSONDecoder()
    values = [value for piece in pieces for value in decoder.feed(piece)]
    return [*values, *decoder.finish()]


@given(st.lists(st.integers(0, len(SAMPLE.encode())), max_size=20))
def test_it_does_not_matter_where_the_pieces_end(cuts: list[int]) -> None:
    body = SAMPLE.encode()
    assert decoded(*(body[a:b] for a, b in pairwise(sorted({0, len(body), *cuts})))) == VALUES


def test_byte_by_byte() -> None:
    assert decoded(*(bytes([each]) for each in SAMPLE.encode())) == VALUES


@given(st.lists(st.dictionaries(st.text(), st.text() | st.integers() | st.none()), max_size=5))
def test_what_is_written_is_read(values: list[Any]) -> None:
    assert decoded("".join(json.dumps(each) + "\n" for each in values).encode()) == values


def test_a_value_is_given_as_soon_as_its_line_ends() -> None:
    decoder = NDJSONDecoder()
    assert decoder.feed(b'{"a"') == []
    assert decoder.feed(b": 1}\n[") == [{"a": 1}]
    assert decoder.feed(b"]\n") == [[]]


def test_bytes_that_are_no_text_are_replaced() -> None:
    assert decoded(b'"\xff"\n') == ["\ufffd"]


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b'{"cut": \n', "Expecting"),
        (b'{"cut', "Unterminated"),
        (b"<\n", "Expecting"),
        (b"[" * 99_999 + b"\n", "deeply"),
    ],
)
def test_what_is_not_json_is_a_value_error(body: bytes, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        decoded(body)


def test_a_line_is_limited_while_it_comes_in() -> None:
    decoder = NDJSONDecoder(limit=2048)
    for _ in range(20):  # the limit is a line's, not the stream's
        assert decoder.feed(b'"' + b"x" * 1000 + b'"\n') == ["x" * 1000]
    decoder.feed(b"x" * 2048)
    with pytest.raises(BodyTooLargeError, match=r"^a line of the reply is longer than 2 kB$"):
        decoder.feed(b"x")


def test_a_whole_line_in_one_piece_is_limited_too() -> None:
    with pytest.raises(BodyTooLargeError):
        NDJSONDecoder(limit=10).feed(b'1\n"0123456789"\n')


def test_a_long_line_is_not_copied_again_with_every_piece() -> None:
    decoder = NDJSONDecoder()
    for _ in range(1000):
        assert decoder.feed(b"1" * 1000) == []
    assert len(decoder._parts) == 1000
