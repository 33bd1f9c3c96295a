"""The programs of ``docs/python.md`` print what the page says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from workspace import ROOT

TEXT = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
(FIRST,) = re.findall(r'```yaml title="first.yaml"\n(.*?)```', TEXT, re.DOTALL)
PROGRAMS = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", TEXT, re.DOTALL)


def test_every_program_says_what_it_prints() -> None:
    assert len(PROGRAMS) == TEXT.count("```python") >= 6


@pytest.mark.parametrize(("program", "printed"), PROGRAMS)
def test_the_program_prints_that(program: str, printed: str, tmp_path: Path) -> None:
    (tmp_path / "first.yaml").write_text(FIRST, encoding="utf-8")
    # The step classes need a module to find their hints in, as in a file of one's own.
    (tmp_path / "program.py").write_text(program, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-W", "error", "program.py"], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert (done.stdout, done.stderr) == (printed, "")
