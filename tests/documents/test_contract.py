"""The contract tables: every test that a row names is there, and every row has a verdict."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "docs" / "contract").glob("*.md"))
ROW = re.compile(r"^\| (?P<statement>.+?) \| `(?P<folder>[\w/]+)::(?P<test>test_\w+)` \| (?P<verdict>.+?) \|$")


def rows(page: Path) -> list[re.Match[str]]:
    lines = page.read_text(encoding="utf-8").splitlines()
    begins = next((n for n, line in enumerate(lines) if line.startswith("| statement |")), None)
    found = []
    for line in lines[begins + 2 :] if begins is not None else []:
        if not line.startswith("|"):
            break
        row = ROW.match(line)
        assert row is not None, f"{page.name}: not a row: {line}"
        found.append(row)
    return found


def names_in(folder: str) -> set[str]:
    """The test functions of a plugin, the kernel, the command line or a folder of `tests`."""
    places = [ROOT / "plugins" / folder / "tests", ROOT / folder / "tests", ROOT / "tests" / folder]
    return {
        node.name
        for place in places
        for file in place.rglob("test_*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }


@pytest.mark.parametrize("page", [page for page in PAGES if page.name != "README.md"], ids=lambda page: page.stem)
def test_every_row_names_a_test_that_is_there_and_says_how_it_compares(page: Path) -> None:
    found = rows(page)
    assert len(found) > 5
    known = {folder: names_in(folder) for folder in {row["folder"] for row in found}}
    assert [row["test"] for row in found if row["test"] not in known[row["folder"]]] == []
    assert [row[0] for row in found if not re.match(r"(same$|better\b|different: \w)", row["verdict"])] == []


def test_the_index_lists_every_table() -> None:
    index = (ROOT / "docs" / "contract" / "README.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"\]\((\w+\.md)\)", index)) == [page.name for page in PAGES if page.name != "README.md"]
