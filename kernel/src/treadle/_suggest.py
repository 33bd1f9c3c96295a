"""Close matches for names that do not exist."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

__all__ = ["close_match", "did_you_mean", "only_match", "similar_file"]

_ALIKE = 0.65
"""How alike a name must be (`SequenceMatcher.ratio` of difflib): 'urn' is like 'run', 'nope' is not like 'openai'."""


def close_match(name: str, known: Iterable[str], *, alike: float = _ALIKE) -> str | None:
    """The known name most like ``name``, or None where none is alike.

    :param alike: how alike it must be, 0 to 1; more where other names are as good as the known ones.
    """
    found = _close(name, known, 1, alike)
    return found[0] if found else None


def only_match(name: str, known: Iterable[str]) -> str | None:
    """The known name that is like ``name``, where there is just one."""
    found = _close(name, known, 2)
    return found[0] if len(found) == 1 else None


def _close(name: str, known: Iterable[str], most: int, alike: float = _ALIKE) -> list[str]:
    from difflib import get_close_matches  # only where something is wrong

    by_folded = {each.casefold(): each for each in known}
    return [by_folded[each] for each in get_close_matches(name.casefold(), by_folded, n=most, cutoff=alike)]


def similar_file(name: str) -> str | None:
    """A file or folder that is there and most like the one named, which is not; folders may be misspelt too."""
    here = Path(Path(name).anchor)
    for part in Path(name).parts[1 if here.anchor else 0 :]:
        try:
            if not (here / part).exists():
                ending = Path(part).suffix  # what most are called like says nothing of which is meant
                there = sorted(here.iterdir(), key=lambda each: (each.suffix == ending, each.name))
                names = {each.stem: each.name for each in there}
                match = close_match(Path(part).stem, names)
                if match is None:
                    return None
                part = names[match]
        except (OSError, ValueError):  # no folder, or closed to us
            return None
        here /= part
    return str(here)


def did_you_mean(name: str, known: Iterable[str], *, list_up_to: int = 8) -> str | None:
    """A hint: the close match, else the names there are while they are few."""
    names = sorted(set(known))
    match = close_match(name, names)
    if match is not None:
        return f"did you mean '{match}'?"
    if 0 < len(names) <= list_up_to:
        return f"there is {', '.join(names)}" if len(names) == 1 else f"there are {', '.join(names)}"
    return None
