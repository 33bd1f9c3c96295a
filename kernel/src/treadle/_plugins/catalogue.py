"""The catalogue: which package offers what, for things that are not installed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from treadle._dataclasses import dataclass
from treadle._plugins.finding import list_entry_points
from treadle.contracts.offers import Role

__all__ = ["CATALOGUES", "Catalogue"]

CATALOGUES = "treadle.catalogues"
"""Entry points of this group name packages that ship a ``catalogue.json``; they are read, not imported."""


@dataclass(frozen=True, slots=True)
class Catalogue:
    """Role -> name -> distribution."""

    entries: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def distribution(self, role: Role, name: str) -> str | None:
        """The distribution that offers the name, where the catalogue knows it."""
        return self.entries.get(role, {}).get(name)

    def distributions(self, role: Role) -> list[str]:
        """Every distribution that serves the role."""
        return sorted(set(self.entries.get(role, {}).values()))

    def names(self, role: Role) -> list[str]:
        """Every name known for the role."""
        return list(self.entries.get(role, {}))

    @classmethod
    def discover(cls) -> Catalogue:
        """Read every catalogue that is installed. One that cannot be read counts as absent: it only serves hints."""
        merged: dict[str, dict[str, str]] = {}
        for point in list_entry_points(CATALOGUES):
            try:
                for role, names in _read(point.value).items():
                    merged.setdefault(role, {}).update({name: str(entry["dist"]) for name, entry in names.items()})
            except (OSError, ValueError, TypeError, LookupError, AttributeError):
                continue
        return cls(merged)


def _read(package: str) -> dict[str, Any]:
    spec = find_spec(package.partition(".")[0])
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        file = Path(folder) / "catalogue.json"
        if file.is_file():
            read: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
            return read
    return {}
