"""A test double of an Ollama server: its chat and embed APIs, plain and streamed.

https://docs.ollama.com/api/chat
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from wire.http_server import Bytes, Json, Recorded, Reply, Streamed, WireServer, header_names, in_json

__all__ = ["MODEL", "Lines", "OllamaServer", "call", "done", "failure", "line", "reply_json", "text_lines"]

MODEL = "llama3.2:1b"
_COUNTS: Mapping[str, Any] = {"prompt_eval_count": 9, "eval_count": 3}


def call(name: str, arguments: Any = None, **more: Any) -> dict[str, Any]:
    """A tool call as the server writes it: whole, its arguments an object."""
    return {**more, "function": {"name": name, "arguments": {} if arguments is None else arguments}}


def line(content: str = "", **message: Any) -> dict[str, Any]:
    """One object of a streamed reply."""
    said = {"role": "assistant", "content": content, **message}
    return {"model": MODEL, "created_at": "2026-01-01T00:00:00Z", "message": said, "done": False}


def done(reason: str | None = "stop", *, counts: Mapping[str, Any] = _COUNTS, **message: Any) -> dict[str, Any]:
    """The last object of a streamed reply."""
    ending = {} if reason is None else {"done_reason": reason}
    return {**line(**message), "done": True, **ending, "total_duration": 1, **counts}


def reply_json(content: str = "hello", *, reason: str | None = "stop", **message: Any) -> dict[str, Any]:
    """The JSON of a plain reply."""
    return done(reason, content=content, **message)


def text_lines(*pieces: str, reason: str = "stop") -> list[dict[str, Any]]:
    """The objects of a streamed text."""
    return [*(line(piece) for piece in pieces), done(reason)]


def failure(message: str = "it failed", *, status: int = 400, **headers: str) -> Bytes:
    """An error as Ollama words it; ``retry_after="3"`` becomes a header."""
    return Json({"error": message}, status, header_names(headers))


class Lines(Streamed):
    """A streamed reply, in lines."""

    __slots__ = ()
    content_type = "application/x-ndjson"

    def framed(self, piece: Mapping[str, Any] | str) -> str:
        return f"{in_json(piece)}\n"


def _vectors(inputs: Sequence[str]) -> dict[str, Any]:
    return {
        "model": MODEL,
        "embeddings": [[float(len(text)), 1.0] for text in inputs],
        "prompt_eval_count": len(inputs),
    }


class OllamaServer(WireServer):
    """Answers ``hello`` where nothing is scripted, streamed where nothing else is asked for, and with vectors."""

    def default_reply(self, request: Recorded) -> Reply:
        """A short text, or the vectors of what was sent."""
        if request.path == "/api/embed":
            return Json(_vectors(request.json["input"]))
        if request.json.get("stream", True):
            return Lines(text_lines("hel", "lo"))
        return Json(reply_json("hello"))
