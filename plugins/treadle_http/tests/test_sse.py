"""Server-sent events, as the format's page has them."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle_http import SSEDecoder

SAMPLE = (
    "\ufeff: hello\n\ndata: one\n\nevent: named\r\ndata:two\r\ndata:  lines é🙂\r\n\r\n"
    "id: 7\rdata\r\rretry: 5\n\ndata: x\n\n"
)
EVENTS = [("", "one"), ("named", "two\n lines é🙂"), ("", ""), ("", "x")]


def decoded(*pieces: bytes) -> list[tuple[str, str]]:
    decoder = SSEDecoder()
    events = [tuple(event) for piece in pieces for event in decoder.feed(piece)]
    return [*events, *(tuple(event) for event in decoder.finish())]  # type: ignore[list-item]


def test_fields_comments_and_the_three_line_ends() -> None:
    assert decoded(SAMPLE.encode()) == EVENTS


@given(st.lists(st.integers(0, len(SAMPLE.encode())), max_size=20))
def test_it_does_not_matter_where_the_pieces_end(cuts: list[int]) -> None:
    body = SAMPLE.encode()
    assert decoded(*(body[a:b] for a, b in pairwise(sorted({0, len(body), *cuts})))) == EVENTS


def test_byte_by_byte() -> None:
    assert decoded(*(bytes([each]) for each in SAMPLE.encode())) == EVENTS


@pytest.mark.parametrize(
    ("body", "events"),
    [
        (b"", []),
        (b"data: unfinished", []),
        (b"data: unfinished\n", []),
        (b"data: a\r\r", [("", "a")]),
        (b"data: a\n\r", [("", "a")]),
        (b"event: lost\n\ndata: a\n\n", [("", "a")]),
        (b"data: \xff\n\n", [("", "\ufffd")]),
        (b"data: a\x0bb\x1cc\xc2\x85d\n\n", [("", "a\x0bb\x1cc\x85d")]),
    ],
)
def test_ends_and_odd_bytes(body: bytes, events: list[tuple[str, str]]) -> None:
    assert decoded(body) == events


def test_a_long_line_is_not_copied_again_with_every_piece() -> None:
    decoder = SSEDecoder()
    decoder.feed(b"data: ")
    for _ in range(1000):
        assert decoder.feed(b"x" * 1000) == []
    assert len(decoder._parts) == 1001
    (event,) = decoder.feed(b"\n\n")
    assert len(event.data) == 1_000_000
