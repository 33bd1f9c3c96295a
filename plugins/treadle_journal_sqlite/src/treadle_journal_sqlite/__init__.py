"""The run journal on disk.

.. code-block:: python

    async with treadle.open(journal=SqliteJournal("runs.db")) as session:
        result = await session.resume(run_id)
"""

from __future__ import annotations

from treadle_journal_sqlite.journal import SqliteJournal
from treadle_journal_sqlite.settings import JournalSettings
from treadle_journal_sqlite.store import JournalError

__all__ = ["JournalError", "JournalSettings", "SqliteJournal"]
