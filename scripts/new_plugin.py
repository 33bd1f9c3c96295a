"""Starts a plugin of this repository from the template, and lists it where packages are listed.

usage: new_plugin.py NAME --kind KIND

It writes plugins/treadle_NAME, and adds it to the workspace and the import rules in the root's pyproject.toml.
The catalogue and the pages are then made by `make generate`. Nothing that is there is overwritten.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

from treadle import ConfigurationError
from treadle_cli.template_files import KINDS, new_files, refuse_name, write_files
from workspace import ROOT

# The lists of import-linter that name every plugin: contract, key.
LISTS = (
    (None, "root_packages"),
    ("kernel", "forbidden_modules"),
    ("strangers", "modules"),
    ("libraries", "forbidden_modules"),
    ("command-line", "forbidden_modules"),
    ("contract-only", "source_modules"),
)


def new_plugin(name: str, kind: str, root: Path = ROOT) -> Path:
    """Write the plugin and list it; its folder.

    :raises ConfigurationError: the name will not do, or is taken.
    """
    word = name.removeprefix("treadle-").removeprefix("treadle_")
    refuse_name(word)
    package = f"treadle_{word.replace('-', '_')}"
    folder = root / "plugins" / package
    write_files(folder, new_files(kind, package, offered=word.replace("-", "_"), ours=True))
    settings = root / "pyproject.toml"
    settings.write_text(registered(settings.read_text(encoding="utf-8"), package), encoding="utf-8", newline="\n")
    return folder


def registered(text: str, package: str) -> str:
    """The root's pyproject.toml with a further plugin.

    :raises ValueError: a list that names every plugin is not where it was.
    """
    distribution = package.replace("_", "-")
    text = _with_line(
        text, "[tool.uv.sources]\n", r"treadle-[\w-]+ = .+\n", f"{distribution} = {{ workspace = true }}\n"
    )
    for contract, key in LISTS:
        before = f'id = "{contract}"\n' if contract else "[tool.importlinter]\n"
        start = _behind(text, before)
        start = _behind(text, f"{key} = [\n", start)
        text = _with_line(text, text[:start], r'    "treadle\w*",\n', f'    "{package}",\n')
    return text


def _behind(text: str, part: str, start: int = 0) -> int:
    place = text.find(part, start)
    if place < 0:
        raise ValueError(f"pyproject.toml has no {part.strip()!r} any more; see scripts/new_plugin.py")
    return place + len(part)


def _with_line(text: str, before: str, pattern: str, line: str) -> str:
    """The text with a line among those that match and come next, in order."""
    start = _behind(text, before)
    lines = re.compile(f"(?:{pattern})*").match(text, start)
    assert lines is not None  # it matches nothing at all, too
    found = {*lines[0].splitlines(keepends=True), line}
    return text[:start] + "".join(sorted(found)) + text[lines.end() :]


def main() -> int:
    parser = argparse.ArgumentParser(description="Start a plugin of this repository.")
    parser.add_argument("name", nargs="?", help="what users type, such as router; the package is treadle-NAME")
    parser.add_argument("--kind", nargs="?", choices=list(KINDS), help="what the plugin offers")
    given = parser.parse_args()
    if not given.name or not given.kind:
        print(f"usage: make new-plugin NAME=x KIND=step; the kinds are {', '.join(KINDS)}", file=sys.stderr)
        return 2
    try:
        folder = new_plugin(given.name, given.kind)
    except ConfigurationError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    print(f"{folder.relative_to(ROOT)} written, and listed in pyproject.toml")
    print("next: make format generate, which installs it and lists it in the catalogue and the pages, then")
    print(f"      make test ARGS=plugins/{folder.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
