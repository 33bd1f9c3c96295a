"""A journal of an older schema becomes one of today's where it stands, whole or not at all."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import crash_world
import pytest
from crash_world import Log

from treadle_journal_sqlite import JournalError, SqliteJournal, store
from treadle_journal_sqlite.views import list_runs

KILLED = """\
import os, signal, sys
from treadle_journal_sqlite import SqliteJournal, store

def half(db):
    db.execute("ALTER TABLE runs ADD COLUMN note TEXT")
    db.execute("UPDATE runs SET workflow = 'half'")
    os.kill(os.getpid(), signal.SIGKILL)

store.SCHEMA_VERSION, store.MIGRATIONS[1] = 2, half
SqliteJournal(sys.argv[1])
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A journal of version 1, with a run in it."""
    file = tmp_path / "journal.db"
    crash_world.run(SqliteJournal(file), Log(tmp_path / "log"))
    return file


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """What was migrated, where today's schema is a third one and each step to it makes something of its own."""
    steps: list[int] = []

    def second(db: sqlite3.Connection) -> None:
        steps.append(1)
        db.execute("ALTER TABLE runs ADD COLUMN note TEXT")

    def third(db: sqlite3.Connection) -> None:
        steps.append(2)
        db.execute("UPDATE runs SET note = 'kept'")

    monkeypatch.setattr(store, "SCHEMA_VERSION", 3)
    monkeypatch.setattr(store, "MIGRATIONS", {**store.MIGRATIONS, 1: second, 2: third})
    return steps


def asked(file: Path, query: str) -> list[tuple[object, ...]]:
    db = sqlite3.connect(file)
    found = db.execute(query).fetchall()
    db.close()
    return found


def test_every_version_before_todays_has_a_step_to_the_next() -> None:
    assert sorted(store.MIGRATIONS) == list(range(store.SCHEMA_VERSION))


def test_an_older_journal_is_migrated_step_by_step_and_its_runs_are_there(file: Path, made: list[int]) -> None:
    journal = SqliteJournal(file)
    assert made == [1, 2]
    assert asked(file, "PRAGMA user_version") == [(3,)]
    assert asked(file, "SELECT note FROM runs") == [("kept",)]
    assert [run["status"] for run in list_runs(journal)] == ["success"]
    assert [entry.kind for entry in journal.entries("r")][-1] == "run_finished"
    journal.close()
    SqliteJournal(file).close()
    assert made == [1, 2], "and once only"


def test_a_new_journal_is_made_by_the_same_steps(tmp_path: Path, made: list[int]) -> None:
    SqliteJournal(tmp_path / "new.db").close()
    assert made == [1, 2]
    assert asked(tmp_path / "new.db", "PRAGMA user_version") == [(3,)]


def test_a_step_that_fails_leaves_the_journal_as_it_was(
    file: Path, made: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setitem(store.MIGRATIONS, 2, lambda db: db.execute("UPDATE missing SET a = 1"))
        with pytest.raises(JournalError, match="cannot be opened: no such table: missing"):
            SqliteJournal(file)
    assert asked(file, "PRAGMA user_version") == [(1,)]
    assert "note" not in [row[1] for row in asked(file, "PRAGMA table_info(runs)")], "the step before it neither"
    SqliteJournal(file).close()
    assert asked(file, "SELECT note FROM runs") == [("kept",)]


def test_a_process_that_is_killed_in_a_step_leaves_the_journal_readable_as_it_was(file: Path) -> None:
    killed = subprocess.run([sys.executable, "-c", KILLED, str(file)], check=False)
    assert killed.returncode == -signal.SIGKILL
    journal = SqliteJournal(file)  # by the older version
    assert [run["status"] for run in list_runs(journal, workflow="outer")] == ["success"]
    assert [entry.kind for entry in journal.entries("r")][-1] == "run_finished"
    journal.close()
    assert asked(file, "PRAGMA user_version") == [(1,)]


def test_of_several_that_open_it_at_once_one_migrates_and_all_can_use_it(
    file: Path, made: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    second = store.MIGRATIONS[1]
    all_there = threading.Barrier(4)
    begun = threading.Event()

    def slow(db: sqlite3.Connection) -> None:
        begun.set()
        all_there.wait(10)  # the others ask for the version, and for the file, meanwhile
        second(db)

    monkeypatch.setitem(store.MIGRATIONS, 1, slow)
    found: list[int] = []

    def open_it(is_first: bool) -> None:
        if not is_first:
            begun.wait(10)
            all_there.wait(10)
        journal = SqliteJournal(file)
        found.append(len(list_runs(journal)))
        journal.close()

    threads = [threading.Thread(target=open_it, args=(number == 0,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert found == [1, 1, 1, 1]
    assert made == [1, 2]
