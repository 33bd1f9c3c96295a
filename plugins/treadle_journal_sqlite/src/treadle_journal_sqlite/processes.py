"""Whether the process that recorded a run is still there."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["born", "is_alive"]


def born(pid: int) -> str:
    """What tells a process from a later one of the same number, where the system says it (Linux, proc(5), field 22)."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""
    return text.rpartition(")")[2].split()[19]


def is_alive(pid: int | None, birth: str) -> bool:
    """Whether that very process runs."""
    if pid is None:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True  # it is somebody else's
    return born(pid) == birth
