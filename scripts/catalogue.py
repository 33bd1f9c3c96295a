"""Writes cli/src/treadle_cli/catalogue.json: which first-party package offers what.

usage: catalogue.py [--check]

It reads `[tool.treadle.offers]` of every first-party pyproject.toml. With --check nothing is written, and the exit
code is 1 where the file is not what would be written.
"""

from __future__ import annotations

import argparse
import json
import sys

from workspace import ROOT, Distribution, distributions

TARGET = ROOT / "cli" / "src" / "treadle_cli" / "catalogue.json"


def catalogue(dists: list[Distribution]) -> dict[str, dict[str, dict[str, str]]]:
    """`{role: {name: {"dist": distribution}}}`, sorted.

    :raises ValueError: if two distributions offer one name for one role.
    """
    found: dict[str, dict[str, dict[str, str]]] = {}
    for dist in dists:
        for role, names in dist.offers.items():
            of_role = found.setdefault(role, {})
            for name in names:
                if name in of_role:
                    raise ValueError(f"{role} {name!r} is offered by both {of_role[name]['dist']} and {dist.name}")
                of_role[name] = {"dist": dist.name}
    return {role: dict(sorted(found[role].items())) for role in sorted(found)}


def render(dists: list[Distribution]) -> str:
    """The text of the file."""
    return json.dumps(catalogue(dists), indent=2) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description="Write the catalogue of first-party plugins.")
    parser.add_argument("--check", action="store_true", help="compare, and write nothing")
    check = parser.parse_args().check
    text = render(distributions())
    name = TARGET.relative_to(ROOT)
    current = TARGET.read_text(encoding="utf-8") if TARGET.is_file() else None
    if current == text:
        print(f"{name} is up to date")
        return 0
    if check:
        print(f"{name} is stale; run: .venv/bin/python scripts/catalogue.py", file=sys.stderr)
        return 1
    TARGET.write_text(text, encoding="utf-8")
    print(f"{name} written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
