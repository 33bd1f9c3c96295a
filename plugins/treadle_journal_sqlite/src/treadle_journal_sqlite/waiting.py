"""Entries that need not be kept at once: they go with the next one, or by themselves a moment later."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

__all__ = ["Waiting"]

_SECONDS = 0.1
Row = tuple[Any, ...]


class Waiting:
    """Rows that wait to be written.

    :param write: writes what waits. Called in a thread, :data:`_SECONDS` after something has begun to wait, unless it
        was taken before; what it raises is raised again by whoever writes next, as the rows are still there.
    """

    def __init__(self, write: Callable[[], None]) -> None:
        self.rows: list[Row] = []
        self._write = write
        self._some = threading.Event()
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def add(self, row: Row) -> None:
        """Let a row wait. To be called with the lock under which rows are taken."""
        self.rows.append(row)
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="treadle journal", daemon=True)
            self._thread.start()
        self._some.set()

    def close(self) -> None:
        """End the thread. What still waits is written by then, or by the caller."""
        self._closed.set()
        self._some.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while self._some.wait():
            self._some.clear()  # before the other is looked at, or a close() in between would never be heard of
            if self._closed.wait(_SECONDS):
                return
            try:
                self._write()
            except OSError:
                continue  # whoever writes next is told
