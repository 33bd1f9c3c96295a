"""The documentation site holds everything that it shows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from workspace import ROOT

# What a browser loads by itself: scripts, styles, pictures, frames, fonts.
LOADED = re.compile(r'<(?:script|img|iframe|source|link)\b[^>]*?(?:src|href)="(?:https?:)?//[^"]+"|class="mermaid"')


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as `make docs` does, into a folder of the test."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return folder


def test_every_page_is_there(site: Path) -> None:
    pages = {path.relative_to(ROOT / "docs").with_suffix(".html").as_posix() for path in ROOT.glob("docs/**/*.md")}
    pages = {re.sub(r"README\.html$", "index.html", page) for page in pages}
    assert pages <= {path.relative_to(site).as_posix() for path in site.rglob("*.html")}


def test_nothing_is_fetched_from_elsewhere(site: Path) -> None:
    found = [
        f"{page.relative_to(site)}: {match[0]}"
        for page in site.rglob("*.html")
        for match in LOADED.finditer(page.read_text(encoding="utf-8"))
    ]
    assert found == []
    styles = "".join(path.read_text(encoding="utf-8") for path in site.rglob("*.css"))
    assert not re.search(r"(?:url\(['\"]?|@import ['\"])(?:https?:)?//", styles)
