"""A test double of an Ollama server: its chat and embed APIs, plain and streamed.

https://docs.ollama.com/api/chat
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import trio

from wire.http_server import Bytes, Connection, Json, Recorded, Reply, WireServer

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
    return Json({"error": message}, status, {name.replace("_", "-"): value for name, value in headers.items()})


@dataclass(frozen=True, slots=True)
class Lines:
    """A streamed reply.

    :param lines: each is sent as a line: JSON, text as it stands (a line that is not JSON), or bytes as they stand,
        without a line end.
    :param pause: seconds before each.
    :param then: what follows: ``end`` closes the body in order, ``cut`` drops the connection inside it, ``reset``
        does so abruptly, ``hang`` sends nothing more.
    """

    lines: Iterable[Mapping[str, Any] | str | bytes]
    pause: float = 0.0
    then: str = "end"
    headers: Mapping[str, str] = field(default_factory=dict)

    async def send(self, connection: Connection, request: Recorded) -> bool:
        """Write it."""
        head = {"content-type": "application/x-ndjson", "transfer-encoding": "chunked", **self.headers}
        await connection.head(200, head)
        for each in self.lines:
            await trio.sleep(self.pause)
            if isinstance(each, bytes):
                await connection.chunk(each)
            else:
                await connection.chunk(f"{each if isinstance(each, str) else json.dumps(each)}\n".encode())
        if self.then == "hang":
            await trio.sleep_forever()
        if self.then == "reset":
            await trio.sleep(0.05)  # a reset discards what the client has not read yet
            connection.reset_on_close()
        if self.then != "end":
            return False
        await connection.chunk(b"")
        return True


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
