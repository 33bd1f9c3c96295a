"""The shapes of OpenAI's Responses API, whole and as the events of a stream.

https://platform.openai.com/docs/api-reference/responses, .../responses-streaming
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from wire.http_server import in_json

__all__ = ["event", "function_call", "message", "reasoning", "response", "response_events", "web_search"]

MODEL = "gpt-5-mini-2025-08-07"


def message(*texts: str, annotations: Sequence[Mapping[str, Any]] = (), refusal: str | None = None) -> dict[str, Any]:
    """An item of text."""
    content: list[dict[str, Any]] = [
        {"type": "output_text", "text": text, "annotations": list(annotations), "logprobs": []} for text in texts
    ]
    if refusal is not None:
        content.append({"type": "refusal", "refusal": refusal})
    return {"id": "msg_1", "type": "message", "status": "completed", "role": "assistant", "content": content}


def function_call(name: str, arguments: str = "{}", call_id: str = "call_1") -> dict[str, Any]:
    """An item that asks for a tool."""
    return {
        "id": f"fc_{call_id}",
        "type": "function_call",
        "status": "completed",
        "name": name,
        "arguments": arguments,
        "call_id": call_id,
    }


def reasoning(*summaries: str, encrypted: str | None = "gAAAA-opaque==") -> dict[str, Any]:
    """An item of reasoning."""
    return {
        "id": "rs_1",
        "type": "reasoning",
        "summary": [{"type": "summary_text", "text": text} for text in summaries],
        "encrypted_content": encrypted,
    }


def web_search(query: str = "news", *urls: str, status: str = "completed") -> dict[str, Any]:
    """An item of a search that the server made."""
    sources = [{"type": "url", "url": url} for url in urls]
    action = {"type": "search", "query": query, "sources": sources}
    return {"id": "ws_1", "type": "web_search_call", "status": status, "action": action}


def response(*items: Mapping[str, Any], status: str = "completed", **more: Any) -> dict[str, Any]:
    """The JSON of a whole reply."""
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1700000000,
        "status": status,
        "error": None,
        "incomplete_details": None,
        "model": MODEL,
        "output": list(items),
        "usage": {
            "input_tokens": 9,
            "input_tokens_details": {"cached_tokens": 4},
            "output_tokens": 7,
            "output_tokens_details": {"reasoning_tokens": 3},
            "total_tokens": 16,
        },
        **more,
    }


def event(kind: str, **fields: Any) -> bytes:
    """One event of a stream."""
    return f"event: {kind}\ndata: {in_json({'type': kind, **fields})}\n\n".encode()


def response_events(whole: Mapping[str, Any], *, pieces: int = 2) -> list[bytes]:
    """The events that a whole reply comes in, its texts and arguments in so many pieces."""
    empty = {**whole, "status": "in_progress", "output": [], "usage": None}
    events = [event("response.created", response=empty), event("response.in_progress", response=empty)]
    for index, item in enumerate(whole["output"]):
        events.extend(_item_events(index, item, pieces))
    events.append(event(f"response.{whole['status']}", response=whole))
    return events


def _item_events(index: int, item: Mapping[str, Any], pieces: int) -> Iterator[bytes]:
    place = {"output_index": index, "item_id": item.get("id")}
    started = {**item, "status": "in_progress"}
    if item["type"] == "message":
        started["content"] = []
    elif item["type"] == "function_call":
        started["arguments"] = ""
    elif item["type"] == "reasoning":
        started = {**item, "summary": [], "encrypted_content": "not yet whole"}
    yield event("response.output_item.added", output_index=index, item=started)
    if item["type"] == "message":
        for number, part in enumerate(item["content"]):
            kind, text = (
                ("refusal", part["refusal"]) if part["type"] == "refusal" else ("output_text", part.get("text", ""))
            )
            for piece in _cut(text, pieces):
                yield event(f"response.{kind}.delta", content_index=number, delta=piece, **place)
    elif item["type"] == "function_call":
        for piece in _cut(item["arguments"], pieces):
            yield event("response.function_call_arguments.delta", delta=piece, **place)
        yield event("response.function_call_arguments.done", arguments=item["arguments"], **place)
    elif item["type"] == "reasoning":
        for number, part in enumerate(item["summary"]):
            yield event("response.reasoning_summary_part.added", summary_index=number, part=part, **place)
            for piece in _cut(part["text"], pieces):
                yield event("response.reasoning_summary_text.delta", summary_index=number, delta=piece, **place)
    elif item["type"] == "web_search_call":
        yield event("response.web_search_call.searching", **place)
    yield event("response.output_item.done", output_index=index, item=item)


def _cut(text: str, pieces: int) -> Iterator[str]:
    length = -(-len(text) // pieces) or 1
    for start in range(0, len(text), length):
        yield text[start : start + length]
