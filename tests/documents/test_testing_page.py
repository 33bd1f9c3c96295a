"""The page of the test kit: its files written, its tests run, what it says is printed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import treadle.testing
from workspace import ROOT

TEXT = (ROOT / "docs" / "plugins" / "testing.md").read_text(encoding="utf-8")
FILES = dict(re.findall(r'```(?:python|toml) title="([^"]+)"\n(.*?)```', TEXT, re.DOTALL))
COMMANDS = re.findall(r"```console\n\$ python (.*?)\n(.*?)```", TEXT, re.DOTALL)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return tmp_path


def run(folder: Path, *arguments: str) -> str:
    paths = os.pathsep.join([str(folder), *(each for each in sys.path if each)])
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": paths, "PYTEST_ADDOPTS": "-p no:cacheprovider"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    return done.stdout + done.stderr


def test_every_block_is_a_file_or_a_command() -> None:
    assert len(FILES) + len(COMMANDS) == TEXT.count("```") / 2


@pytest.mark.parametrize(("command", "printed"), COMMANDS)
def test_the_command_prints_that(folder: Path, command: str, printed: str) -> None:
    pattern = re.escape(printed).replace(re.escape("in ..."), "in .*")
    said = run(folder, *command.split())
    assert re.fullmatch(pattern, said), said


def test_the_shipped_suite_passes(folder: Path) -> None:
    program = "import trio\nfrom acme_treadle.checks import checks\nfor each in checks().values(): trio.run(each)\n"
    assert run(folder, "-c", program) == ""


def test_every_name_of_the_kit_is_on_the_page() -> None:
    missing = [name for name in treadle.testing.__all__ if f"`{name}" not in TEXT and f"{name}(" not in TEXT]
    assert missing == ["Reply", "ScriptedProvider"]
