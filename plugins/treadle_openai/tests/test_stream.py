"""Streams put together, however the network cuts them up."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from treadle.messages import Completed, StopReason, StreamEvent, TextDelta, Usage
from treadle_openai.stream import StreamedReply


def wire(*chunks: dict[str, Any], done: bool = True) -> bytes:
    events = [f"data: {json.dumps(each, ensure_ascii=False)}\n\n" for each in chunks]
    return "".join([*events, "data: [DONE]\n\n" if done else ""]).encode()


def delta(finish: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"choices": [{"delta": fields, "finish_reason": finish}]}


def read(*pieces: bytes, content_type: str = "text/event-stream") -> list[StreamEvent]:
    reply = StreamedReply(provider="openai", model="asked")
    reply.begin({"content-type": content_type})
    events = [event for piece in pieces for event in reply.feed(piece)]
    events += reply.end()
    assert reply.is_complete()
    return events


BODY = wire(
    delta(role="assistant", content=""),
    delta(content="né "),
    delta(tool_calls=[{"index": 0, "id": "a", "function": {"name": "f", "arguments": '{"x": "'}}]),
    delta(content="🙂"),
    delta(tool_calls=[{"index": 0, "function": {"arguments": 'ü"}'}}]),
    delta("stop"),
    {"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 2}},
)


@given(st.lists(st.integers(0, len(BODY)), max_size=12))
def test_it_does_not_matter_where_the_network_cuts(cuts: list[int]) -> None:
    places = sorted({0, len(BODY), *cuts})
    pieces = [BODY[a:b] for a, b in zip(places, places[1:], strict=False)]  # noqa: RUF007 - reads as what it is
    assert read(*pieces) == read(BODY)


def test_the_whole_reply_is_the_sum_of_its_pieces() -> None:
    *deltas, last = read(BODY)
    assert isinstance(last, Completed)
    assert "".join(event.text for event in deltas if isinstance(event, TextDelta)) == last.response.text == "né 🙂"
    assert last.response.message.tool_calls[0].arguments == {"x": "ü"}
    assert last.response.stop_reason is StopReason.TOOL_USE
    assert (last.response.finish_reason, last.response.model) == ("stop", "asked")
    assert last.response.usage == Usage(input_tokens=1, output_tokens=2)


def test_nothing_after_the_end_is_looked_at() -> None:
    *_, last = read(BODY + b"data: {nonsense\n\n")
    assert isinstance(last, Completed)


def test_comments_other_events_and_carriage_returns_are_no_trouble() -> None:
    body = b": keep-alive\r\n\r\nevent: ping\r\ndata: {}\r\n\r\ndata: 3\r\n\r\n" + BODY.replace(b"\n", b"\r\n")
    assert read(body) == read(BODY)


def test_a_refusal_is_streamed_as_text() -> None:
    first, last = read(wire(delta(refusal="no"), delta("stop")))
    assert first == TextDelta("no")
    assert isinstance(last, Completed)
    assert (last.response.text, last.response.stop_reason) == ("no", StopReason.REFUSAL)


def test_usage_that_is_repeated_is_counted_once() -> None:
    chunk = {**delta(content="x"), "usage": {"prompt_tokens": 1, "completion_tokens": 1}}
    *_, last = read(wire(chunk, {**chunk, "usage": {"prompt_tokens": 1, "completion_tokens": 2}}, delta("stop")))
    assert isinstance(last, Completed)
    assert last.response.usage == Usage(input_tokens=1, output_tokens=2)


def test_without_usage_it_stays_unknown_and_without_a_reason_too() -> None:
    *_, last = read(wire(delta(content="x")))
    assert isinstance(last, Completed)
    assert (last.response.usage, last.response.stop_reason) == (Usage(), StopReason.UNKNOWN)
