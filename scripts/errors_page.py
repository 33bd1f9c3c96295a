"""Writes docs/errors.md: what each code of a problem means, from scripts/errors.yaml and errors_head.md.

usage: errors_page.py [--check]

With --check nothing is written, and the exit code is 1 where the page is not what would be written.
"""

from __future__ import annotations

import sys
from typing import Any

import yaml

from generated import main
from workspace import ROOT

SOURCE = ROOT / "scripts" / "errors.yaml"
TARGET = ROOT / "docs" / "errors.md"
HEAD = ROOT / "scripts" / "errors_head.md"


def entries() -> dict[str, dict[str, Any]]:
    """Each code with what is written of it, sorted."""
    table: dict[str, dict[str, Any]] = yaml.safe_load(SOURCE.read_text(encoding="utf-8"))
    return dict(sorted(table.items()))


def render() -> str:
    """The text of the page."""
    return HEAD.read_text(encoding="utf-8") + "".join(map(_section, *zip(*entries().items(), strict=True)))


def _section(code: str, entry: dict[str, Any]) -> str:
    severity = "A warning. " if entry.get("warning") else ""
    language = "console" if entry.get("command") else "yaml"
    text = f"\n### {code}\n\n{severity}{entry['means']}\n"
    if "settings" in entry:
        text += f"\nWith this `treadle.yaml`:\n\n```yaml\n{entry['settings']}```\n"
    for word in ("wrong", "right"):
        text += f"\n{word.capitalize()}:\n\n```{language}\n{entry[word]}```\n"
    return text + (f"\n{entry['note']}\n" if "note" in entry else "")


if __name__ == "__main__":
    sys.exit(main({TARGET: render()}, description="Write the page of problem codes."))
