"""What is listed of runs."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from treadle_journal_sqlite import SqliteJournal, views
from treadle_journal_sqlite.processes import born
from treadle_journal_sqlite.views import list_runs


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[SqliteJournal]:
    """A journal of 300 runs: ended ones, and some that say that they run, of which every other one does."""
    journal = SqliteJournal(tmp_path / "journal.db")
    statuses = ["success", "failed", "running", "paused", "running"]
    process = os.getpid(), born(os.getpid())
    rows = [
        (f"r{number}", statuses[number % 5], number, number, *(process if number % 5 == 2 else (None, None)))
        for number in range(300)
    ]
    with sqlite3.connect(tmp_path / "journal.db") as db:
        db.executemany("INSERT INTO runs VALUES (?, 'w', ?, ?, ?, NULL, 0, 0, NULL, NULL, 'd', '', ?, ?)", rows)
    db.close()
    yield journal
    journal.close()


@pytest.mark.parametrize(
    ("status", "first"),
    [("success", 295), ("failed", 296), ("running", 297), ("paused", 298), ("interrupted", 299), ("timeout", None)],
)
def test_runs_of_a_status_are_the_newest_that_stand_so(journal: SqliteJournal, status: str, first: int | None) -> None:
    found = list_runs(journal, status=status, limit=3)
    wanted = [] if first is None else [f"r{first - 5 * each}" for each in range(3)]
    assert [run["run_id"] for run in found] == wanted
    assert {run["status"] for run in found} <= {status}


def test_of_ended_runs_no_more_are_read_than_are_listed(
    journal: SqliteJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[object] = []
    made = views._run
    monkeypatch.setattr(views, "_run", lambda row: read.append(row) or made(row))
    assert len(list_runs(journal, status="failed", limit=3)) == 3
    assert len(read) == 3
