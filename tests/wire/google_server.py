"""A test double of Google's Gemini API: content and vectors, plain and streamed.

https://ai.google.dev/api/generate-content
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import trio

from wire.http_server import Bytes, Connection, Json, Recorded, Reply, WireServer

__all__ = ["MODEL", "GoogleServer", "Stream", "candidate", "content", "failure", "text_chunks"]

MODEL = "gemini-2.5-flash"
_COUNTS: Mapping[str, Any] = {"promptTokenCount": 9, "candidatesTokenCount": 3, "totalTokenCount": 12}


def candidate(
    *parts: Mapping[str, Any] | str, finish: str | None = None, counts: Mapping[str, Any] | None = None, **more: Any
) -> dict[str, Any]:
    """One object of a reply: its parts (a text is one), and why it ended, where it has."""
    said = [{"text": part} if isinstance(part, str) else dict(part) for part in parts]
    one: dict[str, Any] = {"index": 0, **({"content": {"role": "model", "parts": said}} if said else {}), **more}
    if finish is not None:
        one["finishReason"] = finish
    whole: dict[str, Any] = {"candidates": [one], "modelVersion": f"{MODEL}-002", "responseId": "resp_1"}
    return whole if counts is None else {**whole, "usageMetadata": dict(counts)}


def content(*parts: Mapping[str, Any] | str, finish: str = "STOP", **more: Any) -> dict[str, Any]:
    """The JSON of a plain reply."""
    return candidate(*parts, finish=finish, **{"counts": _COUNTS, **more})


def text_chunks(*pieces: str, finish: str = "STOP") -> list[dict[str, Any]]:
    """The objects of a streamed text."""
    return [*(candidate(piece) for piece in pieces[:-1]), content(*pieces[-1:], finish=finish)]


def failure(
    message: str = "it failed",
    *,
    status: int = 400,
    word: str = "INVALID_ARGUMENT",
    details: Sequence[Mapping[str, Any]] = (),
    code: int | None = None,
    **headers: str,
) -> Bytes:
    """An error as Google words it; ``retry_after="3"`` becomes a header, and ``code`` differs from the status."""
    error = {"code": status if code is None else code, "message": message, "status": word, "details": list(details)}
    return Json({"error": error}, status, {name.replace("_", "-"): value for name, value in headers.items()})


@dataclass(frozen=True, slots=True)
class Stream:
    """A streamed reply.

    :param chunks: each is sent as one event: JSON, text as it stands (a chunk that is not JSON), or bytes as they
        stand (anything at all).
    :param pause: seconds before each.
    :param then: what follows: ``end`` closes the body in order, ``cut`` drops the connection inside it, ``reset``
        does so abruptly, ``hang`` sends nothing more.
    """

    chunks: Iterable[Mapping[str, Any] | str | bytes]
    pause: float = 0.0
    then: str = "end"
    headers: Mapping[str, str] = field(default_factory=dict)

    async def send(self, connection: Connection, request: Recorded) -> bool:
        """Write it."""
        head = {"content-type": "text/event-stream", "transfer-encoding": "chunked", **self.headers}
        await connection.head(200, head)
        for each in self.chunks:
            await trio.sleep(self.pause)
            if isinstance(each, bytes):
                await connection.chunk(each)
            else:
                text = each if isinstance(each, str) else json.dumps(each)
                await connection.chunk(f"data: {text}\r\n\r\n".encode())
        if self.then == "hang":
            await trio.sleep_forever()
        if self.then == "reset":
            await trio.sleep(0.05)  # a reset discards what the client has not read yet
            connection.reset_on_close()
        if self.then != "end":
            return False
        await connection.chunk(b"")
        return True


class GoogleServer(WireServer):
    """Answers ``hello`` where nothing is scripted, streamed where a stream is asked for, and with vectors."""

    def default_reply(self, request: Recorded) -> Reply:
        """A short text, or the vectors of what was sent."""
        if request.path.endswith(":batchEmbedContents"):
            texts = [each["content"]["parts"][0]["text"] for each in request.json["requests"]]
            return Json({"embeddings": [{"values": [float(len(text)), 1.0]} for text in texts]})
        if ":streamGenerateContent" in request.path:
            return Stream(text_chunks("hel", "lo"))
        return Json(content("hello"))
