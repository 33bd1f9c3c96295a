"""The run journal on disk.

.. code-block:: python

    async with treadle.open(journal=SqliteJournal("runs.db")) as session:
        result = await session.resume(run_id)

The names are loaded when they are touched: every command of Treadle imports this package for its plugin's sake.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from treadle_journal_sqlite.journal import SqliteJournal
    from treadle_journal_sqlite.settings import JournalSettings
    from treadle_journal_sqlite.store import JournalError

__all__ = ["JournalError", "JournalSettings", "SqliteJournal"]

_HOME_OF = {"JournalError": "store", "JournalSettings": "settings", "SqliteJournal": "journal"}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'treadle_journal_sqlite' has no attribute '{name}'")
    return getattr(import_module(f"treadle_journal_sqlite.{_HOME_OF[name]}"), name)
