"""Arguments of the wrong kind, told by their names and before anything is done with them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

__all__ = ["expect"]


def expect(kind: Any, takes: str, **given: object) -> None:
    """Refuse what is of another kind.

    :param kind: as for ``isinstance``; a text and a mapping are no ``Iterable`` here.
    :param takes: the kind in words.
    :raises TypeError: naming the argument, what it takes and the kind that was given.
    """
    for name, value in given.items():
        if not isinstance(value, kind) or (kind is Iterable and isinstance(value, str | bytes | Mapping)):
            raise TypeError(f"{name}: takes {takes}, not {type(value).__name__}")
