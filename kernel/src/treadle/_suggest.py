"""Close matches for names that do not exist."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

__all__ = ["close_match", "did_you_mean"]


def close_match(name: str, known: Iterable[str]) -> str | None:
    """The known name most like ``name``, or None where none is alike."""
    by_folded = {each.casefold(): each for each in known}
    found = get_close_matches(name.casefold(), by_folded, n=1, cutoff=0.6)
    return by_folded[found[0]] if found else None


def did_you_mean(name: str, known: Iterable[str], *, list_up_to: int = 8) -> str | None:
    """A hint: the close match, else the names there are while they are few."""
    names = sorted(set(known))
    match = close_match(name, names)
    if match is not None:
        return f"did you mean '{match}'?"
    if 0 < len(names) <= list_up_to:
        return f"there is {', '.join(names)}" if len(names) == 1 else f"there are {', '.join(names)}"
    return None
