"""Running the ``treadle`` command as a user does, for the end-to-end tests."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import trio

__all__ = ["ROOT", "statuses", "treadle"]

ROOT = Path(__file__).resolve().parents[2]


async def treadle(*arguments: str, cwd: Path = ROOT, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command, in the root of the repository by default, with no setting of the machine's owner."""
    kept = {name: value for name, value in os.environ.items() if "OPENAI" not in name and "TREADLE" not in name}
    done = await trio.run_process(
        [sys.executable, "-m", "treadle_cli", *arguments],
        cwd=cwd,
        env={**kept, "NO_COLOR": "1", **environment},
        capture_stdout=True,
        capture_stderr=True,
        check=False,
    )
    return subprocess.CompletedProcess(arguments, done.returncode, done.stdout.decode(), done.stderr.decode())


def statuses(result: Mapping[str, Any]) -> dict[str, str]:
    """Step id -> status, of a result as ``--json`` prints it."""
    return {step_id: step["status"] for step_id, step in result["step_results"].items()}
