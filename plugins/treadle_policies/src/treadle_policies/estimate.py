"""How many tokens a request has, guessed before it is sent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from treadle import EmbedRequest, MediaPart, ModelRequest, TokenCounter

__all__ = ["ASSUMED_REPLY", "estimate_tokens", "most_read"]

ASSUMED_REPLY = 4096
"""Tokens that a reply without ``max_tokens`` is taken to have at most, until a longer one has been seen."""

_FOR_A_MESSAGE = 4
_MARGIN = 1.25
"""An estimate is often too low by so much: code and tables have more tokens for a letter than prose."""
_IMAGE = 2_000
_DOCUMENT = 10_000
_BYTES_OF_MEDIA = 20
"""Of a PDF or of audio, for a token; there are at least as many as of an image."""


def estimate_tokens(request: ModelRequest) -> int:
    """The tokens of a request, guessed: one for four characters, a few for each message, 1,000 for an attachment."""
    return (_characters(request.messages) + _characters(request.tools)) // 4 + _FOR_A_MESSAGE * len(request.messages)


def most_read(request: ModelRequest | EmbedRequest, counter: TokenCounter | None) -> int:
    """The most that a request is likely to have.

    The deployment's counter counts the messages; a token for four bytes of UTF-8 is the least that is taken, as scripts
    other than Latin have more tokens for a letter. Tools and the shape of the reply are read too, and so is media. A
    quarter is put on top.
    """
    if isinstance(request, EmbedRequest):
        return int(sum(1 + _bytes(text) // 4 for text in request.inputs) * _MARGIN)
    found = _bytes(request.messages) // 4 + _FOR_A_MESSAGE * len(request.messages)
    if counter is not None:
        found = max(found, counter.count(request.messages, model=request.model))
    found += (_bytes(request.tools) + _bytes(request.output)) // 4
    return int(found * _MARGIN) + _media(request.messages)


def _characters(value: Any) -> int:
    if isinstance(value, str):
        return len(value)
    if isinstance(value, bytes):
        return 4_000
    return sum(map(_characters, _inside(value)))


def _bytes(value: Any) -> int:
    if isinstance(value, str):
        return len(value) if value.isascii() else len(value.encode("utf-8", "surrogatepass"))
    return sum(map(_bytes, _inside(value)))


def _media(value: Any) -> int:
    if isinstance(value, MediaPart):
        if value.type == "image":
            return _IMAGE
        return _DOCUMENT if value.data is None else max(_IMAGE, len(value.data) // _BYTES_OF_MEDIA)
    return sum(map(_media, _inside(value)))


def _inside(value: Any) -> list[Any]:
    if isinstance(value, Mapping):
        return [*map(str, value), *value.values()]
    if isinstance(value, tuple | list):
        return list(value)
    if is_dataclass(value):
        return [getattr(value, each.name) for each in fields(value) if each.name != "provider_data"]
    return []
