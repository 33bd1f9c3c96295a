"""Which distributions are ours, as the catalogue has them."""

from __future__ import annotations

from collections.abc import Collection
from functools import cache
from pathlib import Path

__all__ = ["command_distribution", "command_summary", "first_party"]


@cache
def _catalogue() -> dict[str, dict[str, dict[str, str]]]:
    import json  # only where it is asked for: every command imports this module

    text = Path(__file__).with_name("catalogue.json").read_text(encoding="utf-8")
    read: dict[str, dict[str, dict[str, str]]] = json.loads(text)
    return read


def first_party() -> frozenset[str]:
    """The names of all distributions that are ours and offer something."""
    return frozenset(entry["dist"] for names in _catalogue().values() for entry in names.values())


def command_distribution(name: str) -> str | None:
    """Which of ours brings the command."""
    entry = _catalogue().get("command", {}).get(name)
    return entry["dist"] if entry else None


def command_summary(name: str, owners: Collection[str]) -> str:
    """What a command of a package does, in one line, without importing it: ours are in the catalogue, of others it is
    known whose they are."""
    entry = _catalogue().get("command", {}).get(name)
    return entry["summary"] if entry and [*owners] == [entry["dist"]] else f"(from {' and '.join(owners)})"
