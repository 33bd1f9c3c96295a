"""Conversations that grow, converted and written once instead of with every call.

A loop of tools sends all that was said before again and again. Messages are frozen, so what was made of one stays
good: each is converted when it is new, and its JSON is kept beside it.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from treadle.messages import Message

__all__ = ["History", "Piece", "encoded"]

_MOST_CONVERSATIONS = 256
_SHORTEST = 3
"""Messages from which on a conversation is kept; most calls are the only one of theirs."""


class Piece(dict[str, Any]):
    """A message as a vendor's API takes it. It is not changed once it is made, for its JSON is kept with it."""

    __slots__ = ("_text",)
    _text: str

    @property
    def text(self) -> str:
        """Its JSON."""
        try:
            return self._text
        except AttributeError:
            self._text = _json(self)
            return self._text


class History:
    """What messages were converted to, by conversation: the 256 latest are kept.

    :param convert: makes the vendor's messages of one of ours, whatever stands before or behind it.
    """

    def __init__(self, convert: Callable[[Message], Iterable[dict[str, Any]]]) -> None:
        self._convert = convert
        self._known: OrderedDict[int, tuple[list[Message], list[list[Piece]]]] = OrderedDict()

    def converted(self, messages: Sequence[Message]) -> list[Piece]:
        """The vendor's messages of a conversation, in order."""
        if len(messages) < _SHORTEST:
            return [Piece(each) for message in messages for each in self._convert(message)]
        # The first message is held by the entry, so its id is not another's.
        first = id(messages[0])
        known, made = self._known.pop(first) if first in self._known else ([], [])
        same = next((n for n, (mine, new) in enumerate(zip(known, messages, strict=False)) if mine is not new), None)
        if same is not None or len(known) > len(messages):  # it was changed behind this place
            same = min(len(known), len(messages)) if same is None else same
            known, made = known[:same], made[:same]
        for message in messages[len(known) :]:
            made.append([Piece(each) for each in self._convert(message)])
            known.append(message)
        self._known[first] = (known, made)
        if len(self._known) > _MOST_CONVERSATIONS:
            self._known.popitem(last=False)
        return [piece for pieces in made for piece in pieces]


def encoded(body: Mapping[str, Any]) -> bytes:
    """The bytes of a request's JSON; those of a history are not written anew. What no UTF-8 can hold, and the gateway
    has not cleaned, becomes a question mark."""
    parts = []
    for key, value in body.items():
        kept = isinstance(value, list) and value and all(type(each) is Piece for each in value)
        parts.append(
            f"{_json(key)}:[{','.join([each.text for each in value])}]" if kept else f"{_json(key)}:{_json(value)}"
        )
    return f"{{{','.join(parts)}}}".encode("utf-8", "replace")


_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=dict).encode
