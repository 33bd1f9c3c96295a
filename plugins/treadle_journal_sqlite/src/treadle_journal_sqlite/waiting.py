"""Entries that need not be kept at once: they go with the next ones, or by themselves a moment later."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

from treadle_journal_sqlite.encoding import Asked

__all__ = ["Row", "Statement", "Waiting"]

_SECONDS = 0.1
Row = tuple[Any, ...]
Statement = tuple[str, tuple[Any, ...]]


class Waiting:
    """What waits to be written. To be used with the lock under which it is taken.

    :param write: writes what waits. Called in a thread, :data:`_SECONDS` after something has begun to wait, unless it
        was taken before; what it raises is raised again by whoever writes next, as the rows are still there.
    :ivar rows: of the entries.
    :ivar texts: the long values in them, by digest.
    :ivar asked: what they ask of models, by the place in ``rows``.
    :ivar notes: statements that go with them, in order.
    """

    def __init__(self, write: Callable[[], None]) -> None:
        self.rows: list[Row] = []
        self.texts: dict[bytes, str] = {}
        self.asked: list[tuple[int, Asked]] = []
        self.notes: list[Statement] = []
        self._write = write
        self._some = threading.Event()
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def add(self, row: Row, texts: Mapping[bytes, str], asked: Asked | None, notes: list[Statement]) -> None:
        """Put an entry behind the others."""
        if asked is not None:
            self.asked.append((len(self.rows), asked))
        self.rows.append(row)
        self.texts.update(texts)
        self.notes += notes

    def drop_last(self, notes: list[Statement]) -> None:
        """Take the last entry back, which came with these notes; its texts do no harm."""
        self.rows.pop()
        if self.asked and self.asked[-1][0] == len(self.rows):
            self.asked.pop()
        del self.notes[len(self.notes) - len(notes) :]

    def clear(self) -> None:
        """All of it has been written."""
        self.rows, self.texts, self.asked, self.notes = [], {}, [], []

    def begin(self) -> None:
        """See that what waits is written a moment later."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="treadle journal", daemon=True)
            self._thread.start()
        if not self._some.is_set():
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
