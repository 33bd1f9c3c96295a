"""Text that can be sent and written: without halves of surrogate pairs, which UTF-8 cannot hold.

They come from models and files that write an emoji as two escapes and cut one off. Two halves side by side are joined,
as JSON means them (RFC 8259, section 7); one alone becomes U+FFFD, the replacement character.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from operator import is_
from typing import Any, TypeVar

from treadle._texts import Texts
from treadle.messages import Message, ModelRequest

__all__ = ["RequestCleaner", "clean", "clean_text"]

T = TypeVar("T")
_TEXTS = Texts()


def clean_text(text: str) -> str:
    """The text as it can be encoded; the same object where it can be."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def clean(value: T) -> T:
    """The value with every text in it clean, keys included; the same object where it was."""
    if value is None or type(value) in (int, bool, float):
        return value
    texts = "".join(_TEXTS.of(value).texts)
    made: Any = value if texts.isascii() or clean_text(texts) is texts else _clean(value)
    return made  # type: ignore[no-any-return]  # of the type it had


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, Mapping):
        pairs = {clean_text(key) if isinstance(key, str) else key: _clean(item) for key, item in value.items()}
        same = pairs.keys() == value.keys() and all(pairs[key] is item for key, item in value.items())
        return value if same else pairs
    if isinstance(value, list | tuple):
        items = [_clean(item) for item in value]
        if all(mine is theirs for mine, theirs in zip(items, value, strict=True)):
            return value
        return tuple(items) if isinstance(value, tuple) else items
    if is_dataclass(value) and not isinstance(value, type):
        changed = {
            each.name: made
            for each in fields(value)
            if each.init and (made := _clean(old := getattr(value, each.name))) is not old
        }
        return replace(value, **changed) if changed else value
    return value


class RequestCleaner:
    """Cleans the requests of one step. A conversation that grows is looked at once, message by message; tools once."""

    __slots__ = ("_is_changed", "_known", "_others")

    def __init__(self) -> None:
        self._known: dict[int, tuple[Message, Message]] = {}
        self._others: dict[str, tuple[Any, Any]] = {}
        self._is_changed = False  # whether any message had to be made anew

    def clean(self, request: ModelRequest) -> ModelRequest:
        """The request as it can be sent."""
        known, messages = self._known, request.messages
        for message in [each for each in messages if id(each) not in known]:
            known[id(message)] = (message, clean(message))  # the first is kept so that its id stays its own
            self._is_changed |= known[id(message)][1] is not message
        if self._is_changed:
            made = tuple(known[id(each)][1] for each in messages)
            messages = messages if all(map(is_, made, messages)) else made
        others: dict[str, Any] = {
            name: made
            for name in ("tools", "hosted_tools", "output", "stop_sequences")
            if (old := getattr(request, name)) and (made := self._cleaned(name, old)) is not old
        }
        if others or messages is not request.messages:
            return replace(request, messages=messages, **others)
        return request

    def _cleaned(self, name: str, value: Any) -> Any:
        known = self._others.get(name)
        if known is None or known[0] is not value:
            known = self._others[name] = (value, clean(value))
        return known[1]
