"""Paths into the state: reading along one, and writing at its end without changing the input.

The grammar:

    path    = name index* ("." name index*)*        items[0].name, m[0][1], results[-1]
    name    = one or more characters other than . [ ] { }, no space or control character at its ends
    index   = "[" integer "]"                       counted from the end if negative
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, Self

from treadle._dataclasses import dataclass
from treadle._language.fields import DocumentField
from treadle._language.values import declared_fields, excerpt, kind_of
from treadle.errors import StateError

__all__ = ["MISSING", "Missing", "Part", "StatePath", "assign", "look_up", "path_text"]

Part = str | int
"""One part of a path: a name, or an index into a list."""


class Missing:
    """The type of ``MISSING``."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "MISSING"

    def __reduce__(self) -> str:
        return "MISSING"


MISSING: Final = Missing()
"""Stands for a value that is not there, where None would be a value."""

_INDEX = re.compile(r"\[(-?[0-9]{1,18})\]")
_CONTROL_CHARACTERS = "".join(map(chr, (*range(0x20), *range(0x7F, 0xA0))))


@dataclass(frozen=True, slots=True)
class StatePath(DocumentField):
    """A place in the state, such as ``items[0].name``. Made by ``parse`` or ``parse_state``.

    Equal paths have equal parts. As a pydantic field it accepts text, with or without ``state.``.
    """

    parts: tuple[Part, ...]

    _error_code = "state_path"
    _json_note = "A state path, such as report.title or items[0]"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a path as it is written. Raises StateError with the text and what is wrong in it."""
        if not text:
            raise StateError("the state path is empty", hint="write it like items[0].name")
        parts: list[Part] = []
        for segment in text.split("."):
            name, bracket, indices = segment.partition("[")
            if fault := _fault_of_name(name) or _fault_of_indices(bracket + indices):
                raise StateError(f"state path {excerpt(text)} {fault}", hint="write it like items[0].name")
            parts.append(name)
            parts.extend(int(index) for index in _INDEX.findall(bracket + indices))
        return cls(tuple(parts))

    @classmethod
    def parse_state(cls, text: str) -> Self:
        """Read a path that may begin with ``state.``, which is left out of the parts."""
        return cls.parse(text.removeprefix("state."))

    @property
    def root(self) -> str:
        """The top-level key of the state that the path begins with."""
        return str(self.parts[0])

    @property
    def text(self) -> str:
        """The path as ``parse`` reads it, with its indices in their shortest form."""
        return path_text(self.parts)

    def __str__(self) -> str:
        return self.text

    @classmethod
    def _from_document(cls, written: str) -> Self:
        return cls.parse_state(written)

    def _to_document(self) -> str:
        return self.text


def path_text(parts: Iterable[Part]) -> str:
    """Parts as one path: names after dots, indices in brackets."""
    written = "".join(f".{part}" if isinstance(part, str) else f"[{part}]" for part in parts)
    return written.removeprefix(".")


def look_up(value: Any, parts: Iterable[Part]) -> Any:
    """The value at the end of ``parts``, or ``MISSING``. Never raises for want of a value.

    A name reads a key of a mapping or a declared field of a pydantic instance, an index an entry of
    a list or tuple. Attributes and characters of text are never read. Keys are compared exactly: two
    spellings of one word that Unicode calls equivalent are two keys.
    """
    for part in parts:
        if isinstance(part, str):
            if isinstance(value, (dict, Mapping)):  # dict first: the check of Mapping is slower
                value = value.get(part, MISSING)
            elif (fields := declared_fields(value)) is not None and part in fields:
                value = getattr(value, part, MISSING)
            else:
                return MISSING
        elif isinstance(value, (list, tuple)) and -len(value) <= part < len(value):
            value = value[part]
        else:
            return MISSING
    return value


def assign(root_value: Any, path: StatePath, value: Any) -> Any:
    """A new value of the key ``path.root``, with ``value`` written at ``path``.

    ``root_value`` is what the key holds now, or ``MISSING``. It is never changed: the containers
    along the path are copied, everything else is shared. Missing dictionaries are created.

    Raises StateError where the path leads past the end of a list, or through something that has no
    such parts.
    """
    parts = path.parts[1:]
    containers: list[Any] = []
    current = root_value
    for depth, part in enumerate(parts, start=1):
        if current is MISSING and isinstance(part, str):
            current = {}
        if not _can_write(current, part):
            reason, advice = _why_not(current, part, path_text(path.parts[:depth]))
            raise StateError(f"cannot write {excerpt(path.text)}: {reason}", hint=advice)
        containers.append(current)
        current = look_up(current, (part,))
    for container, part in zip(reversed(containers), reversed(parts), strict=True):
        value = _replaced(container, part, value)
    return value


def _replaced(container: Any, part: Part, value: Any) -> Any:
    """A copy of a dictionary, list or tuple with one part replaced."""
    copy: Any = dict(container) if isinstance(part, str) else list(container)
    copy[part] = value
    return tuple(copy) if isinstance(container, tuple) else copy


def _can_write(container: Any, part: Part) -> bool:
    if isinstance(part, str):
        return isinstance(container, Mapping)
    return isinstance(container, (list, tuple)) and -len(container) <= part < len(container)


def _why_not(container: Any, part: Part, prefix: str) -> tuple[str, str | None]:
    """Why ``part`` of the container at ``prefix`` cannot be written, and advice if there is any."""
    place = excerpt(prefix)
    if container is MISSING:
        return f"{place} is missing, so it has no [{part}]", f"write the whole list to {place} first"
    kind = f"{place} is {kind_of(container)}"
    if declared_fields(container) is not None:
        return (
            f"{kind}, which is not written into",
            f"write a whole new value to {place}",
        )
    if isinstance(container, (list, tuple)):
        if isinstance(part, str):
            return kind, f"use an index, as in {prefix}[0]"
        return (
            f"{place} has length {len(container)}, so [{part}] is out of range",
            f"a list is not grown by an index; write the whole list to {place}",
        )
    if isinstance(container, Mapping):
        return f"{kind}, which has names and no indices", None
    return f"{kind}, which has no parts", None


def _fault_of_name(name: str) -> str | None:
    if not name:
        return "has an empty segment"
    if name != name.strip().strip(_CONTROL_CHARACTERS):
        return f"has a space or control character at an end of the name {excerpt(name)}"
    for character in "]{}":
        if character in name:
            return f"has a {character!r} in the name {excerpt(name)}"
    return None


def _fault_of_indices(indices: str) -> str | None:
    rest = _INDEX.sub("", indices)
    if not rest:
        return None
    return f"has {excerpt(rest)} where an index like [0] or [-1] belongs"
