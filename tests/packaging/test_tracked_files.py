"""Nothing in the repository tells of the machine it was written on, or of where its packages came from."""

from __future__ import annotations

import fnmatch
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from workspace import ROOT

# Written so that no pattern matches its own text.
FORBIDDEN = {
    "a path of the machine it was written on": re.compile(rb"(?<![\w.~-])/(?:work|tmp/w|root/[.]pyenv|opt/pypi)/"),
    "an index address": re.compile(rb"\bpypi[.]org\b|\bpythonhosted[.]org\b|\bregistry[.]npmjs[.]org\b"),
    "an index option": re.compile(rb"--(?:extra-)?index[-]url\b|--find[-]links\b"),
}


def repository_files() -> list[Path]:
    """What git tracks or would track; outside a checkout, everything that .gitignore does not name."""
    if (ROOT / ".git").exists():
        git = shutil.which("git")
        assert git, "this is a git checkout, and git is not installed"
        listed = subprocess.run(
            [git, "-c", f"safe.directory={ROOT}", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            check=True,
        )
        paths = [ROOT / os.fsdecode(name) for name in listed.stdout.split(b"\0") if name]
        return [path for path in paths if path.is_file()]
    lines = (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()
    patterns = [line.rstrip("/") for line in lines if line and not line.startswith("#")]
    found: list[Path] = []
    for folder, names, files in os.walk(ROOT):
        names[:] = [name for name in names if not _is_ignored(Path(folder, name), patterns)]
        found += [Path(folder, name) for name in files if not _is_ignored(Path(folder, name), patterns)]
    return found


def _is_ignored(path: Path, patterns: list[str]) -> bool:
    inside = path.relative_to(ROOT).as_posix()
    return any(fnmatch.fnmatch(path.name, pattern) or inside == pattern for pattern in patterns)


def test_the_files_are_found() -> None:
    names = {path.relative_to(ROOT).as_posix() for path in repository_files()}
    assert {"pyproject.toml", "kernel/pyproject.toml", "kernel/src/treadle/errors.py", "Makefile"} <= names
    assert not any(name.startswith(".venv/") for name in names)


def test_no_lock_file_is_tracked() -> None:
    """uv.lock records the addresses of the index it was made with; constraints.txt stands in its place."""
    assert [path for path in repository_files() if path.name == "uv.lock"] == []


@pytest.mark.parametrize("what", FORBIDDEN)
def test_no_tracked_file_holds(what: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}: {match[0].decode(errors='replace')}"
        for path in repository_files()
        for match in FORBIDDEN[what].finditer(path.read_bytes())
    ]
    assert found == []


@pytest.mark.parametrize(
    ("what", "text"),
    [
        ("a path of the machine it was written on", b"open('/%s/main/x')" % b"work"),
        ("an index address", b"https://pypi.%s/simple" % b"org"),
        ("an index option", b"pip install --index-%s x" % b"url"),
    ],
)
def test_the_patterns_find_what_they_are_for(what: str, text: bytes) -> None:
    assert FORBIDDEN[what].search(text)
