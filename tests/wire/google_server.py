"""A test double of Google's Gemini API: content and vectors, plain and streamed.

https://ai.google.dev/api/generate-content
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from wire.http_server import Bytes, Json, Recorded, Reply, Streamed, WireServer, header_names, in_json

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
    return Json({"error": error}, status, header_names(headers))


class Stream(Streamed):
    """A streamed reply; its lines end as Google's do."""

    __slots__ = ()

    def framed(self, piece: Mapping[str, Any] | str) -> str:
        return f"data: {in_json(piece)}\r\n\r\n"


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
