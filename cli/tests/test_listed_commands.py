"""The commands of installed packages, as the help lists them without importing anything."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from treadle_cli.listed_commands import list_installed


def install(folder: Path, dist: str, entry_points: str, name: str = "") -> None:
    info = folder / f"{dist.replace('-', '_')}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name or dist}\nVersion: 1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text(entry_points, encoding="utf-8")


def test_names_and_whose_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "[console_scripts]\nx = a:b\n\n[treadle.commands]\n# none = a:c\nserve = a:d\nwatch=a:e\n[other]\ny = a:f\n"
    install(tmp_path / "one", "acme-tools", text, "Acme.Tools")
    install(tmp_path / "one", "other", "[treadle.commands]\nserve = o:d\n")
    install(tmp_path / "two", "acme-tools", "[treadle.commands]\nold = a:d\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path / "missing"), str(tmp_path / "one"), str(tmp_path / "two")])
    assert list_installed() == {"serve": ["Acme.Tools", "other"], "watch": ["Acme.Tools"]}


def test_what_a_zip_file_may_hold_is_found_by_the_standard_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path / "one", "acme", "[treadle.commands]\nserve = a:d\n")
    (tmp_path / "some.zip").write_bytes(b"")
    monkeypatch.setattr(sys, "path", [str(tmp_path / "one"), str(tmp_path / "some.zip")])
    assert list_installed() == {"serve": ["acme"]}


def test_help_loads_neither_the_kernel_nor_what_reads_metadata() -> None:
    program = (
        "import sys\nfrom treadle_cli.main import main\nsys.argv = ['treadle', '--help']\n"
        "try: main()\nexcept SystemExit: pass\n"
        "heavy = ('pydantic', 'trio', 'yaml', 'stevedore', 'importlib.metadata', 'rich', 'structlog')\n"
        "print('loaded:', *[each for each in heavy if each in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.splitlines()[-1].strip() == "loaded:"
