"""Files that scripts write from the code: written anew, or with --check compared."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path

from workspace import ROOT

__all__ = ["main"]


def main(files: Mapping[Path, str], *, description: str) -> int:
    """Write each file that is not as it should be; with ``--check`` only say so. The exit code: 1 for a stale file."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--check", action="store_true", help="compare, and write nothing")
    check = parser.parse_args().check
    stale = 0
    for path, text in files.items():
        name = path.relative_to(ROOT)
        if path.is_file() and path.read_text(encoding="utf-8") == text:
            print(f"{name} is up to date")
        elif check:
            print(f"{name} is stale; run: .venv/bin/python {Path(sys.argv[0])}", file=sys.stderr)
            stale = 1
        else:
            path.write_text(text, encoding="utf-8", newline="\n")
            print(f"{name} written")
    return stale
