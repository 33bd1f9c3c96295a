"""A reply of server-sent events, put together by a small provider of an API that does not exist."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle import (
    AssistantMessage,
    Completed,
    ModelResponse,
    RateLimitError,
    ReasoningDelta,
    ReasoningPart,
    ResponseError,
    StopReason,
    StreamEvent,
    TextDelta,
    TextPart,
    Usage,
)
from treadle_http import EventStream

EVENTS = "text/event-stream"


class Reply(EventStream):
    """Pieces ``{"text": ...}``, and then ``{"end": true}``."""

    def __init__(self, **given: Any) -> None:
        super().__init__(provider="parrot", secrets=["s3cret"], **given)
        self.texts: list[str] = []
        self.at_end = False

    def take(self, data: dict[str, Any], events: list[StreamEvent]) -> None:
        self.at_end = bool(data.get("end"))
        if "text" in data:
            self.texts.append(data["text"])
            events.append(TextDelta(data["text"]))

    def ended(self) -> ModelResponse | None:
        return self.whole({"text": "".join(self.texts)}) if self.at_end else None

    def whole(self, data: Any) -> ModelResponse:
        if "text" not in data:
            raise self.unreadable("answered without a text")
        parts = (ReasoningPart(text=data["thought"]),) if "thought" in data else ()
        return ModelResponse(
            message=AssistantMessage(parts=(*parts, TextPart(text=data["text"]))),
            stop_reason=StopReason.END_TURN,
            finish_reason="end",
            usage=Usage(),
            model="m",
            provider=self.provider,
            request_id=self.request_id,
        )


def read(*pieces: bytes, content_type: str = EVENTS, **given: Any) -> list[StreamEvent]:
    reply = Reply(**given)
    reply.begin({"content-type": content_type, "x-request-id": "r1"})
    events = [event for piece in pieces for event in reply.feed(piece)]
    assert not events or not isinstance(events[-1], Completed) or reply.is_complete()
    events += reply.end()
    assert reply.is_complete()
    assert reply.end() == []
    return events


def wire(*events: object) -> bytes:
    return "".join(f"data: {json.dumps(each, ensure_ascii=False)}\n\n" for each in events).encode()


BODY = wire({"text": "Gü"}, {"text": "ten"}, 5, ["?"], {"end": True})


@given(st.lists(st.integers(0, len(BODY)), max_size=20))
def test_it_does_not_matter_where_the_pieces_end(cuts: list[int]) -> None:
    *deltas, last = read(*(BODY[a:b] for a, b in pairwise(sorted({0, len(BODY), *cuts}))))
    assert deltas == [TextDelta("Gü"), TextDelta("ten")]
    assert isinstance(last, Completed)
    assert last.response.text == "Güten"
    assert last.response.request_id == "r1"


def test_what_comes_after_done_is_not_looked_at() -> None:
    *deltas, last = read(wire({"text": "a"}, {"end": True}) + b"data: [DONE]\n\ndata: {garbage\n\n")
    assert deltas == [TextDelta("a")]
    assert isinstance(last, Completed)


def test_a_reply_in_one_piece_brings_its_text_and_reasoning_as_one_event_each() -> None:
    body = json.dumps({"text": "So.", "thought": "Because"}).encode()
    *deltas, last = read(body[:9], body[9:], content_type="Application/JSON; charset=utf-8", warnings=["no stream"])
    assert deltas == [ReasoningDelta("Because"), TextDelta("So.")]
    assert isinstance(last, Completed)
    assert last.response.warnings == ("no stream",)


@pytest.mark.parametrize(
    ("body", "content_type", "says"),
    [
        (b"", EVENTS, "ended its stream before the reply was complete"),
        (wire({"text": "a"}), EVENTS, "ended its stream before the reply was complete"),
        (wire({"text": "a"}) + b"data: [DONE]\n\n", EVENTS, "ended its stream without a reply"),
        (b"data: {\n\n", EVENTS, "sent an event that is not JSON"),
        (b"data: " + b"[" * 100_000 + b"\n\n", EVENTS, "sent an event that is not JSON"),
        (b"<html>", "application/json", "answered with something that is not JSON"),
        (b"{}", "application/json", "answered without a text"),
        (wire({"error": "no s3cret"}), EVENTS, r"an error: no \*\*\*"),
        (b"event: error\ndata: {}\n\n", EVENTS, "an error: an error without words"),
        (b'{"error": "no"}', "application/json", "an error: no"),
    ],
)
def test_what_is_no_reply_says_how_and_belongs_to_the_request(body: bytes, content_type: str, says: str) -> None:
    with pytest.raises(ResponseError, match=f"provider 'parrot' .*{says}") as caught:
        read(body, content_type=content_type)
    assert caught.value.request_id == "r1"
    assert caught.value.phase == "body"


def test_an_error_among_the_events_is_classified() -> None:
    with pytest.raises(RateLimitError):
        read(wire({"text": "a"}, {"error": {"code": 429, "message": "slow down"}}))
