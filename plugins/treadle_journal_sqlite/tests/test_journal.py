"""The file: what it withstands, what it refuses, and how it grows."""

from __future__ import annotations

import errno
import sqlite3
import threading
import time
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any

import crash_world
import pytest
import trio
from crash_world import Log

import treadle
from treadle import (
    ConfigurationError,
    JournalEntry,
    MemoryJournal,
    Message,
    ModelRequest,
    ModelResponse,
    Pending,
    Record,
    Step,
    StepContext,
    StepOutcome,
)
from treadle_journal_sqlite import JournalError, JournalSettings, SqliteJournal, encoding
from treadle_journal_sqlite.views import list_runs


def test_what_is_read_is_what_was_appended(tmp_path):
    """Every request and response of tool loops, children included, comes back equal."""
    kept: list[JournalEntry] = []

    class Both(MemoryJournal):
        def append(self, entry: JournalEntry) -> None:
            kept.append(entry)
            disk.append(entry)

    disk = SqliteJournal(tmp_path / "journal.db")
    crash_world.run(Both(), Log(tmp_path / "log"))
    read = list(disk.entries("r"))
    disk.close()
    assert len(read) == len(kept)
    for mine, theirs in zip(kept, read, strict=True):
        assert (mine.kind, mine.step, mine.attempt, mine.ordinal) == (
            theirs.kind, theirs.step, theirs.attempt, theirs.ordinal,
        )  # fmt: skip
        for name in ("request", "response", "arguments"):
            assert mine.data.get(name) == theirs.data.get(name)
        if mine.kind == "step_finished":
            assert mine.data["result"] == theirs.data["result"]
            assert mine.data["outcome"].value == theirs.data["outcome"].value
    assert read[-1].data["result"].to_json() == kept[-1].data["result"].to_json()


def test_a_tool_loop_grows_with_its_text_and_not_with_the_square_of_it(tmp_path):
    def size(rounds: int) -> int:
        file = tmp_path / f"{rounds}.db"
        journal = SqliteJournal(file)
        steps = [{"id": "left", "type": "loops", "rounds": rounds, "output": "out"}]
        crash_world.run(journal, Log(tmp_path / "log"), {**crash_world.DOCUMENT, "steps": steps})
        with closing(sqlite3.connect(file)) as db:
            texts = db.execute("SELECT sum(length(data)) FROM entries").fetchone()[0]
            texts += db.execute("SELECT sum(length(text)) FROM texts").fetchone()[0]
        return texts

    few, many = size(20), size(200)
    assert many < few * 11


def test_requests_and_responses_are_made_when_they_are_asked_for_in_any_order(tmp_path, monkeypatch):
    rounds = 1500  # each request builds on the one before it: more of them than calls may be below each other
    file = tmp_path / "journal.db"
    steps = [{"id": "left", "type": "loops", "rounds": rounds, "output": "out"}]
    crash_world.run(SqliteJournal(file), Log(tmp_path / "log"), {**crash_world.DOCUMENT, "steps": steps})
    journal = SqliteJournal(file)
    in_order = [entry.data["request"] for entry in journal.entries("r") if entry.kind == "model_call_started"]
    assert len(in_order) == rounds
    made: list[Any] = []
    load = encoding.load
    monkeypatch.setattr(encoding, "load", lambda kind, data: made.append(kind) or load(kind, data))
    entries = list(journal.entries("r"))
    assert treadle.Record("r", entries).steps["left"].is_done
    journal.close()
    assert not {ModelRequest, ModelResponse, Message} & set(made), "of a step that is done nobody asks them"
    backwards = [entry.data["request"] for entry in reversed(entries) if entry.kind == "model_call_started"]
    assert backwards[::-1] == in_order
    response = next(entry.data for entry in entries if entry.kind == "model_call_finished")
    assert isinstance(response["response"], ModelResponse)
    assert response["response"] is response["response"]
    assert "request" not in response
    with pytest.raises(KeyError):
        response["request"]


def sqlite_error(code: str) -> sqlite3.OperationalError:
    error = sqlite3.OperationalError("it says so")
    error.sqlite_errorcode = getattr(sqlite3, code)
    return error


