"""A streamed reply put together from its events. Pure: it is fed what has arrived and gives events.

https://platform.claude.com/docs/en/build-with-claude/streaming
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from treadle.assembly import ToolCallAssembly
from treadle.errors import ResponseError
from treadle.messages import Completed, ReasoningDelta, StreamEvent, TextDelta
from treadle_anthropic.errors import error_in
from treadle_anthropic.replies import Asked, parts_of, response_from, response_of, unreadable
from treadle_anthropic.turns import API
from treadle_http.sse import SSEDecoder
from treadle_http.status_errors import is_error_body, request_id

__all__ = ["StreamedReply"]

_GROWING = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature"}
"""Deltas that make a field of their block longer, and the field: the delta has it under the same name."""


class StreamedReply:
    """One streamed reply.

    :param asked: what of the request it is read by.
    """

    def __init__(self, asked: Asked) -> None:
        self._asked = asked
        self._headers: Mapping[str, str] = {}
        self._request_id: str | None = None
        self._plain: list[bytes] | None = None
        self._sse = SSEDecoder()
        self._message: dict[str, Any] = {}
        self._usage: dict[str, Any] = {}
        self._blocks: list[_Block] = []
        self._at: dict[Any, _Block] = {}
        self._calls = ToolCallAssembly()
        self._complete = False

    def is_complete(self) -> bool:
        """Whether the last event has been given; what comes after it is not looked at."""
        return self._complete

    def begin(self, asked: Asked, headers: Mapping[str, str]) -> None:
        """The status was good and these are the headers; ``asked`` is of the request that got them."""
        self._asked = asked
        self._headers = headers
        self._request_id = request_id(headers)
        # A server that cannot stream, or has an error to tell, may answer in one piece.
        if headers.get("content-type", "").partition(";")[0].strip().lower() == "application/json":
            self._plain = []

    def feed(self, piece: bytes) -> list[StreamEvent]:
        """The events in the next piece of the body.

        :raises ProviderError: it holds an error, or cannot be read.
        """
        if self._plain is not None:
            self._plain.append(piece)
            return []
        events: list[StreamEvent] = []
        for event, data in self._sse.feed(piece):
            if self._complete:
                break
            self._take(event, data, events)
        return events

    def end(self) -> list[StreamEvent]:
        """The events that the end of the body completes.

        :raises ResponseError: it ended before the reply did.
        """
        if self._complete:
            return []
        if self._plain is not None:
            return self._whole(b"".join(self._plain))
        events: list[StreamEvent] = []
        for event, data in self._sse.finish():
            self._take(event, data, events)
        if not self._complete:
            if not self._message.get("stop_reason"):
                raise self._unreadable("ended its stream before the reply was complete")
            events.append(self._completed())  # all is there but the event that says so
        return events

    def _take(self, event: str, data: str, events: list[StreamEvent]) -> None:
        try:
            said = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise self._unreadable(f"sent an event that is not JSON ({error})") from None
        if event == "error" and not is_error_body(said):
            said = {"error": said or "an error without words"}
        if not isinstance(said, dict):
            return
        if said.get("error"):
            raise error_in(said, self._headers, self._asked.provider, secrets=self._asked.secrets)
        kind = said.get("type")
        if kind == "content_block_delta":
            self._delta(said, events)
        elif kind == "content_block_start":
            self._start(said, events)
        elif kind == "message_start":
            self._begin_message(said.get("message"))
        elif kind == "message_delta":
            self._end_message(said)
        elif kind == "message_stop":
            if not self._message:
                raise self._unreadable("ended its stream without a reply")
            events.append(self._completed())
        # `ping`, `content_block_stop` and events of kinds not known yet say nothing that is needed.

    def _begin_message(self, message: Any) -> None:
        if isinstance(message, dict):
            self._message = {key: message.get(key) for key in ("model", "stop_reason")} | {"begun": True}
            self._count(message.get("usage"))

    def _end_message(self, said: dict[str, Any]) -> None:
        delta = said.get("delta")
        if isinstance(delta, dict) and isinstance(delta.get("stop_reason"), str):
            self._message["stop_reason"] = delta["stop_reason"]
        self._count(said.get("usage"))

    def _count(self, usage: Any) -> None:
        """Counts are of the whole message so far: a later one replaces an earlier one."""
        if isinstance(usage, dict):
            self._usage.update({key: value for key, value in usage.items() if value is not None})

    def _start(self, said: dict[str, Any], events: list[StreamEvent]) -> None:
        given = said.get("content_block")
        if not isinstance(given, dict):
            return
        block = _Block(given)
        index = said.get("index")
        if given.get("type") != "tool_use":
            self._tell(given.get("text"), given.get("thinking"), events)
        elif given.get("name") != self._asked.answer_tool:
            self._open_call(block, index, events)
        else:
            block.is_answer = True
            if given.get("input"):
                self._tell(json.dumps(given["input"], ensure_ascii=False), None, events)
        self._at[index] = block
        self._blocks.append(block)

    def _open_call(self, block: _Block, index: Any, events: list[StreamEvent]) -> None:
        given = block.data
        input_ = given.get("input")
        extra = {key: value for key, value in given.items() if key not in ("type", "id", "name", "input")}
        delta = self._calls.add(
            call_id=given["id"] if isinstance(given.get("id"), str) else None,
            index=index if isinstance(index, int) else None,
            tool_name=given["name"] if isinstance(given.get("name"), str) else None,
            # Whole at once from servers that do not stream it, `{}` from those that do.
            arguments=json.dumps(input_) if input_ else "",
            provider_data={API: extra} if extra else None,
        )
        block.call = delta.index
        events.append(delta)

    def _delta(self, said: dict[str, Any], events: list[StreamEvent]) -> None:
        delta = said.get("delta")
        if not isinstance(delta, dict):
            return
        index, kind = said.get("index"), delta.get("type")
        block = self._at.get(index)
        if kind == "input_json_delta":
            piece = delta.get("partial_json")
            if isinstance(piece, str):
                self._input(block, index, piece, events)
            return
        if block is None:  # its start was never sent
            block = self._at[index] = _Block({"type": "thinking" if kind == "thinking_delta" else "text"})
            self._blocks.append(block)
        if kind == "citations_delta":
            block.citations.append(delta.get("citation"))
            return
        field = _GROWING.get(kind) if isinstance(kind, str) else None
        piece = delta.get(field) if field else None
        if field is None or not isinstance(piece, str):
            return
        block.fragments.setdefault(field, []).append(piece)
        self._tell(piece if field == "text" else None, piece if field == "thinking" else None, events)

    def _tell(self, text: Any, thinking: Any, events: list[StreamEvent]) -> None:
        if isinstance(text, str) and text:
            events.append(TextDelta(text))
        if isinstance(thinking, str) and thinking and self._asked.keep_reasoning:
            events.append(ReasoningDelta(thinking))

    def _input(self, block: _Block | None, index: Any, piece: str, events: list[StreamEvent]) -> None:
        if block is not None and block.call is None:
            block.fragments.setdefault("input", []).append(piece)
            if block.is_answer:
                self._tell(piece, None, events)
        elif block is not None or self._calls:
            events.append(self._calls.add(index=index if isinstance(index, int) else None, arguments=piece))

    def _completed(self) -> Completed:
        self._complete = True
        calls = self._calls.parts()
        blocks: list[dict[str, Any]] = []
        placed: dict[int, None] = {}
        for block in self._blocks:
            if block.call is None:
                blocks.append(block.whole())
            elif block.call not in placed:  # a start may have been sent twice
                placed[block.call] = None
                blocks.append(block.data)
        return Completed(
            response_from(
                {**self._message, "usage": self._usage},
                parts_of(blocks, (calls[place] for place in placed), self._asked),
                self._asked,
                request_id=self._request_id,
            )
        )

    def _whole(self, body: bytes) -> list[StreamEvent]:
        """A reply in one piece, though a stream was asked for."""
        try:
            data = json.loads(body)
        except (ValueError, RecursionError):
            raise self._unreadable("answered with something that is not JSON") from None
        if is_error_body(data):
            raise error_in(data, self._headers, self._asked.provider, secrets=self._asked.secrets)
        response = response_of(data, self._asked, request_id=self._request_id)
        self._complete = True
        text: list[StreamEvent] = [TextDelta(response.text)] if response.text else []
        return [*text, Completed(response)]

    def _unreadable(self, what: str) -> ResponseError:
        return unreadable(self._asked.provider, what, self._request_id)


class _Block:
    """A content block that is still being written."""

    __slots__ = ("call", "citations", "data", "fragments", "is_answer")

    def __init__(self, data: dict[str, Any]) -> None:
        self.data = data
        self.fragments: dict[str, list[str]] = {}
        self.citations: list[Any] = []
        self.call: int | None = None
        self.is_answer = False

    def whole(self) -> dict[str, Any]:
        """The block as a reply in one piece would hold it."""
        block = dict(self.data)
        for field, pieces in self.fragments.items():
            text = "".join(pieces)
            if field != "input":
                block[field] = (block.get(field) or "") + text
            elif self.is_answer:
                block[field] = text
            elif text.strip():
                block[field] = _parsed(text)
        if self.citations:
            block["citations"] = [*(block.get("citations") or ()), *self.citations]
        return block


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return {}  # cut off: what a hosted tool was asked is of no use any more
