"""A test double of a server that speaks Anthropic's Messages API, plain and streamed.

https://docs.anthropic.com/en/api/messages, https://platform.claude.com/docs/en/build-with-claude/streaming
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from wire.http_server import Bytes, Json, Recorded, Reply, Streamed, WireServer, header_names, in_json

__all__ = [
    "MODEL",
    "AnthropicServer",
    "Stream",
    "events_of",
    "failure",
    "message",
    "redacted",
    "search",
    "text",
    "thinking",
    "tool_use",
]

MODEL = "claude-sonnet-4-5-20250929"


# --- blocks -----------------------------------------------------------------------------------------


def text(said: str, *citations: Mapping[str, Any]) -> dict[str, Any]:
    """A text block."""
    return {"type": "text", "text": said, **({"citations": list(citations)} if citations else {})}


def tool_use(name: str, given: Mapping[str, Any] | None = None, call_id: str = "toolu_1") -> dict[str, Any]:
    """A tool call."""
    return {"type": "tool_use", "id": call_id, "name": name, "input": dict(given or {})}


def thinking(thought: str = "hm", signature: str = "EqQBCgIYAhIM1gbcDa9GJwZA2b3h") -> dict[str, Any]:
    """A thinking block with its signature."""
    return {"type": "thinking", "thinking": thought, "signature": signature}


def redacted(data: str = "EmwKAhgBEgy3va3pzix") -> dict[str, Any]:
    """An encrypted thinking block."""
    return {"type": "redacted_thinking", "data": data}


def search(query: str = "treadle", *urls: str, call_id: str = "srvtoolu_1") -> list[dict[str, Any]]:
    """A web search that was run, and what it found."""
    found = [
        {"type": "web_search_result", "url": url, "title": f"page {url}", "encrypted_content": "Eq==", "page_age": None}
        for url in urls
    ]
    return [
        {"type": "server_tool_use", "id": call_id, "name": "web_search", "input": {"query": query}},
        {"type": "web_search_tool_result", "tool_use_id": call_id, "content": found},
    ]


# --- replies ----------------------------------------------------------------------------------------


def message(
    *content: str | Mapping[str, Any], stop_reason: str | None = None, usage: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The JSON of a whole reply; a string is a text block."""
    blocks = [text(each) if isinstance(each, str) else dict(each) for each in content or ("hello",)]
    calls = any(block["type"] == "tool_use" for block in blocks)
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": MODEL,
        "content": blocks,
        "stop_reason": stop_reason or ("tool_use" if calls else "end_turn"),
        "stop_sequence": None,
        "usage": usage or {"input_tokens": 9, "output_tokens": 3},
    }


def failure(
    said: str = "it failed", *, kind: str = "invalid_request_error", status: int = 400, **headers: str
) -> Bytes:
    """An error as Anthropic words it; ``retry_after="3"`` becomes a header."""
    body = {"type": "error", "error": {"type": kind, "message": said}, "request_id": "req_body"}
    return Json(body, status, header_names(headers))


def events_of(whole: Mapping[str, Any], *, pieces: int = 2) -> list[dict[str, Any]]:
    """The events of a streamed reply that comes to the same as the whole one.

    :param pieces: into how many the text of each block is cut.
    """
    usage = whole["usage"]
    begun = {**whole, "content": [], "stop_reason": None, "usage": {**usage, "output_tokens": 1}}
    events: list[dict[str, Any]] = [{"type": "message_start", "message": begun}, {"type": "ping"}]
    for index, block in enumerate(whole["content"]):
        started, deltas = _cut(block, pieces)
        events.append({"type": "content_block_start", "index": index, "content_block": started})
        events.extend({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas)
        events.append({"type": "content_block_stop", "index": index})
    ended = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    events.append({"type": "message_delta", "delta": ended, "usage": {"output_tokens": usage.get("output_tokens")}})
    events.append({"type": "message_stop"})
    return events


def _cut(block: Mapping[str, Any], pieces: int) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    kind = block["type"]
    if kind == "text":
        deltas = [{"type": "text_delta", "text": piece} for piece in _pieces(block["text"], pieces)]
        deltas += [{"type": "citations_delta", "citation": each} for each in block.get("citations", ())]
        return {"type": "text", "text": "", **({"citations": []} if "citations" in block else {})}, deltas
    if kind == "thinking":
        deltas = [{"type": "thinking_delta", "thinking": piece} for piece in _pieces(block["thinking"], pieces)]
        deltas.append({"type": "signature_delta", "signature": block["signature"]})
        return {"type": "thinking", "thinking": "", "signature": ""}, deltas
    if kind in ("tool_use", "server_tool_use"):
        written = json.dumps(block["input"], ensure_ascii=False) if block["input"] else ""
        deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in ("", *_pieces(written, pieces))]
        return {**block, "input": {}}, deltas
    return dict(block), []


def _pieces(whole: str, count: int) -> Iterator[str]:
    size = max(1, -(-len(whole) // count))
    for start in range(0, len(whole), size):
        yield whole[start : start + size]


class Stream(Streamed):
    """A streamed reply; an event has its name before its data."""

    __slots__ = ()
    content_type = "text/event-stream; charset=utf-8"

    def framed(self, piece: Mapping[str, Any] | str) -> str:
        named = "" if isinstance(piece, str) else f"event: {piece['type']}\n"
        return f"{named}data: {in_json(piece)}\n\n"


class AnthropicServer(WireServer):
    """Answers ``hello`` where nothing is scripted, streamed where a stream is asked for."""

    def default_reply(self, request: Recorded) -> Reply:
        """A short text."""
        return Stream(events_of(message())) if request.json.get("stream") else Json(message())