def test_a_newer_schema_is_refused(tmp_path):
    file = tmp_path / "journal.db"
    SqliteJournal(file).close()
    db = sqlite3.connect(file)
    db.execute("PRAGMA user_version = 99")
    db.close()
    with pytest.raises(JournalError, match="has schema 99, and this treadle-journal-sqlite knows 1; upgrade"):
        SqliteJournal(file)


def test_a_file_that_is_no_database_is_refused(tmp_path):
    file = tmp_path / "journal.db"
    file.write_bytes(b"not a database at all" * 100)
    with pytest.raises(JournalError, match="cannot be opened: file is not a database"):
        SqliteJournal(file)


@pytest.mark.parametrize(
    ("error", "told", "code"),
    [
        (PermissionError(errno.EACCES, "Permission denied"), "Permission denied; make it writable, name another", 2),
        (
            FileNotFoundError(errno.ENOENT, "No such file or directory"),
            "No such file or directory; make it writable, name another",
            2,
        ),
        (OSError(errno.ENOSPC, "No space left on device"), "No space left on device; free the disk, name another", 1),
        (sqlite_error("SQLITE_CANTOPEN"), "it says so; make it writable, name another", 2),
        (sqlite_error("SQLITE_READONLY"), "it says so; make it writable, name another", 2),
        (sqlite_error("SQLITE_NOTADB"), "it says so; move it away, name another", 2),
        (sqlite_error("SQLITE_CORRUPT"), "it says so; move it away, name another", 1),
        (sqlite_error("SQLITE_FULL"), "it says so; free the disk, name another", 1),
        (sqlite_error("SQLITE_IOERR"), "it says so; look after the disk, name another", 1),
        (sqlite_error("SQLITE_BUSY"), "another process holds it; wait for that one, name another", 1),
        (sqlite3.ProgrammingError("no such table: missing"), "no such table: missing; move it away, name another", 1),
    ],
)
def test_a_journal_that_cannot_be_opened_has_the_remedy_and_the_code_of_its_cause(
    tmp_path, monkeypatch, error, told, code
):
    def refuse(*_args, **_options):
        raise error

    monkeypatch.setattr("treadle_journal_sqlite.store.sqlite3.connect", refuse)
    with pytest.raises(JournalError) as caught:
        SqliteJournal(tmp_path / "journal.db")
    assert f"journal.db cannot be opened: {told} file (journal.path in treadle.yaml, " in str(caught.value)
    assert caught.value.exit_code == code


def test_a_truncated_file_is_an_error_that_names_it(tmp_path):
    file = tmp_path / "journal.db"
    journal = SqliteJournal(file)
    crash_world.run(journal, Log(tmp_path / "log"))
    raw = file.read_bytes()
    file.write_bytes(raw[: len(raw) // 2])
    with pytest.raises(JournalError, match=r"journal\.db cannot be"):
        list(SqliteJournal(file).entries("r"))


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE entries SET data = substr(data, 1, 30) WHERE kind = 'KIND'",
        "UPDATE entries SET data = replace(data, '\"v\"', '\"w\"') WHERE kind = 'KIND'",
        "UPDATE entries SET data = 'null' WHERE kind = 'KIND'",
    ],
    ids=["cut off", "other names", "nothing"],
)
@pytest.mark.parametrize(
    "kind",
    [
        "run_started", "run_finished", "step_finished", "model_call_started", "model_call_finished",
        "tool_call_started", "tool_call_finished",
    ],
)  # fmt: skip
def test_an_entry_that_says_nothing_is_told_with_its_file(tmp_path, damage, kind):
    path = tmp_path / "journal.db"
    log = Log(tmp_path / "log")
    with closing(SqliteJournal(path)) as journal:
        crash_world.run(journal, log)
    with closing(sqlite3.connect(path)) as db, db:
        assert db.execute(damage.replace("KIND", kind)).rowcount
    with closing(SqliteJournal(path)) as journal:
        with pytest.raises(JournalError) as caught:
            [dict(each.data) for each in journal.entries("r")]  # of calls it is made when it is asked for
        assert f"the journal {path} is damaged: its entry " in caught.value.message
        assert "move it away" in (caught.value.hint or "")


