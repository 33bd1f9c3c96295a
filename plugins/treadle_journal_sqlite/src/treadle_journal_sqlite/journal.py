"""The journal ``sqlite``."""

from __future__ import annotations

import os
import platform
import re
import threading
from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, Self

from treadle import ConfigurationError, Host, Journal, JournalEntry, RunResult, Workflow
from treadle.contracts.journal import check_after
from treadle_journal_sqlite.encoding import Decoder, Encoder
from treadle_journal_sqlite.processes import born, is_alive
from treadle_journal_sqlite.settings import JournalSettings
from treadle_journal_sqlite.store import Store
from treadle_journal_sqlite.waiting import Row, Statement, Waiting

__all__ = ["SqliteJournal"]

_AT_ONCE = ("run_resumed", "answered")
_MOST_WAITING = 1_000
_MOST_AT_ONCE = 20
"""Rows of one statement."""

_COUNT = "SELECT count(*) FROM entries WHERE run_id = ?"
_ANSWERED_SINCE = (
    "SELECT count(*) FROM (SELECT kind FROM entries WHERE run_id = ? ORDER BY seq LIMIT -1 OFFSET ?) "
    "WHERE kind = 'answered'"
)
_NOTE_START = "INSERT OR REPLACE INTO runs VALUES (?, ?, 'running', ?, ?, NULL, 0, 0, NULL, NULL, ?, '', ?, ?)"
_NOTE_COST = (
    "UPDATE runs SET cost = cost + ?, tokens = tokens + ?, updated = ?, providers = CASE WHEN "
    "instr(providers, ?) THEN providers ELSE providers || ? END WHERE run_id = ?"
)
_NOTE_END = (
    "UPDATE runs SET status = ?, finished = ?, updated = ?, cost = ?, tokens = ?, duration_ms = ?, "
    "error = ?, pid = NULL WHERE run_id = ?"
)
_ROW = "(NULL, ?, ?, ?, ?, ?, ?, ?)"
_KEYS = re.compile(r'"h":"([0-9a-f]{32})"')


