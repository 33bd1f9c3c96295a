"""What Anthropic's models take, told by their names.

The model pages say it in prose, model by model; here it is a rule on family and version, so that a model of
tomorrow is taken for one like the newest of today.
https://platform.claude.com/docs/en/build-with-claude/thinking (kinds of thinking, sampling parameters),
https://platform.claude.com/docs/en/build-with-claude/structured-outputs (output formats),
https://platform.claude.com/docs/en/about-claude/models/migration-guide (what newer models refuse).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

__all__ = ["Traits", "traits_of"]

_OLD_STYLE = re.compile(r"claude-(\d)(?:[-.](\d))?(?!\d)")  # claude-3-7-sonnet, claude-2.1
_NEW_STYLE = re.compile(r"claude-([a-z]+)-(\d{1,2})(?:[-.](\d{1,2}))?(?!\d)")  # claude-sonnet-4-5-20250929
_NEWEST = (99, 0)
_THINKERS = frozenset({"fable", "mythos"})
"""Families that always think, and have never held a reply to a schema."""


@dataclass(frozen=True, slots=True)
class Traits:
    """What one model takes.

    :param is_claude: one of Anthropic's own models, not one of another vendor behind the same API.
    :param takes_budget: thinking has a budget; else the model decides itself how much it thinks.
    :param takes_sampling: ``temperature`` may be set.
    :param takes_display: thinking may be asked for without its text.
    :param takes_formats: a reply is held to a JSON Schema by the API.
    :param takes_force: ``tool_choice`` may force a tool.
    """

    is_claude: bool
    takes_budget: bool
    takes_sampling: bool
    takes_display: bool
    takes_formats: bool
    takes_force: bool


@lru_cache(maxsize=256)
def traits_of(model: str) -> Traits:
    """What the model of that name takes. A gateway's prefix (``anthropic/claude-...``) is looked through."""
    name = model.lower()
    if "claude" not in name:
        return Traits(
            is_claude=False,
            takes_budget=True,
            takes_sampling=True,
            takes_display=False,
            takes_formats=False,
            takes_force=True,
        )
    family, version = _version(name)
    always_thinks = family in _THINKERS
    fixed = version >= (4, 7) or always_thinks
    return Traits(
        is_claude=True,
        takes_budget=not fixed,
        takes_sampling=not fixed,
        takes_display=version >= (4, 6) or always_thinks,
        takes_formats=version >= (4, 5) and not always_thinks,
        takes_force=version < (5, 1),
    )


def _version(name: str) -> tuple[str, tuple[int, int]]:
    if found := _OLD_STYLE.search(name):
        return "", (int(found[1]), int(found[2] or 0))
    if found := _NEW_STYLE.search(name):
        return found[1], (int(found[2]), int(found[3] or 0))
    family = re.search(r"claude-([a-z]+)", name)
    return (family[1] if family else ""), _NEWEST
