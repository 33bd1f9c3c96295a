"""What a process holds, before work and after it."""

from __future__ import annotations

import gc
import os
import threading
from pathlib import Path

import pytest

__all__ = ["Growth", "needs_proc"]

needs_proc = pytest.mark.skipif(not Path("/proc/self/statm").is_file(), reason="memory is read from /proc")


class Growth:
    """What this process holds now, to be held against what it holds later."""

    def __init__(self) -> None:
        self.memory = _memory()
        self.objects = len(gc.get_objects())
        self.descriptors = _descriptors()
        self.threads = threading.active_count()

    def check(self) -> None:
        """Nothing has grown: memory by less than a tenth, objects by less than a fiftieth, all else not at all."""
        assert _memory() - self.memory < 0.1 * self.memory
        assert len(gc.get_objects()) - self.objects < 0.02 * self.objects
        assert _descriptors() <= self.descriptors
        assert threading.active_count() <= self.threads


def _memory() -> int:
    """Bytes that the process has in memory, after what nobody holds has been let go."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))
