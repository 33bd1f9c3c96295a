"""A streamed reply put together from its events. Pure: it is fed what has arrived and gives events.

https://platform.claude.com/docs/en/build-with-claude/streaming
"""

from __future__ import annotations

import json
from typing import Any

from treadle.assembly import ToolCallAssembly
from treadle.errors import ProviderError
from treadle.messages import ModelResponse, ReasoningDelta, StreamEvent, TextDelta
from treadle_anthropic.errors import error_in
from treadle_anthropic.replies import Asked, parts_of, response_from, response_of
from treadle_anthropic.turns import API
from treadle_http.event_stream import EventStream

__all__ = ["StreamedReply"]

_GROWING = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature"}
"""Deltas that make a field of their block longer, and the field: the delta has it under the same name."""


class StreamedReply(EventStream):
    """One streamed reply.

    :param asked: what of the request it is read by; that of the last, where it was sent again.
    """

    def __init__(self, asked: Asked) -> None:
        super().__init__(provider=asked.provider, secrets=asked.secrets)
        self.asked = asked
        self._message: dict[str, Any] = {}
        self._usage: dict[str, Any] = {}
        self._blocks: list[_Block] = []
        self._at: dict[Any, _Block] = {}
        self._calls = ToolCallAssembly()

    def take(self, said: dict[str, Any], events: list[StreamEvent]) -> None:
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
                raise self.unreadable("ended its stream without a reply")
            self.finish(self._response(), events)
        # `ping`, `content_block_stop` and events of kinds not known yet say nothing that is needed.

    def ended(self) -> ModelResponse | None:
        return self._response() if self._message.get("stop_reason") else None

    def whole(self, data: Any) -> ModelResponse:
        return response_of(data, self.asked, request_id=self.request_id)

    def error_in(self, data: Any) -> ProviderError:
        return error_in(data, self.headers, self.provider, secrets=self.secrets)

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
        elif given.get("name") != self.asked.answer_tool:
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
        if isinstance(thinking, str) and thinking and self.asked.keep_reasoning:
            events.append(ReasoningDelta(thinking))

    def _input(self, block: _Block | None, index: Any, piece: str, events: list[StreamEvent]) -> None:
        if block is not None and block.call is None:
            block.fragments.setdefault("input", []).append(piece)
            if block.is_answer:
                self._tell(piece, None, events)
        elif block is not None or self._calls:
            events.append(self._calls.add(index=index if isinstance(index, int) else None, arguments=piece))

    def _response(self) -> ModelResponse:
        calls = self._calls.parts()
        blocks: list[dict[str, Any]] = []
        placed: dict[int, None] = {}
        for block in self._blocks:
            if block.call is None:
                blocks.append(block.whole())
            elif block.call not in placed:  # a start may have been sent twice
                placed[block.call] = None
                blocks.append(block.data)
        return response_from(
            {**self._message, "usage": self._usage},
            parts_of(blocks, (calls[place] for place in placed), self.asked),
            self.asked,
            request_id=self.request_id,
        )


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
