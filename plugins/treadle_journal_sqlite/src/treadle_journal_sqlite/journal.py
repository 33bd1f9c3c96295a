"""The journal ``sqlite``."""

from __future__ import annotations

import os
import platform
import re
import threading
from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from treadle import EmbedResponse, Host, Journal, JournalEntry, ModelResponse, RunResult, Workflow
from treadle.contracts.journal import check_after
from treadle_journal_sqlite.encoding import Decoder, Encoder
from treadle_journal_sqlite.processes import born, is_alive
from treadle_journal_sqlite.settings import JournalSettings
from treadle_journal_sqlite.store import JournalError, Store
from treadle_journal_sqlite.waiting import Row, Waiting

__all__ = ["SqliteJournal"]

_COUNT = "SELECT count(*) FROM entries WHERE run_id = ?"
_MOST_WAITING = 20
_ROW = "(NULL, ?, ?, ?, ?, ?, ?, ?)"
_KEYS = re.compile(r'"h":"([0-9a-f]{32})"')


class SqliteJournal(Journal):
    """Runs in one SQLite file. An entry is kept when :meth:`append` returns, however the process ends after that.

    That a step has begun is kept with the entry that follows, or a tenth of a second later: nothing is lost with it, as
    a step that was cut off is begun again whether that is known or not, and what it asks of models and tools is told
    before it is asked.

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
        self._encoder = Encoder()
        self._appending = threading.Lock()
        self._waiting = Waiting(self._keep_waiting)
        self._versions: tuple[Host, dict[str, str]] | None = None
        self._me: tuple[int, str] | None = None

    def append(self, entry: JournalEntry) -> None:
        """Keep the entry, in one transaction.

        :raises JournalError: it cannot be kept.
        """
        is_root = not entry.step
        data = dict(entry.data)
        workflow = data.get("workflow")
        if is_root and isinstance(workflow, Workflow):
            data |= {"versions": self._versions_of(workflow.host), "folder": str(Path.cwd())}
        with self._appending:
            text = self._encoder.encode(entry.run_id, entry.step, data)
            row = (entry.run_id, entry.kind, entry.step, entry.attempt, entry.ordinal, entry.at, text)
            response, waiting = data.get("response"), self._waiting.rows
            if entry.kind == "step_started" and not self._encoder.longer and len(waiting) < _MOST_WAITING:
                self._waiting.add(row)
                return
            rows = [*waiting, row]
            if is_root or response is not None or self._encoder.longer:
                with self.store.writing() as db:
                    db.executemany("INSERT OR IGNORE INTO texts VALUES (?, ?)", self._encoder.longer.items())
                    seq = db.execute(*_insert(rows)).lastrowid or 0
                    if is_root:
                        self._note_run(db, entry, workflow)
                    if isinstance(response, ModelResponse | EmbedResponse):
                        self._note_cost(db, entry, response)
            else:
                seq = self.store.write(*_insert(rows))
            waiting.clear()
            self._encoder.appended(seq)
        if is_root and entry.kind == "run_finished":
            self._encoder.forget(entry.run_id)

    def _keep_waiting(self) -> None:
        with self._appending:
            if self._waiting.rows:
                self.store.write(*_insert(self._waiting.rows))
                self._waiting.rows.clear()

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

    def _note_run(self, db: Any, entry: JournalEntry, workflow: Any) -> None:
        if entry.kind == "run_started":
            db.execute(
                "INSERT OR REPLACE INTO runs VALUES (?, ?, 'running', ?, ?, NULL, 0, 0, NULL, NULL, ?, '', ?, ?)",
                (entry.run_id, workflow.name, entry.at, entry.at, workflow.digest, *self._process()),
            )
        elif entry.kind == "run_resumed":
            pid, birth = db.execute("SELECT pid, born FROM runs WHERE run_id = ?", (entry.run_id,)).fetchone()
            if pid != os.getpid() and is_alive(pid, birth):
                raise JournalError(f"run {entry.run_id} is under way in process {pid}", hint="end that one first")
            check_after(entry, db.execute(_COUNT, (entry.run_id,)).fetchone()[0] - 1)
            db.execute(
                "UPDATE runs SET status = 'running', finished = NULL, error = NULL, updated = ?, pid = ?, born = ? "
                "WHERE run_id = ?",
                (entry.at, *self._process(), entry.run_id),
            )
        elif entry.kind == "run_finished":
            result: RunResult = entry.data["result"]
            db.execute(
                "UPDATE runs SET status = ?, finished = ?, updated = ?, cost = ?, tokens = ?, duration_ms = ?, "
                "error = ?, pid = NULL WHERE run_id = ?",
                (
                    str(result.status),
                    entry.at,
                    entry.at,
                    result.total_cost_usd,
                    result.total_tokens,
                    result.total_duration_ms,
                    result.error,
                    entry.run_id,
                ),
            )

    def _note_cost(self, db: Any, entry: JournalEntry, response: ModelResponse | EmbedResponse) -> None:
        name = f"{response.provider}/{response.model}"
        db.execute(
            "UPDATE runs SET cost = cost + ?, tokens = tokens + ?, updated = ?, providers = CASE WHEN "
            "instr(providers, ?) THEN providers ELSE providers || ? END WHERE run_id = ?",
            (response.cost_usd, response.usage.total_tokens, entry.at, f" {name} ", f" {name} ", entry.run_id),
        )

    def entries(self, run_id: str) -> Iterator[JournalEntry]:
        """The entries of a run, in order.

        :raises JournalError: the file cannot be read.
        """
        self._keep_waiting()
        decoder = Decoder(self.store.text)
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


def _insert(rows: Sequence[Row]) -> tuple[str, tuple[Any, ...]]:
    """One statement for all of them, which without more is a transaction of its own."""
    return f"INSERT INTO entries VALUES {', '.join([_ROW] * len(rows))}", tuple(value for row in rows for value in row)
