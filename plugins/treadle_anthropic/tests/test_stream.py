"""Streams put together, however the network cuts them up."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.errors import ProviderError, ResponseError
from treadle.messages import Completed, ModelResponse, ReasoningDelta, StopReason, StreamEvent, TextDelta, ToolCallDelta
from treadle_anthropic.replies import Asked, response_of
from treadle_anthropic.stream import StreamedReply

from wire.anthropic_server import events_of, message, redacted, search, text, thinking, tool_use

ASKED = Asked(provider="anthropic", model="asked")
CITATION = {"type": "web_search_result_location", "url": "https://a", "title": "A", "encrypted_index": "Eo8="}
WHOLE = message(
    thinking("hm, né"),
    redacted(),
    "Because ",
    *search("treadle", "https://a"),
    text("it is so 🙂", CITATION),
    tool_use("look", {"q": "ü"}, "a"),
    tool_use("look", {"n": [1, None]}, "b"),
    usage={
        "input_tokens": 10,
        "output_tokens": 7,
        "cache_read_input_tokens": 3,
        "cache_creation_input_tokens": 0,
        "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0},
    },
)


def wire(events: list[dict[str, Any]]) -> bytes:
    said = [f"event: {each['type']}\ndata: {json.dumps(each, ensure_ascii=False)}\n\n" for each in events]
    return "".join(said).encode()


def read(*pieces: bytes, asked: Asked = ASKED, content_type: str = "text/event-stream") -> list[StreamEvent]:
    reply = StreamedReply(asked)
    reply.begin({"content-type": content_type})
    events = [event for piece in pieces for event in reply.feed(piece)]
    events += reply.end()
    assert reply.is_complete()
    return events


def response(events: list[StreamEvent]) -> ModelResponse:
    assert isinstance(events[-1], Completed)
    return events[-1].response


BODY = wire(events_of(WHOLE))


def test_a_streamed_reply_is_the_same_response_as_a_whole_one() -> None:
    assert response(read(BODY)) == response_of(WHOLE, ASKED)


@given(st.lists(st.integers(0, len(BODY)), max_size=12))
def test_it_does_not_matter_where_the_network_cuts(cuts: list[int]) -> None:
    places = sorted({0, len(BODY), *cuts})
    pieces = [BODY[a:b] for a, b in zip(places, places[1:], strict=False)]  # noqa: RUF007 - reads as what it is
    assert read(*pieces) == read(BODY)


@given(st.integers(1, 9))
def test_nor_where_the_vendor_does(pieces: int) -> None:
    assert response(read(wire(events_of(WHOLE, pieces=pieces)))) == response_of(WHOLE, ASKED)


def test_the_deltas_are_the_text_the_thinking_and_the_calls() -> None:
    *deltas, _ = read(BODY)
    assert "".join(each.text for each in deltas if isinstance(each, TextDelta)) == "Because it is so 🙂"
    assert "".join(each.text for each in deltas if isinstance(each, ReasoningDelta)) == "hm, né"
    calls = [each for each in deltas if isinstance(each, ToolCallDelta)]
    assert "".join(each.arguments for each in calls if each.index == 0) == '{"q": "ü"}'
    assert [(each.call_id, each.tool_name) for each in calls if each.tool_name] == [("a", "look"), ("b", "look")]


def test_thinking_that_is_not_to_be_captured_is_not_streamed_and_goes_back_all_the_same() -> None:
    events = read(BODY, asked=replace(ASKED, keep_reasoning=False))
    assert not any(isinstance(each, ReasoningDelta) for each in events)
    first = response(events).message.parts[0]
    assert response(events).message.reasoning == ""
    assert first.provider_data == {"anthropic": [thinking("hm, né")]}


def test_a_forced_tools_input_is_streamed_as_text() -> None:
    asked = replace(ASKED, answer_tool="shape")
    whole = message(tool_use("shape", {"a": 1}))
    *deltas, _ = events = read(wire(events_of(whole)), asked=asked)
    assert all(isinstance(each, TextDelta) for each in deltas)
    assert "".join(each.text for each in deltas if isinstance(each, TextDelta)) == '{"a": 1}'
    assert response(events) == response_of(whole, asked)
    assert response(events).stop_reason is StopReason.END_TURN


def test_arguments_that_are_cut_are_kept_with_the_reason() -> None:
    events = events_of(message(tool_use("f", {"q": "abc"}), stop_reason="max_tokens"))
    events = [each for each in events if each.get("delta", {}).get("partial_json") != '"abc"}']
    found = response(read(wire(events)))
    (call,) = found.message.tool_calls
    assert (call.arguments, call.raw_arguments) == (None, '{"q": ')
    assert call.parse_error is not None
    assert found.stop_reason is StopReason.MAX_TOKENS


def test_a_call_without_input_has_none() -> None:
    (call,) = response(read(wire(events_of(message(tool_use("f")))))).message.tool_calls
    assert (call.arguments, call.raw_arguments) == ({}, "")


def test_a_call_whose_input_comes_at_once_is_whole() -> None:
    events = events_of(message(tool_use("f", {"q": 1})), pieces=1)
    events[2]["content_block"]["input"] = {"q": 1}
    events = [each for each in events if each["type"] != "content_block_delta"]
    assert response(read(wire(events))).message.tool_calls[0].arguments == {"q": 1}


def delta(index: Any, **fields: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": fields}


def start(index: Any, block: dict[str, Any]) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": block}


def around(*events: dict[str, Any]) -> bytes:
    first, _, *_, last, stop = events_of(message("x"))
    return wire([first, *events, last, stop])


def test_odd_fragments_break_nothing() -> None:
    found = read(
        around(
            {"type": "content_block_start"},
            start(0, {"type": "text", "text": "a"}),
            delta(7, type="text_delta", text="b"),  # never started
            delta(0, type="text_delta", text=None),
            delta(0, type="unheard_delta", text="no"),
            delta(None, type=["odd"]),
            {"type": "content_block_delta", "index": 0, "delta": 3},
            delta(9, type="input_json_delta", partial_json="{}"),  # nobody asked for a tool
            start(1, tool_use("f", call_id="a")),
            delta(1, type="input_json_delta", partial_json='{"x": '),
            delta(8, type="input_json_delta", partial_json="1}"),  # an index that nobody opened
            delta(1, type="input_json_delta", partial_json=None),
            start(1, tool_use("f", call_id="a")),  # sent twice
            {"type": "unheard"},
        )
    )
    last = response(found)
    assert last.text == "ab"
    assert [(call.call_id, call.arguments) for call in last.message.tool_calls] == [("a", {"x": 1})]


def test_calls_are_told_apart_by_index_and_id() -> None:
    found = read(
        around(
            start(0, tool_use("f", call_id="a")),
            start(1, tool_use("f", call_id="b")),
            delta(0, type="input_json_delta", partial_json='{"n":'),
            delta(1, type="input_json_delta", partial_json='{"n":2}'),
            delta(0, type="input_json_delta", partial_json="1}"),
            start(0, tool_use("g", call_id="c")),  # one index for two calls
            delta(0, type="input_json_delta", partial_json='{"n":3}'),
        )
    )
    calls = response(found).message.tool_calls
    assert [(call.call_id, call.arguments) for call in calls] == [("a", {"n": 1}), ("b", {"n": 2}), ("c", {"n": 3})]


def test_counts_are_of_the_whole_message_so_far() -> None:
    events = events_of({**WHOLE, "usage": {"input_tokens": 4, "output_tokens": 9, "cache_read_input_tokens": 1}})
    events[-2]["usage"] |= {"input_tokens": 5, "cache_read_input_tokens": None}
    usage = response(read(wire(events))).usage
    assert (usage.input_tokens, usage.output_tokens, usage.cache_read_tokens) == (6, 9, 1)


def test_pings_comments_and_carriage_returns_are_no_trouble() -> None:
    body = b": keep-alive\r\n\r\nevent: ping\r\ndata: {}\r\n\r\ndata: 3\r\n\r\n" + BODY.replace(b"\n", b"\r\n")
    assert read(body) == read(BODY)


def test_nothing_after_the_end_is_looked_at() -> None:
    assert read(BODY + b"data: {nonsense\n\n") == read(BODY)


def test_a_stream_may_end_without_its_last_event_but_not_without_a_reason_to_stop() -> None:
    assert response(read(wire(events_of(WHOLE)[:-1]))) == response_of(WHOLE, ASKED)
    with pytest.raises(ResponseError, match="ended its stream before the reply was complete"):
        read(wire(events_of(WHOLE)[:-2]))


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"", "ended its stream before the reply was complete"),
        (b"data: {not json\n\n", "sent an event that is not JSON"),
        (b'data: {"type": "message_stop"}\n\n', "ended its stream without a reply"),
    ],
)
def test_what_is_no_reply_is_unreadable(body: bytes, says: str) -> None:
    with pytest.raises(ResponseError, match=says):
        read(body)


def test_a_reply_in_one_piece_is_understood_where_a_stream_was_asked_for() -> None:
    first, last = read(json.dumps(message("all")).encode(), content_type="application/json; charset=utf-8")
    assert first == TextDelta("all")
    assert isinstance(last, Completed)
    with pytest.raises(ProviderError, match="busy"):
        read(b'{"type": "error", "error": {"type": "api_error", "message": "busy"}}', content_type="application/json")
    with pytest.raises(ResponseError, match="not JSON"):
        read(b"<html>", content_type="application/json")