class SqliteJournal(Journal):
    """Runs in one SQLite file. An entry is kept when :meth:`append` returns, however the process ends after that.

    That a step has begun is kept with the entry that follows, or a tenth of a second later: nothing is lost with it, as
    a step that was cut off is begun again whether that is known or not, and what it asks of models and tools is told
    before it is asked.

    Where a session awaits :meth:`settle` and has several runs under way, what they append is kept together, in one
    transaction: when that is awaited, or a tenth of a second later.

    :param settings: where the file is, as ``JournalSettings`` or a path.
    :param create: whether to make the file where there is none.
    :raises JournalError: it cannot be opened, or is of a newer version.
    """

    settings_model = JournalSettings

    def __init__(
        self, settings: JournalSettings | str | os.PathLike[str] | None = None, *, create: bool = True
    ) -> None:
        if not isinstance(settings, JournalSettings):
            settings = JournalSettings() if settings is None else JournalSettings(path=Path(settings))
        self.store = Store(settings.path, power=settings.durable == "power", create=create)
        self.is_settled = True
        self._is_awaited = False
        self._under_way: set[str] = set()
        self._encoder = Encoder()
        self._appending = threading.Lock()
        self._waiting = Waiting(self._keep_waiting)
        self._appended = self._owed = self._kept = 0
        self._versions: tuple[Host, dict[str, str]] | None = None
        self._me: tuple[int, str] | None = None

    @classmethod
    def existing(cls, *settings: JournalSettings | str | os.PathLike[str]) -> Self:
        """The journal in a file that is there already.

        :raises NoJournalError: there is none.
        :raises JournalError: it cannot be opened.
        """
        return cls(*settings, create=False)

    def will_settle(self) -> None:
        """Let entries wait from now on."""
        self._is_awaited = True

    def append(self, entry: JournalEntry) -> None:
        """Keep the entry, or let it wait for those of other runs.

        :raises JournalError: it cannot be kept.
        """
        kind, is_root = entry.kind, not entry.step
        data, workflow = entry.data, entry.data.get("workflow")
        if is_root and isinstance(workflow, Workflow):
            data = {**data, "versions": self._versions_of(workflow.host), "folder": os.getcwd()}  # noqa: PTH109  # quicker
        with self._appending:
            text = self._encoder.encode(entry.run_id, entry.step, data)
            row = (entry.run_id, kind, entry.step, entry.attempt, entry.ordinal, entry.at, text)
            notes = self._notes(entry)
            self._waiting.add(row, self._encoder.longer, self._encoder.asked, notes)
            self._appended += 1
            if is_root and kind in ("run_started", "run_resumed"):
                self._under_way.add(entry.run_id)
            may_wait = kind == "step_started" and not self._encoder.longer
            if not may_wait and len(self._under_way) > 1 and self._is_awaited and kind not in _AT_ONCE:
                may_wait, self._owed, self.is_settled = True, self._appended, False
            if may_wait and len(self._waiting.rows) < _MOST_WAITING:
                self._waiting.begin()
            else:
                try:
                    self._flush(entry)
                except BaseException:
                    self._waiting.drop_last(notes)
                    raise
            if is_root and kind == "run_finished":
                self._under_way.discard(entry.run_id)
                self._encoder.forget(entry.run_id)

    async def settle(self) -> None:
        """Wait until what was appended is kept, together with what other runs append meanwhile.

        :raises JournalError: it cannot be kept.
        """
        owed = self._owed
        if self._kept < owed:
            import trio  # not for the commands that only read

            await trio.lowlevel.cancel_shielded_checkpoint()
            if self._kept < owed:
                self._keep_waiting()

    def _keep_waiting(self) -> None:
        with self._appending:
            if self._waiting.rows:
                self._flush()

    def _flush(self, last: JournalEntry | None = None) -> None:
        """Write what waits in one transaction; ``last`` is the last of it, where it was appended just now."""
        waiting = self._waiting
        rows, at_once = waiting.rows, last if last is not None and last.kind in _AT_ONCE else None
        if waiting.texts or waiting.notes or at_once or len(rows) > _MOST_AT_ONCE:
            with self.store.writing() as db:
                if waiting.texts:
                    db.executemany("INSERT OR IGNORE INTO texts VALUES (?, ?)", waiting.texts.items())
                if len(rows) > _MOST_AT_ONCE:
                    db.executemany(f"INSERT INTO entries VALUES {_ROW}", rows)
                    seq = db.execute("SELECT last_insert_rowid()").fetchone()[0]
                else:
                    seq = db.execute(*_insert(rows)).lastrowid or 0
                for note in waiting.notes:
                    db.execute(*note)
                if at_once is not None and at_once.kind == "run_resumed":
                    self._note_resumed(db, at_once)
                elif at_once is not None:
                    _check_answered(db, at_once)
        else:
            seq = self.store.write(*_insert(rows))
        first = seq - len(rows) + 1
        for place, asked in waiting.asked:
            if asked[0] in self._under_way:
                self._encoder.appended(asked, first + place)
        waiting.clear()
        self._kept, self.is_settled = self._appended, True

    def _versions_of(self, host: Host) -> dict[str, str]:
        """Of the kernel, Python and every plugin's package; looked up once for a host."""
        if self._versions is None or self._versions[0] is not host:
            found = {"python": platform.python_version(), "treadle-kernel": version("treadle-kernel")}
            self._versions = host, found | host.versions()
        return self._versions[1]

    def _process(self) -> tuple[int, str]:
        pid = os.getpid()
        if self._me is None or self._me[0] != pid:
            self._me = pid, born(pid)
        return self._me

    def _notes(self, entry: JournalEntry) -> list[Statement]:
        """What an entry changes in the list of runs."""
        data, run_id, at = entry.data, entry.run_id, entry.at
        if entry.kind == "model_call_finished":
            response = data.get("response")
            if response is None:
                return []
            name = f" {response.provider}/{response.model} "
            return [(_NOTE_COST, (response.cost_usd, response.usage.total_tokens, at, name, name, run_id))]
        if entry.step:
            return []
        if entry.kind == "run_started":
            workflow = data["workflow"]
            return [(_NOTE_START, (run_id, workflow.name, at, at, workflow.digest, *self._process()))]
        if entry.kind == "run_finished":
            result: RunResult = data["result"]
            cost, tokens = result.total_cost_usd, result.total_tokens
            told = (str(result.status), at, at, cost, tokens, result.total_duration_ms, result.error, run_id)
            return [(_NOTE_END, told)]
        return []

    def _note_resumed(self, db: Any, entry: JournalEntry) -> None:
        pid, birth = db.execute("SELECT pid, born FROM runs WHERE run_id = ?", (entry.run_id,)).fetchone()
        if pid != os.getpid() and is_alive(pid, birth):
            raise ConfigurationError(f"run {entry.run_id} is under way in process {pid}", hint="end that one first")
        check_after(entry, db.execute(_COUNT, (entry.run_id,)).fetchone()[0] - 1)
        db.execute(
            "UPDATE runs SET status = 'running', finished = NULL, error = NULL, updated = ?, pid = ?, born = ? "
            "WHERE run_id = ?",
            (entry.at, *self._process(), entry.run_id),
        )

    def entries(self, run_id: str) -> Iterator[JournalEntry]:
        """The entries of a run, in order.

        :raises JournalError: the file cannot be read.
        """
        self._keep_waiting()
        decoder = Decoder(self.store.text, self.store.damaged)
        query = "SELECT seq, kind, step, attempt, ordinal, at, data FROM entries WHERE run_id = ? ORDER BY seq"
        for seq, kind, step, attempt, ordinal, at, text in self.store.rows(query, (run_id,)):
            data = decoder.decode(seq, kind, step, text)
            yield JournalEntry(run_id, kind, step, attempt, ordinal, data, at)
        self._encoder.kept = decoder.document

    def unfinished(self) -> Iterable[str]:
        """Ids of runs that are paused, under way or were interrupted, the longest untouched first."""
        query = "SELECT run_id FROM runs WHERE status IN ('paused', 'running') ORDER BY updated, rowid"
        return [run_id for (run_id,) in self.store.rows(query)]

    def delete(self, run_ids: Sequence[str]) -> None:
        """Delete runs, and the values that no other run has.

        :raises JournalError: the file cannot be written.
        """
        with self.store.writing() as db:
            for run_id in run_ids:
                db.execute("DELETE FROM entries WHERE run_id = ?", (run_id,))
                db.execute("DELETE FROM runs WHERE run_id = ?", (run_id,))
            used = {key for (text,) in db.execute("SELECT data FROM entries") for key in _KEYS.findall(text)}
            for (digest,) in db.execute("SELECT digest FROM texts").fetchall():
                if digest.hex() not in used:
                    db.execute("DELETE FROM texts WHERE digest = ?", (digest,))

    def close(self) -> None:
        """Close the file.

        :raises JournalError: what was still to be kept cannot be.
        """
        self._waiting.close()
        try:
            self._keep_waiting()
        finally:
            self.store.close()


def _check_answered(db: Any, entry: JournalEntry) -> None:
    """Refuse an answer where another process has recorded one since the run was read."""
    after = entry.data.get("after")
    if after is not None:
        since: int = db.execute(_ANSWERED_SINCE, (entry.run_id, after)).fetchone()[0] - 1
        check_after(entry, after + since)


def _insert(rows: Sequence[Row]) -> tuple[str, tuple[Any, ...]]:
    """One statement for all of them, which without more is a transaction of its own."""
    return f"INSERT INTO entries VALUES {', '.join([_ROW] * len(rows))}", tuple(value for row in rows for value in row)
