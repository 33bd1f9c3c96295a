"""Whether the process that recorded a run is still there."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["born", "is_alive"]


_ENDED = ("Z", "X", "x")
"""A process in these states (proc(5), field 3) does nothing more, though its parent has not asked for its exit code."""


def born(pid: int) -> str:
    """What tells a process from a later one of the same number, where the system says it (Linux, proc(5), field 22)."""
    fields = _fields(pid)
    return fields[19] if fields else ""


def _fields(pid: int) -> list[str]:
    """What the system says of a process from its state on; nothing where there is none, or the system does not tell."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return []
    return text.rpartition(")")[2].split()


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
    fields = _fields(pid)
    return (fields[19] == birth and fields[0] not in _ENDED) if fields else not birth
