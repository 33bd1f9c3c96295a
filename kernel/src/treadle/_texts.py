"""Every text in a value, found fast: nearly always there is nothing in them to be changed, and one look says so.

What changes texts (:mod:`treadle.redaction`, :mod:`treadle._engine.sending`) goes through a value a second time, part
by part, only where this has found something.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from operator import attrgetter
from typing import Any

__all__ = ["Texts"]

_PLAIN = frozenset({bool, bytes, float, int, type(None)})
_Parts = Callable[[Any], Iterable[Any]]


class Texts:
    """Finds the texts of mappings (keys too), lists and dataclasses, at any depth.

    :param other: the parts of further types, each with those of its heirs.
    """

    def __init__(self, other: Mapping[type, _Parts] | None = None) -> None:
        self._other = other or {}
        self._parts: dict[type, _Parts | None] = {}

    def of(self, value: Any, known: Mapping[int, Any] | None = None, watched: tuple[type, ...] = ()) -> _Found:
        """The texts in a value.

        :param known: objects by their ``id`` that are passed over. It holds them, so the ids are theirs alone.
        :param watched: classes of which every instance that was looked into is given too.
        """
        found = _Found()
        self._gather((value,), found, known or {}, watched)
        return found

    def _gather(self, parts: Iterable[Any], found: _Found, known: Mapping[int, Any], watched: tuple[type, ...]) -> None:
        for each in parts:
            kind = type(each)
            if kind is str:
                found.texts.append(each)
            elif kind not in _PLAIN:
                try:
                    inside = self._parts[kind]
                except KeyError:
                    inside = self._parts[kind] = self._inside(kind)
                if inside is None or id(each) in known:
                    continue
                if kind is tuple and known and all(map(known.__contains__, map(id, each))):
                    continue  # a conversation that is known whole: no step of Python for each message
                self._gather(inside(each), found, known, watched)
                if kind in watched:
                    found.watched.append(each)

    def _inside(self, kind: type) -> _Parts | None:
        for other, parts in self._other.items():
            if issubclass(kind, other):
                return parts
        if issubclass(kind, str):
            return lambda text: (str(text),)
        if issubclass(kind, Mapping):
            return lambda mapping: (*mapping.keys(), *mapping.values())
        if issubclass(kind, list | tuple):
            return lambda items: items
        if not is_dataclass(kind):
            return None
        names = [each.name for each in fields(kind) if each.init]
        if len(names) > 1:
            return attrgetter(*names)
        return lambda instance: [getattr(instance, name) for name in names]


class _Found:
    __slots__ = ("texts", "watched")

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.watched: list[Any] = []
