"""The journal of sessions that keep none: entries in memory, of the latest runs only; and waiting for a journal."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING

import trio

from treadle.contracts.journal import Journal, JournalEntry, check_after

if TYPE_CHECKING:
    from treadle._engine.run import Run

__all__ = ["MemoryJournal", "settle"]


_FINISHED_RUNS_KEPT = 16


class MemoryJournal(Journal):
    """Keeps the entries of every run under way and of the latest finished ones: a long session does not grow."""

    outlives_process = False

    def __init__(self) -> None:
        self._runs: dict[str, list[JournalEntry]] = {}
        self._finished: deque[str] = deque()

    def append(self, entry: JournalEntry) -> None:
        """Keep the entry."""
        kept = self._runs.setdefault(entry.run_id, [])
        if entry.kind == "run_resumed":
            check_after(entry, len(kept))
        kept.append(entry)
        if entry.kind == "run_finished" and not entry.step:
            self._finished.append(entry.run_id)
            if len(self._finished) > _FINISHED_RUNS_KEPT:
                self._runs.pop(self._finished.popleft(), None)

    def entries(self, run_id: str) -> Iterator[JournalEntry]:
        """The entries of a run, in order."""
        return iter(tuple(self._runs.get(run_id, ())))


async def settle(run: Run) -> None:
    """Wait until what was appended is kept. Whoever is cancelled meanwhile does not lose what was paid for."""
    if not run.session.waits_for_journal:
        return
    root = run._root
    try:
        with trio.CancelScope(shield=True):
            await run.session.journal.settle()
    except Exception as error:
        root._unrecorded = root._unrecorded or error
        root._scope.cancel()
        raise
