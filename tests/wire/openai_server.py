"""A test double of a server that speaks OpenAI's Chat Completions, Responses and Embeddings, plain and streamed.

https://platform.openai.com/docs/api-reference/chat; the Responses API's shapes are in openai_responses.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from wire.http_server import Bytes, Json, Recorded, Reply, Streamed, WireServer, header_names
from wire.openai_responses import message, response, response_events

__all__ = [
    "OpenAIServer",
    "Stream",
    "call",
    "chunk",
    "completion",
    "failure",
    "response_stream",
    "text_chunks",
    "vectors",
]

MODEL = "gpt-4o-mini-2024-07-18"


def call(name: str, arguments: str = "{}", call_id: str = "call_1") -> dict[str, Any]:
    """A tool call of a whole reply."""
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def completion(
    content: Any = "hello",
    *,
    tool_calls: Sequence[Mapping[str, Any]] = (),
    finish_reason: str | None = None,
    usage: Mapping[str, Any] | None = None,
    **message: Any,
) -> dict[str, Any]:
    """The JSON of a whole reply."""
    said: dict[str, Any] = {"role": "assistant", "content": content, "refusal": None, **message}
    if tool_calls:
        said["tool_calls"] = list(tool_calls)
    finish = finish_reason or ("tool_calls" if tool_calls else "stop")
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1700000000,
        "model": MODEL,
        "choices": [{"index": 0, "message": said, "finish_reason": finish, "logprobs": None}],
        "usage": usage or {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12},
    }


def failure(
    message: str = "it failed", *, code: Any = None, kind: str | None = None, status: int = 400, **headers: str
) -> Bytes:
    """An error as OpenAI words it; ``retry_after="3"`` becomes a header."""
    error = {"message": message, "type": kind, "param": None, "code": code}
    return Json({"error": error}, status, header_names(headers))


def chunk(
    *,
    content: str | None = None,
    tool_calls: Sequence[Mapping[str, Any]] | None = None,
    finish_reason: str | None = None,
    usage: Mapping[str, Any] | None = None,
    **delta: Any,
) -> dict[str, Any]:
    """One chunk of a streamed reply; with ``usage`` it is the last one, which has no choices."""
    if content is not None:
        delta["content"] = content
    if tool_calls is not None:
        delta["tool_calls"] = list(tool_calls)
    choices = [] if usage else [{"index": 0, "delta": delta, "finish_reason": finish_reason, "logprobs": None}]
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1700000000,
        "model": MODEL,
        "choices": choices,
        "usage": usage,
    }


def text_chunks(*pieces: str, finish_reason: str = "stop") -> list[dict[str, Any]]:
    """The chunks of a streamed text, the usage among them."""
    return [
        chunk(role="assistant", content=""),
        *(chunk(content=piece) for piece in pieces),
        chunk(finish_reason=finish_reason),
        chunk(usage={"prompt_tokens": 9, "completion_tokens": len(pieces), "total_tokens": 9 + len(pieces)}),
    ]


@dataclass(frozen=True, slots=True)
class Stream(Streamed):
    """A streamed reply. ``done`` is whether ``[DONE]`` ends it."""

    done: bool = True

    def frames(self) -> list[bytes]:
        return [*Streamed.frames(self), *([b"data: [DONE]\n\n"] if self.done else [])]


def response_stream(whole: Mapping[str, Any], **settings: Any) -> Stream:
    """A whole response of the Responses API as the stream that it would come in."""
    return Stream(response_events(whole), done=False, **settings)


def vectors(rows: Sequence[Any]) -> dict[str, Any]:
    """The JSON of vectors, not in the order of their texts: the index says whose one is."""
    data = [{"object": "embedding", "index": index, "embedding": row} for index, row in enumerate(rows)]
    usage = {"prompt_tokens": len(data), "total_tokens": len(data)}
    return {"object": "list", "data": data[::-1], "model": "e", "usage": usage}


class OpenAIServer(WireServer):
    """Answers ``hello`` where nothing is scripted, streamed where a stream is asked for, and with vectors."""

    def default_reply(self, request: Recorded) -> Reply:
        """A short text, or the vectors of what was sent."""
        if request.path.endswith("/embeddings"):
            return Json(vectors([[float(len(text)), 1.0] for text in request.json["input"]]))
        if request.path.endswith("/responses"):
            whole = response(message("hello"))
            return response_stream(whole) if request.json.get("stream") else Json(whole)
        if request.json.get("stream"):
            return Stream(text_chunks("hel", "lo"))
        return Json(completion("hello"))

    @property
    def api(self) -> str:
        """The base URL that a client is given."""
        return f"{self.url}/v1"
