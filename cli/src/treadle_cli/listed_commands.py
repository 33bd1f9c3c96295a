"""Which commands installed packages have, read from the files that say so.

:mod:`importlib.metadata` reads the same files, and importing it was a third of the time of ``treadle --help``. Here
is what a list needs: names, and whose they are. Loading a command is left to it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

__all__ = ["COMMANDS", "list_installed"]

COMMANDS = "treadle.commands"
"""Entry points of this group are click commands, by name."""


def list_installed() -> dict[str, list[str]]:
    """Every command of an installed package: its name -> the distributions that have one of that name, sorted."""
    found: dict[str, list[str]] = {}
    seen: set[str] = set()
    for folder in dict.fromkeys(sys.path):
        try:
            entries = list(Path(folder).iterdir())
        except NotADirectoryError:
            return _list_by_metadata()  # a zip file may hold distributions too
        except OSError:
            continue
        for entry in entries:
            project = entry.name.partition("-")[0].lower()
            # Of two installations of one distribution, the first on the path counts.
            if not entry.name.endswith((".dist-info", ".egg-info")) or project in seen:
                continue
            seen.add(project)
            text = _read(entry / "entry_points.txt")
            if COMMANDS in text:
                for name in _names(text):
                    found.setdefault(name, []).append(_distribution(entry) or project)
    return {name: sorted(owners) for name, owners in found.items()}


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


def _names(text: str) -> Iterator[str]:
    """The names in the group's section of an ``entry_points.txt``."""
    section = ""
    for line in text.splitlines():
        line = line.strip()
        if line.startswith("["):
            section = line.strip("[]")
        elif section == COMMANDS and "=" in line and not line.startswith(("#", ";")):
            yield line.partition("=")[0].strip()


def _distribution(entry: Path) -> str:
    for line in (_read(entry / "METADATA") or _read(entry / "PKG-INFO")).splitlines():
        if line.lower().startswith("name:"):
            return line[len("name:") :].strip()
    return ""


def _list_by_metadata() -> dict[str, list[str]]:
    from importlib.metadata import entry_points

    found: dict[str, list[str]] = {}
    for point in entry_points(group=COMMANDS):
        found.setdefault(point.name, []).append(point.dist.name if point.dist else "an unknown package")
    return {name: sorted(owners) for name, owners in found.items()}
