"""Entry points: which there are, whose they are, and loading one of them."""

from __future__ import annotations

import importlib.metadata
import re
from collections.abc import Sequence
from functools import cache
from importlib.metadata import EntryPoint, distributions
from typing import Any

from stevedore.named import NamedExtensionManager

from treadle._dataclasses import dataclass

__all__ = [
    "COMMANDS",
    "PLUGINS",
    "Distribution",
    "distribution_of",
    "distributions_of",
    "list_entry_points",
    "load_entry_point",
]

PLUGINS = "treadle.plugins"
COMMANDS = "treadle.commands"


@dataclass(frozen=True, slots=True)
class Distribution:
    """An installed distribution. Name and version are ``unknown`` where an entry point cannot be traced to one.

    :param requires: its requirements on other distributions, as the core metadata writes them.
    """

    name: str = "unknown"
    version: str = "unknown"
    requires: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "distribution unknown" if self == Distribution() else f"{self.name} {self.version}"


def list_entry_points(group: str) -> Sequence[EntryPoint]:
    """Every entry point of the group, sorted by name. Imports none of them."""
    manager: NamedExtensionManager[Any] = NamedExtensionManager(group, names=[])
    return sorted(manager.list_entry_points(), key=lambda point: (point.name, point.value))


def load_entry_point(point: EntryPoint) -> Any:
    """Import what the entry point names.

    :raises BaseException: whatever the import raises, ``SystemExit`` included.
    """
    return point.load()  # a manager for each would look through the whole group again


@cache
def _owners(group: str) -> dict[tuple[str, str], list[Distribution]]:
    # Entry points that come from stevedore's cache have lost their distribution.
    owners: dict[tuple[str, str], list[Distribution]] = {}
    for found in distributions():
        if f"[{group}]" not in (_text(found, "entry_points.txt") or ""):  # parsing them all would take far longer
            continue
        owner = _described(found)
        for point in found.entry_points:
            if point.group == group:
                owners.setdefault((point.name, point.value), []).append(owner)
    return owners


def _text(found: importlib.metadata.Distribution, name: str) -> str | None:
    try:
        return found.read_text(name)
    except (OSError, ValueError):  # a half-removed distribution, or one whose metadata is not text
        return None


_HEADER = re.compile(r"^(Name|Version|Requires-Dist):[ \t]*(.*?)[ \t]*$", re.MULTILINE)


def _described(found: importlib.metadata.Distribution) -> Distribution:
    """By its headers; the whole is a mail message with a README in it, which is slow to parse."""
    text = (_text(found, "METADATA") or _text(found, "PKG-INFO") or "").replace("\r\n", "\n")
    headers = _HEADER.findall(text.partition("\n\n")[0])
    first = dict(reversed(headers))
    requires = tuple(value for name, value in headers if name == "Requires-Dist")
    return Distribution(first.get("Name") or "unknown", first.get("Version") or "unknown", requires)


def distribution_of(point: EntryPoint) -> Distribution:
    """The distribution that declares the entry point; the first, where several declare the same one."""
    owners = _owners(point.group).get((point.name, point.value))
    return owners[0] if owners else Distribution()


def distributions_of(group: str, name: str) -> list[Distribution]:
    """Every distribution that declares an entry point of that name."""
    return [owner for (each, _), owners in sorted(_owners(group).items()) if each == name for owner in owners]
