"""Finding the JSON value in a model's reply.

Models wrap JSON in prose and fences, and put backticks and braces inside strings. So nothing here goes by
patterns: every place where a value could begin is given to a real decoder, which knows where it ends.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NoReturn

__all__ = ["json_values"]

_BEGINNING = re.compile(r"[{\[]")
_AFTER_FENCE = re.compile(r"^[ \t]*(?:`{3,}|~{3,})[^\n`]*\n\s*(?=[{\[])", re.MULTILINE)
_MOST_TRIES = 200
"""A reply of nothing but opening brackets must not cost a try each."""


def json_values(text: str) -> Iterator[Any]:
    """Every JSON value in the reply that could be the answer, the likeliest first.

    The whole text where it is JSON; else the objects and arrays that begin right after a fence; then those that
    begin anywhere, in order, skipping what lies inside one already found. A value that is cut off is none.
    """
    stripped = text.strip()
    whole = _decode(stripped, 0)
    if whole is not None and whole[1] == len(stripped):
        yield whole[0]
        return
    fenced = [match.end() for match in _AFTER_FENCE.finditer(stripped)]
    yield from _values_at(stripped, iter(fenced))
    yield from _values_at(stripped, (match.start() for match in _BEGINNING.finditer(stripped)), known=set(fenced))


def _values_at(text: str, starts: Iterator[int], known: set[int] | frozenset[int] = frozenset()) -> Iterator[Any]:
    end = tries = 0
    for start in starts:
        if start < end:
            continue
        tries += 1
        if tries > _MOST_TRIES:
            return
        found = _decode(text, start)
        if found is not None:
            value, end = found
            if start not in known:
                yield value


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


# NaN and Infinity are JavaScript, not JSON (RFC 8259, section 6).
_decoder = json.JSONDecoder(parse_constant=_refuse)


def _decode(text: str, start: int) -> tuple[Any, int] | None:
    try:
        return _decoder.raw_decode(text, start)
    except (ValueError, RecursionError):
        return None
