"""The file: its schema, its transactions, and what can be wrong with it."""

from __future__ import annotations

import errno
import hashlib
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from treadle import TreadleError

__all__ = ["MIGRATIONS", "SCHEMA_VERSION", "JournalError", "NoJournalError", "Store"]

SCHEMA_VERSION = 1
_BUSY_MS = 2_000
"""The longest that an append waits for another process's transaction, which takes a fraction of a millisecond."""

_SCHEMA = """
CREATE TABLE runs (
    run_id TEXT PRIMARY KEY, workflow TEXT NOT NULL, status TEXT NOT NULL, started REAL NOT NULL, updated REAL NOT NULL,
    finished REAL, cost REAL, tokens INTEGER, duration_ms REAL, error TEXT, digest TEXT, providers TEXT NOT NULL,
    pid INTEGER, born TEXT
);
CREATE INDEX runs_by_start ON runs (started);
CREATE INDEX runs_by_workflow ON runs (workflow, started);
CREATE TABLE entries (
    seq INTEGER PRIMARY KEY, run_id TEXT NOT NULL, kind TEXT NOT NULL, step TEXT NOT NULL, attempt INTEGER NOT NULL,
    ordinal INTEGER NOT NULL, at REAL NOT NULL, data TEXT NOT NULL
);
CREATE INDEX entries_by_run ON entries (run_id, seq);
CREATE TABLE texts (digest BLOB PRIMARY KEY, text TEXT NOT NULL) WITHOUT ROWID;
"""


def _first_schema(db: sqlite3.Connection) -> None:
    for statement in _SCHEMA.split(";"):
        db.execute(statement)


MIGRATIONS: dict[int, Callable[[sqlite3.Connection], None]] = {0: _first_schema}
"""By the version of a file, 0 for an empty one, what makes the next version of it. It is called in a transaction, which
it must not end, and so need not be safe against being cut off or called twice."""


class JournalError(TreadleError, OSError):
    """The journal cannot be read or written: the disk is full, the file is damaged, locked, or too new."""

    exit_code = 1


class MisplacedJournalError(JournalError):
    """There can be no journal at the place that was named: it is something else, or nothing can be written there."""

    exit_code = 2


class NoJournalError(MisplacedJournalError, FileNotFoundError):
    """There is no journal, and none was to be made."""


class Store:
    """One SQLite file in WAL mode. Several processes may have it open; every transaction is one append."""

    def __init__(self, path: Path, *, power: bool = False, create: bool = True) -> None:
        self.path = path
        self._lock = threading.Lock()
        try:
            if create:
                _make_folder(path.parent)
            elif not path.is_file():
                raise NoJournalError(f"there is no journal at {path}", hint="run a workflow, or name the file")
            self._db = sqlite3.connect(path, timeout=_BUSY_MS / 1000, isolation_level=None, check_same_thread=False)
        except (OSError, sqlite3.Error) as error:
            if isinstance(error, JournalError):
                raise
            raise self._error("opened", error) from error
        try:
            with self._told("opened"):
                self._prepare(power)
        except BaseException:
            self._db.close()
            raise

    def _prepare(self, power: bool) -> None:
        db = self._db
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA wal_autocheckpoint = 4000")
        db.execute(f"PRAGMA synchronous = {'FULL' if power else 'NORMAL'}")
        if self._version() < SCHEMA_VERSION:
            with self._transaction():  # all of it, or nothing: whoever is killed in it leaves what was there
                for version in range(self._version(), SCHEMA_VERSION):  # asked again: another process may be quicker
                    MIGRATIONS[version](db)
                    db.execute(f"PRAGMA user_version = {version + 1}")
        if (version := self._version()) > SCHEMA_VERSION:
            raise JournalError(
                f"the journal {self.path} has schema {version}, and this treadle-journal-sqlite knows {SCHEMA_VERSION}",
                hint="upgrade treadle-journal-sqlite, or use another file",
            )

    def _version(self) -> int:
        version: int = self._db.execute("PRAGMA user_version").fetchone()[0]
        return version

    @contextmanager
    def _told(self, what: str) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise self._error(what, error) from error

    def _error(self, what: str, error: OSError | sqlite3.Error) -> JournalError:
        reason, remedy, is_misplaced = _cause(error)
        kind = MisplacedJournalError if is_misplaced and what == "opened" else JournalError
        return kind(f"the journal {self.path} cannot be {what}: {reason}", hint=f"{remedy}, {_ELSEWHERE}")

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._db.execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """One transaction: all of it is kept, or nothing.

        :raises JournalError: it cannot be kept.
        """
        db = self._db
        with self._lock:  # and no context manager more: every entry of every run comes this way
            try:
                db.execute("BEGIN IMMEDIATE")
                yield db
                db.execute("COMMIT")
            except BaseException as error:
                if db.in_transaction:
                    db.execute("ROLLBACK")
                if isinstance(error, sqlite3.Error):
                    raise self._error("written", error) from error
                raise

    def rows(self, query: str, values: tuple[Any, ...] | list[Any] = ()) -> list[tuple[Any, ...]]:
        """What a query gives.

        :raises JournalError: the file cannot be read.
        """
        with self._lock, self._told("read"):
            return self._db.execute(query, values).fetchall()

    def write(self, statement: str, values: tuple[Any, ...]) -> int:
        """One statement that is a transaction of its own; gives the number of the row that it inserted.

        :raises JournalError: it cannot be kept.
        """
        with self._lock:
            try:
                return self._db.execute(statement, values).lastrowid or 0
            except sqlite3.Error as error:
                raise self._error("written", error) from error

    def text(self, key: str) -> str:
        """A text that was kept.

        :raises JournalError: it is not there, or another: the file is damaged.
        """
        rows = self.rows("SELECT text FROM texts WHERE digest = ?", (bytes.fromhex(key),))
        if not rows:
            raise self.damaged(f"a value is missing ({key})")
        found: str = rows[0][0]
        if hashlib.blake2b(found.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest() != key:
            raise self.damaged(f"a value is another than was kept ({key})")
        return found

    def damaged(self, what: str) -> JournalError:
        """That the file does not hold what was written to it."""
        return JournalError(f"the journal {self.path} is damaged: {what}", hint=f"{_MOVE}, {_ELSEWHERE}")

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._db.close()


_MOVE = "move it away"
_ELSEWHERE = "name another file (journal.path in treadle.yaml, or --checkpoint-dir), or run with --no-journal"
_FULL = (errno.ENOSPC, errno.EDQUOT)


def _make_folder(folder: Path) -> None:
    if folder.exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    if folder.name == ".treadle":  # of ours alone: it is no part of anybody's repository
        (folder / ".gitignore").write_text("*\n", encoding="utf-8")


def _cause(error: OSError | sqlite3.Error) -> tuple[str, str, bool]:
    """What is wrong, what to do about it, and whether the place is what is wrong: https://sqlite.org/rescode.html"""
    if isinstance(error, OSError):
        reason = error.strerror or errno.errorcode.get(error.errno or 0, str(error))
        return (reason, "free the disk", False) if error.errno in _FULL else (reason, "make it writable", True)
    reason = str(error)
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # without what an extended code adds
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return "another process holds it", "wait for that one", False
    if code == sqlite3.SQLITE_FULL:
        return reason, "free the disk", False
    if code == sqlite3.SQLITE_IOERR:
        return reason, "look after the disk", False
    if code in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM):
        return reason, "make it writable", True
    return reason, _MOVE, code == sqlite3.SQLITE_NOTADB
