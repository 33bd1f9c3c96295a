"""What treadle-journal-sqlite offers."""

from __future__ import annotations

from collections.abc import Mapping

from treadle import Offer, hookimpl


@hookimpl
def treadle_journals() -> Mapping[str, Offer]:
    """The journal ``sqlite``."""
    return {"sqlite": Offer("treadle_journal_sqlite.journal:SqliteJournal", "Runs in one SQLite file on this machine")}