def test_a_long_value_that_is_another_than_was_kept_is_told(tmp_path):
    path = tmp_path / "journal.db"
    with closing(SqliteJournal(path)) as journal:
        crash_world.run(journal, Log(tmp_path / "log"))
    with closing(sqlite3.connect(path)) as db, db:
        assert db.execute("UPDATE texts SET text = replace(text, 'outer', 'other')").rowcount
    with closing(SqliteJournal(path)) as journal, pytest.raises(JournalError, match="a value is another than was kept"):
        list(journal.entries("r"))


def test_a_full_disk_ends_the_run_and_what_was_recorded_stays(tmp_path):
    journal = SqliteJournal(tmp_path / "journal.db")
    pages = journal.store.rows("PRAGMA page_count")[0][0]
    journal.store.rows(f"PRAGMA max_page_count = {pages + 2}")
    log = Log(tmp_path / "log")
    with pytest.raises(JournalError, match="cannot be written: database or disk is full"):
        crash_world.run(journal, log)
    result = crash_world.resume(SqliteJournal(tmp_path / "journal.db"), log)
    while result.status == "paused":
        assume = {each.call_id or "": "not-done" for each in result.pending}
        result = crash_world.resume(SqliteJournal(tmp_path / "journal.db"), log, assume)
    assert result.status == "success"


