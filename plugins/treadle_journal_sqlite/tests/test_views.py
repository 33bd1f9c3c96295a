"""What is listed of runs."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio
from click.testing import CliRunner

import treadle
from treadle import (
    AssistantMessage,
    JournalEntry,
    Message,
    ModelRequest,
    ModelResponse,
    Pending,
    Record,
    Step,
    StepContext,
    StepOutcome,
    StepResult,
    StepStatus,
    StopReason,
    SystemMessage,
    TextPart,
    ToolCallPart,
    ToolMessage,
    ToolResultPart,
    Usage,
    UserMessage,
)
from treadle_journal_sqlite import SqliteJournal, _cli, views
from treadle_journal_sqlite.processes import born, is_alive
from treadle_journal_sqlite.views import list_runs, run_object


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
    monkeypatch.setattr(views, "_run", lambda row, journal: read.append(row) or made(row, journal))
    assert len(list_runs(journal, status="failed", limit=3)) == 3
    assert len(read) == 3


def test_what_a_killed_run_has_cost_is_unknown_where_a_call_was_under_way(
    journal: SqliteJournal, tmp_path: Path
) -> None:
    """Of one that ended in between it is known, and of one that still runs so far."""
    begun, ended, free = ("model_call_started", "{}"), ("model_call_finished", "{}"), '{"known_usd":0.0}'
    calls = {
        "r297": [(1, *begun)],
        "r299": [(1, *begun), (1, *ended), (2, *begun), (3, "tool_call_started", "{}")],
        "r294": [(1, *begun), (2, *begun), (2, *ended), (1, *ended)],
        "r289": [(1, *begun), (1, *ended), (2, "model_call_started", free)],
    }
    with sqlite3.connect(tmp_path / "journal.db") as db:
        for run_id, entries in calls.items():
            rows = [(run_id, kind, ordinal, data) for ordinal, kind, data in entries]
            db.executemany("INSERT INTO entries VALUES (NULL, ?, ?, 'ask', 1, ?, 0, ?)", rows)
    db.close()
    costs = {run["run_id"]: (run["total_cost_usd"], run["total_tokens"]) for run in list_runs(journal)}
    assert [costs[each] for each in calls] == [(0, 0), (None, None), (0, 0), (0, None)]
    found = views.find_run(journal, "r299")
    assert found is not None
    assert found["total_cost_usd"] is None
    cheap = [run["run_id"] for run in list_runs(journal, max_cost=1, status="interrupted", limit=2)]
    assert cheap == ["r294", "r289"], "what is unknown is in no range of costs"


def test_of_a_killed_run_only_what_comes_after_an_unfinished_step_is_said_to() -> None:
    steps = [{"id": "ask"}, {"id": "use", "depends_on": ["ask"]}, {"id": "other"}, {"id": "last"}]
    workflow = {
        "document": {"steps": [{"type": "t", **each} for each in steps]},
        "name": "w",
        "order": [["other", "last"]],
        "overrides": {},
        "files": {},
        "source": None,
        "digest": "d",
    }
    begun = JournalEntry("r", "run_started", data={"workflow": workflow, "state": {}})
    record = Record("r", [begun])
    listed = {"workflow_name": "w", "status": "interrupted", "total_tokens": 0, "total_cost_usd": 0.0}

    def reasons() -> dict[str, str | None]:
        return {name: each["reason"] for name, each in run_object(record, listed)["step_results"].items()}

    after = "it comes after a step that has not finished"
    never = "the process ended before it began"
    assert reasons() == {"ask": never, "use": after, "other": never, "last": after}
    done = {"result": StepResult(step_id="ask", status=StepStatus.SUCCESS), "outcome": StepOutcome()}
    record = Record("r", [begun, JournalEntry("r", "step_finished", "ask", 1, data=done)])
    assert reasons() == {"ask": None, "use": never, "other": never, "last": after}
    listed["status"] = "running"
    assert reasons()["use"] == "it has not begun yet"


@pytest.mark.parametrize("place", ["journal.db", "no/journal.db"])
def test_a_journal_that_is_only_looked_into_is_not_made(tmp_path: Path, place: str) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        SqliteJournal.existing(tmp_path / place)
    assert str(caught.value) == f"there is no journal at {tmp_path / place}; run a workflow, or name the file"
    assert list(tmp_path.iterdir()) == []
    SqliteJournal(tmp_path / place).close()
    SqliteJournal.existing(tmp_path / place).close()


def test_runs_stand_in_columns_which_have_names_on_a_terminal_alone() -> None:
    began = "2026-01-31T12:00:00.123+00:00"
    found = [
        {"run_id": "a1", "status": "success", "started_at": began, "total_cost_usd": 0.0, "workflow_name": "tides"},
        {"run_id": "batch-9-1", "status": "budget_exceeded", "started_at": began, "total_cost_usd": None}
        | {"workflow_name": "a\tb"},
    ]
    rows = [
        "a1         success          2026-01-31T12:00:00  $0            tides",
        "batch-9-1  budget_exceeded  2026-01-31T12:00:00  cost unknown  a b",
    ]
    assert list(_cli._table(found, has_head=False)) == rows
    head = "RUN        STATUS           BEGAN (UTC)          COST          WORKFLOW"
    assert list(_cli._table(found, has_head=True)) == [head, *rows]


@pytest.mark.parametrize(
    ("versions", "told"),
    [
        ({}, []),
        ({"python": "3.11.7", "treadle-kernel": "0.1"}, ["python 3.11.7", "treadle-kernel 0.1"]),
        (
            {"python": "3.11.7", "treadle-kernel": "0.1", "acme": "0.1", "treadle-a": "0.1", "treadle-b": "0.2"},
            ["python 3.11.7", "treadle-kernel 0.1 and 1 more package of that version", "acme 0.1", "treadle-b 0.2"],
        ),
        (
            {"treadle-a": "1", "treadle-b": "1", "treadle-kernel": "1"},
            ["treadle-kernel 1 and 2 more packages of that version"],
        ),
    ],
)
def test_versions_that_are_the_kernels_are_counted_and_others_named(versions: dict[str, str], told: list[str]) -> None:
    assert list(_cli._versions(versions)) == told


def test_notes_of_a_step_have_every_tool_that_the_model_asked_for() -> None:
    """Those too that are not there, or were asked for with arguments that will not do: they were never called."""
    calls = [
        ToolCallPart(call_id=name, tool_name=name, arguments={}, raw_arguments="{}") for name in ("look", "nonesuch")
    ]
    response = ModelResponse(
        message=AssistantMessage(parts=tuple(calls)),
        stop_reason=StopReason.TOOL_USE,
        finish_reason="tool_calls",
        usage=Usage(input_tokens=3, output_tokens=4),
        model="m",
        provider="mock",
    )
    asked = {"provider": "mock", "request": ModelRequest(model="m", messages=())}
    entries = [
        JournalEntry("r", "model_call_started", "ask", 1, 1, data=asked),
        JournalEntry("r", "model_call_finished", "ask", 1, 1, data={"response": response}),
        JournalEntry("r", "tool_call_started", "ask", 1, 2, data={"tool_name": "look", "call_id": "look"}),
        JournalEntry("r", "tool_call_finished", "ask", 1, 2, data={"result": "x"}),
    ]
    assert views.step_notes(entries) == {
        "ask": ["model mock/m: asks for look, nonesuch, 7 tokens", "tool look (look): done"]
    }


def test_with_texts_notes_have_what_was_asked_and_answered_and_nothing_twice() -> None:
    def asked(*messages: Message) -> dict[str, object]:
        return {"provider": "mock", "request": ModelRequest(model="m", messages=messages)}

    def answered(message: AssistantMessage) -> dict[str, object]:
        end = {"stop_reason": StopReason.END_TURN, "model": "m", "provider": "mock"}
        return {"response": ModelResponse(message=message, **end)}

    begun = (SystemMessage(text="Be\nshort"), UserMessage.of("What is in x?"))
    calls = tuple(
        ToolCallPart(call_id=name, tool_name=name, arguments={"at": "x"}, raw_arguments="") for name in ("look", "nope")
    )
    reply = AssistantMessage(parts=(TextPart(text="Let me see"), *calls))
    results = ToolMessage(
        results=(
            ToolResultPart(call_id="look", tool_name="look", content="two\nlines"),
            ToolResultPart(call_id="nope", tool_name="nope", content="there is no such tool", is_error=True),
        )
    )
    tool = {"call_id": "s.1.1", "tool_name": "look", "arguments": {"at": "x"}}
    entries = [
        JournalEntry("r", "model_call_started", "s", 1, 1, data=asked(*begun)),
        JournalEntry("r", "model_call_finished", "s", 1, 1, data=answered(reply)),
        JournalEntry("r", "tool_call_started", "s", 1, 2, data=tool),
        JournalEntry("r", "tool_call_finished", "s", 1, 2, data={"call_id": "s.1.1", "result": "two\nlines"}),
        JournalEntry("r", "model_call_started", "s", 1, 3, data=asked(*begun, reply, results)),
        JournalEntry("r", "model_call_finished", "s", 1, 3, data=answered(AssistantMessage.of("It is there."))),
        JournalEntry("r", "model_call_started", "s", 1, 4, data=asked(UserMessage.of("And y?"))),
    ]
    assert views.step_notes(entries, with_texts=True)["s"] == [
        "model mock/m: asks for look, nope",
        "    system: Be",
        "        short",
        "    user: What is in x?",
        "    assistant: Let me see",
        '    asks look: {"at": "x"}',
        '    asks nope: {"at": "x"}',
        "tool look (s.1.1): done",
        '    with: {"at": "x"}',
        "    gave: two",
        "        lines",
        "model mock/m: answered",
        "    to nope: there is no such tool",
        "    assistant: It is there.",
        "model mock/m: no answer is recorded",
        "    user: And y?",
    ]


def test_a_process_that_was_killed_and_not_waited_for_is_not_alive() -> None:
    """Otherwise nobody could go on with its run for as long as its parent lives and does not look."""
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        birth = born(process.pid)
        assert is_alive(process.pid, birth)
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # it has ended, and stays to be waited for
        os.kill(process.pid, 0)
        assert not is_alive(process.pid, birth)
        assert not is_alive(process.pid, "")
    finally:
        with process:
            process.kill()


def test_what_somebody_answered_moves_no_cursor_and_makes_no_line_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = SqliteJournal(tmp_path / ".treadle" / "journal.db")

    class Asks(Step):
        async def run(self, ctx: StepContext) -> StepOutcome:
            return StepOutcome(pending=(Pending(question="Anything to add?"),))

    async def main() -> str:
        async with treadle.open(journal=journal, steps={"asks": Asks}) as session:
            document = {"name": "w", "steps": [{"id": "note", "type": "asks"}]}
            run = await session.run(treadle.build_workflow(document, host=session.host))
            await session.answer(run.run_id, {"note": "yes\nnote: answered 'no'\x1b[2J"})
            return run.run_id

    run_id = trio.run(main)
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(_cli.show, [run_id], color=True)  # as on a terminal: click takes nothing out
    assert done.exit_code == 0
    assert "\x1b" not in done.stdout
    assert [line for line in done.stdout.splitlines() if line.startswith("note: ")] == [
        "note: answered 'yes note: answered 'no' [2J'"
    ]
