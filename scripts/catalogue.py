"""Writes cli/src/treadle_cli/catalogue.json: which first-party package offers what.

usage: catalogue.py [--check]

It reads `[tool.treadle.offers]` and the commands of every first-party pyproject.toml. With --check nothing is
written, and the exit code is 1 where the file is not what would be written.
"""

from __future__ import annotations

import json
import sys

from generated import main
from workspace import ROOT, Distribution, distributions

TARGET = ROOT / "cli" / "src" / "treadle_cli" / "catalogue.json"


def catalogue(dists: list[Distribution]) -> dict[str, dict[str, dict[str, str]]]:
    """`{role: {name: {"dist": distribution}}}`, sorted.

    :raises ValueError: if two distributions offer one name for one role.
    """
    found: dict[str, dict[str, dict[str, str]]] = {}
    for dist in dists:
        for role, names in (*dist.offers.items(), ("command", list(dist.commands))):
            of_role = found.setdefault(role, {})
            for name in names:
                if name in of_role:
                    raise ValueError(f"{role} {name!r} is offered by both {of_role[name]['dist']} and {dist.name}")
                of_role[name] = {"dist": dist.name}
    return {role: dict(sorted(found[role].items())) for role in sorted(found) if found[role]}


def render(dists: list[Distribution]) -> str:
    """The text of the file."""
    return json.dumps(catalogue(dists), indent=2) + "\n"


if __name__ == "__main__":
    sys.exit(main({TARGET: render(distributions())}, description="Write the catalogue of first-party plugins."))