def test_a_lock_that_another_process_holds_is_not_waited_for_without_end(tmp_path, monkeypatch):
    monkeypatch.setattr("treadle_journal_sqlite.store._BUSY_MS", 10)
    journal = SqliteJournal(tmp_path / "journal.db")
    other = sqlite3.connect(tmp_path / "journal.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        with pytest.raises(JournalError, match="cannot be written: another process holds it"):
            crash_world.run(journal, Log(tmp_path / "log"))
    finally:
        other.close()


def test_two_open_journals_record_at_once(tmp_path):
    one, other = SqliteJournal(tmp_path / "journal.db"), SqliteJournal(tmp_path / "journal.db")

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            for number, journal in enumerate((one, other)):
                nursery.start_soon(run_once, journal, f"r{number}")

    async def run_once(journal: SqliteJournal, run_id: str) -> None:
        async with treadle.open(journal=journal, **crash_world.extras(Log(tmp_path / "log"))) as session:
            workflow = treadle.build_workflow(crash_world.DOCUMENT, host=session.host)
            result = await session.run(workflow, run_id=run_id)
            assert result.status == "success"

    trio.run(main)
    reading = SqliteJournal(tmp_path / "journal.db")
    assert {run["run_id"] for run in list_runs(reading)} == {"r0", "r1"}
    assert [len(list(reading.entries(each))) for each in ("r0", "r1")] == [54, 54]
    reading.close()


def test_durable_power_waits_for_the_disk_and_process_does_not(tmp_path):
    for durable, expected in (("process", 1), ("power", 2)):
        journal = SqliteJournal(JournalSettings(path=tmp_path / durable, durable=durable))
        assert journal.store.rows("PRAGMA synchronous") == [(expected,)]
        journal.close()


def test_deleted_runs_are_gone_with_the_values_that_only_they_had(tmp_path):
    file = tmp_path / "journal.db"
    crash_world.run(SqliteJournal(file), Log(tmp_path / "log"))
    journal = SqliteJournal(file)
    assert journal.store.rows("SELECT count(*) FROM texts")[0][0] > 0
    journal.delete(["r"])
    assert list_runs(journal) == []
    assert journal.store.rows("SELECT (SELECT count(*) FROM texts), (SELECT count(*) FROM entries)") == [(0, 0)]
    journal.close()


@pytest.mark.parametrize("answer", ["done", "not-done"])
def test_a_once_call_of_unknown_outcome_pauses_and_goes_by_the_answer(tmp_path, answer):
    file, log = tmp_path / "journal.db", Log(tmp_path / "log")
    steps = [{"id": "mail", "type": "sends", "output": "mail"}]
    document: dict[str, Any] = {**crash_world.DOCUMENT, "steps": steps}
    with pytest.raises(crash_world.Crash):
        crash_world.run(crash_world.Crashing(SqliteJournal(file), 3), log, document)  # the call has begun
    assert not log.counts()
    paused = crash_world.resume(SqliteJournal(file), log)
    assert paused.status == "paused"
    (pending,) = paused.pending
    assert (pending.call_id, pending.tool_name, pending.choices) == ("mail-send", "send", ("done", "not-done"))
    assert pending.question == "the run was interrupted while tool 'send' ran; did it have its effect?"
    with pytest.raises(ConfigurationError, match="no calls 'other' of unknown outcome"):
        crash_world.resume(SqliteJournal(file), log, {"other": "done"})
    result = crash_world.resume(SqliteJournal(file), log, {"mail-send": answer})
    assert result.status == "success"
    assert log.counts() == ({} if answer == "done" else {"tool send mail": 1})


def test_a_failed_step_is_tried_anew_and_its_attempts_and_cost_go_on(tmp_path):
    class Fails(treadle.Step):
        async def run(self, ctx: Any) -> StepOutcome:
            await ctx.complete(treadle.ModelRequest(model="m", messages=(crash_world.user("x"),), key=self.id))
            if not mended:
                raise treadle.StepError("broken")
            return StepOutcome(value=ctx.attempt)

    mended: list[bool] = []
    log = Log(tmp_path / "log")
    extras = crash_world.extras(log)
    extras["steps"] |= {"fails": Fails}
    steps = [{"id": "a", "type": "fails", "output": "a"}, {"id": "b", "type": "sends", "depends_on": ["a"]}]

    async def main(how: str) -> treadle.RunResult:
        async with treadle.open(journal=SqliteJournal(tmp_path / "journal.db"), **extras) as session:
            if how == "resume":
                return await session.resume("r")
            document = {**crash_world.DOCUMENT, "steps": steps}
            return await session.run(treadle.build_workflow(document, host=session.host), run_id="r")

    failed = trio.run(main, "run")
    assert failed.status == "failed"
    mended.append(True)
    result = trio.run(main, "resume")
    assert result.status == "success"
    assert result.step_results["a"].attempts == 2
    assert (result.total_tokens, result.total_cost_usd) == (6, 0.5)
    assert result.total_duration_ms > failed.total_duration_ms


def test_that_a_step_has_begun_is_kept_with_the_next_entry_or_a_moment_later(tmp_path):
    file = tmp_path / "journal.db"
    journal, other = SqliteJournal(file), SqliteJournal(file)
    begun = JournalEntry("r", "step_started", step="a", attempt=1)
    journal.append(begun)
    journal.append(JournalEntry("r", "tool_call_started", step="a", attempt=1, data={"tool_name": "t"}))
    assert [entry.kind for entry in other.entries("r")] == ["step_started", "tool_call_started"]
    journal.append(JournalEntry("s", "step_started", step="b", attempt=1))
    ends = time.monotonic() + 30
    while not list(other.entries("s")):
        assert time.monotonic() < ends
        time.sleep(0.01)
    journal.append(JournalEntry("t", "step_started", step="c", attempt=1))
    journal.close()
    assert [entry.step for entry in other.entries("t")] == ["c"]
    other.close()
    assert not [each for each in threading.enumerate() if each.name == "treadle journal"]


def test_a_journal_that_is_closed_just_as_a_moment_ends_is_closed(tmp_path, monkeypatch):
    journal = SqliteJournal(tmp_path / "journal.db")
    waiting = journal._waiting
    look = waiting._closed.wait

    def wait(seconds: float) -> bool:
        found = look(0)
        waiting._closed.set()  # as close() does it in another thread
        waiting._some.set()
        return found

    monkeypatch.setattr(waiting._closed, "wait", wait)
    journal.append(JournalEntry("r", "step_started", step="a", attempt=1))
    thread = waiting._thread
    assert thread is not None
    thread.join(10)
    is_over = not thread.is_alive()
    waiting._some.set()  # or nothing would end it
    assert is_over
    journal.close()


def test_what_waits_is_not_lost_where_it_cannot_be_written_yet(tmp_path, monkeypatch):
    monkeypatch.setattr("treadle_journal_sqlite.store._BUSY_MS", 1)
    file = tmp_path / "journal.db"
    journal = SqliteJournal(file)
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        journal.append(JournalEntry("r", "step_started", step="a", attempt=1))
        with pytest.raises(JournalError, match="another process holds it"):
            journal.append(JournalEntry("r", "tool_call_started", step="a", attempt=1, data={"tool_name": "t"}))
        other.execute("ROLLBACK")
    assert [entry.kind for entry in journal.entries("r")] == ["step_started"]
    journal.close()


@pytest.mark.parametrize("by", [3600.0, -3600.0], ids=["ahead", "back"])
def test_a_clock_that_is_set_meanwhile_does_not_change_how_long_a_listed_run_took(tmp_path, monkeypatch, by):
    journal = SqliteJournal(tmp_path / "journal.db")
    offset, now = [0.0], time.time
    monkeypatch.setattr(time, "time", lambda: now() + offset[0])

    class Setting(treadle.Observer):
        async def observe(self, event: Any) -> None:
            offset[0] = by

    async def main() -> None:
        workflow = treadle.parse_workflow(
            "name: x\nconfig: {provider: mock}\nsteps: [{id: a, type: llm_call, prompt: hi}, "
            "{id: b, type: llm_call, prompt: hi, depends_on: [a]}]"
        )
        async with treadle.open(journal=journal) as session:
            await session.run(workflow, observers=[Setting()])
            times = [
                datetime.fromisoformat(run[name])
                for run in list_runs(journal)
                for name in ("started_at", "finished_at")
            ]
            assert 0 <= (times[1] - times[0]).total_seconds() < 60
            await session.run(workflow)
            assert [run["status"] for run in list_runs(journal)] == ["success", "success"]

    trio.run(main)


def kinds(file: Path, run_id: str) -> list[str]:
    """What another process can read."""
    journal = SqliteJournal(file)
    found = [entry.kind for entry in journal.entries(run_id)]
    journal.close()
    return found


@pytest.fixture(scope="module")
def workflow() -> treadle.Workflow:
    steps = [{"id": "a", "type": "llm_call", "prompt": "x"}]
    return treadle.build_workflow({"name": "w", "config": {"provider": "mock"}, "steps": steps})


def begun(run_id: str, workflow: treadle.Workflow) -> JournalEntry:
    return JournalEntry(run_id, "run_started", data={"workflow": workflow, "state": {}})


def called(run_id: str) -> JournalEntry:
    return JournalEntry(run_id, "tool_call_started", step="a", attempt=1, data={"tool_name": "t"})


def answered(run_id: str) -> JournalEntry:
    return JournalEntry(run_id, "answered", data={"answers": {"gate": "yes"}, "expired": {}})


@pytest.fixture
def never_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits is not written a moment later."""
    monkeypatch.setattr("treadle_journal_sqlite.waiting._SECONDS", 1000)


def test_what_runs_append_at_once_is_kept_together_when_that_is_awaited(tmp_path, workflow, never_by_itself):
    file = tmp_path / "journal.db"
    journal = SqliteJournal(file)
    journal.will_settle()
    for run_id in ("one", "two"):
        journal.append(begun(run_id, workflow))
    assert kinds(file, "one") == ["run_started"]  # it was alone then
    assert kinds(file, "two") == []
    assert not journal.is_settled
    flushed: list[str] = []
    journal.store._db.set_trace_callback(lambda text: flushed.append(text) if text == "COMMIT" else None)

    async def calls(run_id: str) -> None:
        journal.append(called(run_id))
        await journal.settle()
        assert kinds(file, run_id) == ["run_started", "tool_call_started"]

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            for run_id in ("one", "two"):
                nursery.start_soon(calls, run_id)

    trio.run(main)
    assert journal.is_settled
    assert flushed == ["COMMIT"]
    journal.close()


def test_an_answer_is_kept_at_once_with_what_waited(tmp_path, workflow, never_by_itself):
    file = tmp_path / "journal.db"
    journal = SqliteJournal(file)
    journal.will_settle()
    for run_id in ("one", "two"):
        journal.append(begun(run_id, workflow))
    journal.append(answered("one"))
    assert kinds(file, "two") == ["run_started"]
    assert kinds(file, "one") == ["run_started", "answered"]
    journal.close()


def test_nothing_waits_where_nobody_awaits_that_or_one_run_is_under_way(tmp_path, workflow, never_by_itself):
    file = tmp_path / "journal.db"
    journal = SqliteJournal(file)
    for run_id in ("one", "two"):
        journal.append(begun(run_id, workflow))
        assert kinds(file, run_id) == ["run_started"]
    journal.close()
    alone = SqliteJournal(tmp_path / "alone.db")
    alone.will_settle()
    for entry in (begun("one", workflow), called("one")):
        alone.append(entry)
        assert alone.is_settled
    assert kinds(tmp_path / "alone.db", "one") == ["run_started", "tool_call_started"]
    alone.close()


def test_what_of_several_runs_cannot_be_kept_is_told_to_whoever_awaits_it(tmp_path, workflow, monkeypatch):
    monkeypatch.setattr("treadle_journal_sqlite.store._BUSY_MS", 1)
    file = tmp_path / "journal.db"
    journal = SqliteJournal(file)
    journal.will_settle()
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        journal.append(begun("one", workflow))
        other.execute("BEGIN IMMEDIATE")
        journal.append(begun("two", workflow))
        with pytest.raises(JournalError, match="another process holds it"):
            trio.run(journal.settle)
        other.execute("ROLLBACK")
    trio.run(journal.settle)
    assert kinds(file, "two") == ["run_started"]
    journal.close()


class Asks(Step):
    """Asks two things, one after the other or both at once."""

    async def run(self, ctx: StepContext) -> StepOutcome:
        questions = [Pending(question=f"{name}?", choices=("yes", "no"), name=name) for name in ("one", "two")]
        given = [ctx.answer(each) for each in questions]
        return StepOutcome(value=given) if all(given) else StepOutcome(pending=tuple(questions))


@pytest.mark.parametrize("gate", ["ask:one", "ask:two"])
def test_of_answers_that_two_processes_give_at_once_one_is_refused(tmp_path, monkeypatch, gate):
    """Between the look at the record and the answer another process answers too: one of them is told."""

    async def main() -> None:
        theirs = SqliteJournal(tmp_path / "journal.db")
        mine = SqliteJournal(tmp_path / "journal.db")
        async with (
            treadle.open(journal=theirs, steps={"asks": Asks}) as other,
            treadle.open(journal=mine, steps={"asks": Asks}) as session,
        ):
            document = {"name": "w", "steps": [{"id": "ask", "type": "asks", "output": "said"}]}
            run_id = (await session.run(treadle.build_workflow(document, host=session.host))).run_id
            checked = Record.checked_workflow

            def meanwhile(record: Record, host: treadle.Host) -> treadle.Workflow:
                monkeypatch.setattr(Record, "checked_workflow", checked)
                with pytest.raises(StopIteration):  # it awaits nothing
                    session.answer(run_id, {gate: "yes"}).send(None)
                return checked(record, host)

            monkeypatch.setattr(Record, "checked_workflow", meanwhile)
            with pytest.raises(
                ConfigurationError, match="answered or gone on with elsewhere since it was read; try it"
            ):
                await other.answer(run_id, {"ask:one": "no"})
            assert [each.data["answers"] for each in theirs.entries(run_id) if each.kind == "answered"] == [
                {gate: "yes"}
            ]
            await other.answer(run_id, {"ask:two" if gate == "ask:one" else "ask:one": "no"})
            result = await session.resume(run_id)
            assert sorted(result.final_state["said"]) == ["no", "yes"]

    trio.run(main)
