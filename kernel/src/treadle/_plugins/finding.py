"""Entry points: which there are, whose they are, and loading one of them."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Sequence
from functools import cache
from importlib.metadata import EntryPoint, distributions
from typing import Any

from stevedore.named import NamedExtensionManager

from treadle._dataclasses import dataclass

__all__ = ["COMMANDS", "PLUGINS", "Distribution", "distribution_of", "list_entry_points", "load_entry_point"]

PLUGINS = "treadle.plugins"
COMMANDS = "treadle.commands"


@dataclass(frozen=True, slots=True)
class Distribution:
    """An installed distribution. Both are ``unknown`` where an entry point cannot be traced to one."""

    name: str = "unknown"
    version: str = "unknown"

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
    failures: list[BaseException] = []
    manager: NamedExtensionManager[Any] = NamedExtensionManager(
        point.group,
        names=[point.name],
        on_load_failure_callback=lambda _manager, _point, error: failures.append(error),
        # Only called for names that are missing, which includes those that failed; the failure is already known.
        on_missing_entrypoints_callback=None,
    )
    if failures:
        raise failures[0]
    return manager[point.name].plugin


@cache
def _owners(group: str) -> dict[tuple[str, str], Distribution]:
    # Entry points that come from stevedore's cache have lost their distribution.
    return {
        (point.name, point.value): owner
        for found in distributions()
        if (points := [point for point in found.entry_points if point.group == group])
        for owner in [_named(found)]
        for point in points
    }


def _named(found: importlib.metadata.Distribution) -> Distribution:
    try:
        return Distribution(found.metadata["Name"] or "unknown", found.version or "unknown")
    except Exception:  # what a half-removed distribution raises differs by Python version
        return Distribution()


def distribution_of(point: EntryPoint) -> Distribution:
    """The distribution that declares the entry point."""
    return _owners(point.group).get((point.name, point.value), Distribution())
