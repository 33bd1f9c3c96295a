"""Writes cli/src/treadle_cli/catalogue.json: which first-party package offers what.

usage: catalogue.py [--check]

It reads `[tool.treadle.offers]` and the commands of every first-party pyproject.toml, and imports the commands for
their summaries, so that `treadle --help` need not. With --check nothing is
written, and the exit code is 1 where the file is not what would be written.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Mapping

import click

from generated import main
from workspace import ROOT, Distribution, distributions

TARGET = ROOT / "cli" / "src" / "treadle_cli" / "catalogue.json"


def catalogue(dists: list[Distribution]) -> dict[str, dict[str, dict[str, str]]]:
    """`{role: {name: {"dist": distribution}}}`, sorted; with the `summary` of a command.

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
                if role == "command":
                    of_role[name]["summary"] = summary(name, dist.commands)
    return {role: dict(sorted(found[role].items())) for role in sorted(found) if found[role]}


def summary(name: str, commands: Mapping[str, str]) -> str:
    """What a command says of itself in one line; of a second name, whose it is."""
    module, _, attribute = commands[name].partition(":")
    command: click.Command = getattr(importlib.import_module(module), attribute)
    other = command.name or name
    return f"The same as {other}." if other != name and other in commands else command.get_short_help_str(limit=100)


def render(dists: list[Distribution]) -> str:
    """The text of the file."""
    return json.dumps(catalogue(dists), indent=2) + "\n"


if __name__ == "__main__":
    sys.exit(main({TARGET: render(distributions())}, description="Write the catalogue of first-party plugins."))
