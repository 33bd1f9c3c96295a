"""A run that was killed at any of its journal writes comes to the same end, and no finished call is made again."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import crash_world
import pytest
from crash_world import Crash, Crashing, Log
from hypothesis import given, settings
from hypothesis import strategies as st

from treadle import ConfigurationError, JournalEntry, MemoryJournal, RunResult
from treadle_journal_sqlite import SqliteJournal

WRITES = 54
"""Of the whole run; `test_the_run_has_so_many_writes` holds it to that."""


def whole(folder: Path, document: Mapping[str, Any] = crash_world.DOCUMENT) -> tuple[RunResult, Counter[str], int]:
    (folder / "whole").unlink(missing_ok=True)
    log, journal = Log(folder / "whole"), Crashing(MemoryJournal(), 0)
    return crash_world.run(journal, log, document), log.counts(), journal.count


def asked_calls(entries: list[JournalEntry]) -> set[str]:
    """What the record says was begun, in the words of the log."""
    asked: dict[tuple[Any, ...], str] = {}
    finished_calls(entries, asked)
    return set(asked.values())


def finished_calls(entries: list[JournalEntry], asked: dict[tuple[Any, ...], str] | None = None) -> Counter[str]:
    """What the record says was done, in the words of the log."""
    found: Counter[str] = Counter()
    asked = {} if asked is None else asked
    for entry in entries:
        key = (entry.step, entry.attempt, entry.ordinal, entry.kind[:4])
        if entry.kind == "model_call_started":
            asked[key] = f"model {entry.data['request'].key} {len(entry.data['request'].messages)}"
        elif entry.kind == "tool_call_started":
            asked[key] = f"tool {entry.data['tool_name']} {'-'.join(map(str, entry.data['arguments'].values()))}"
        elif entry.kind.endswith("call_finished"):
            found[asked[key]] += 1
    return found


def cut_off(entries: Iterable[JournalEntry]) -> bool:
    """Whether a model was asked whose answer is not recorded."""
    calls = {"model_call_started": set[Any](), "model_call_finished": set[Any]()}
    for entry in entries:
        if entry.kind in calls:
            calls[entry.kind].add((entry.step, entry.attempt, entry.ordinal))
    return calls["model_call_started"] != calls["model_call_finished"]


def go_on(folder: Path, log: Log, run_id: str = "r") -> RunResult:
    """Resume, and say of every call that is asked about what the log says of it."""
    done_before = log.counts()
    result = crash_world.resume(SqliteJournal(folder / "journal.db"), log, run_id=run_id)
    if result.status == "paused":
        assume = {}
        for pending in result.pending:
            name = f"tool {pending.tool_name} {'-'.join(map(str, pending.details['arguments'].values()))}"
            assume[pending.call_id or ""] = "done" if done_before[name] else "not-done"
        result = crash_world.resume(SqliteJournal(folder / "journal.db"), log, assume, run_id=run_id)
    return result


def check(folder: Path, log: Log, document: Mapping[str, Any] = crash_world.DOCUMENT) -> None:
    expected, counts, _ = whole(folder, document)
    journal = SqliteJournal(folder / "journal.db")
    entries = list(journal.entries("r"))
    before = finished_calls(entries)
    journal.close()
    begun, roots = log.counts(), [entry for entry in entries if not entry.step]
    ended = bool(roots) and roots[-1].kind == "run_finished" and roots[-1].data["result"].status == "success"
    if not roots or ended:
        with pytest.raises(ConfigurationError, match=r"there is no record of a run 'r'|run r has succeeded"):
            go_on(folder, log)
        return
    result = go_on(folder, log)
    assert result.status == "success", result.error
    assert result.final_state == expected.final_state
    done = log.counts()
    assert done.keys() == counts.keys()
    for call in before:
        assert done[call] == begun[call], f"{call} was finished, and was made again"
    assert all(done[call] == 1 for call in done if call.startswith("tool send")), "a once call was made twice"
    assert all(times - begun[call] <= 1 for call, times in done.items())
    # What a call has cost that was cut off, nobody knows.
    totals = (None, None) if cut_off(entries) else (expected.total_tokens, expected.total_cost_usd)
    assert (result.total_tokens, result.total_cost_usd) == totals


def test_the_run_has_so_many_writes(tmp_path):
    assert whole(tmp_path)[2] == WRITES


def kill_at(folder: Path, number: int, *how: str) -> None:
    program = Path(__file__).with_name("crash_world.py")
    ended = subprocess.run([sys.executable, str(program), str(folder), str(number), *how], capture_output=True)
    assert ended.returncode == -9, ended.stderr.decode()
    check(folder, Log(folder / "log"))


@pytest.mark.parametrize("number", [9, 24, 37, 52])
def test_after_a_kill_the_run_goes_on(tmp_path, number):
    kill_at(tmp_path, number)


@pytest.mark.soak
@pytest.mark.parametrize("how", [(), ("before",)], ids=["after", "before"])
@pytest.mark.parametrize("number", range(1, WRITES + 1))
def test_after_a_kill_at_every_write_the_run_goes_on(tmp_path, number, how):
    kill_at(tmp_path, number, *how)


WRITES_OF_MANY = 22 * crash_world.MANY
"""Of all runs at once; `test_the_runs_at_once_have_so_many_writes` holds them to that."""


def kill_many_at(folder: Path, number: int, *how: str) -> None:
    program, log = Path(__file__).with_name("crash_world.py"), Log(folder / "log")
    ended = subprocess.run([sys.executable, str(program), str(folder), str(number), *how, "many"], capture_output=True)
    assert ended.returncode == -9, ended.stderr.decode()
    begun = log.counts()
    for run_id in map("r{}".format, range(crash_world.MANY)):
        journal = SqliteJournal(folder / "journal.db")
        entries = list(journal.entries(run_id))
        journal.close()
        acted = {call for call in begun if f"{run_id}_" in call}
        assert acted <= asked_calls(entries), "a call was made that was not recorded before"
        if not entries or entries[-1].kind == "run_finished":
            continue
        result = go_on(folder, log, run_id)
        assert result.status == "success", result.error
        assert set(result.final_state) == {"left", "mail"}
        for call in finished_calls(entries):
            assert log.counts()[call] == begun[call], f"{call} was finished, and was made again"
    done = log.counts()
    assert all(done[call] == 1 for call in done if call.startswith("tool send")), "a once call was made twice"
    assert all(times - begun[call] <= 1 for call, times in done.items())


def test_the_runs_at_once_have_so_many_writes(tmp_path):
    journal = Crashing(MemoryJournal(), 0)
    crash_world.run_many(journal, Log(tmp_path / "log"))
    assert journal.count == WRITES_OF_MANY


@pytest.mark.parametrize("number", [14, 41, 78])
def test_after_a_kill_runs_at_once_go_on(tmp_path, number):
    kill_many_at(tmp_path, number)


@pytest.mark.soak
@pytest.mark.parametrize("how", [(), ("before",)], ids=["after", "before"])
@pytest.mark.parametrize("number", range(1, WRITES_OF_MANY + 1, 2))
def test_after_a_kill_at_writes_of_many_runs_they_go_on(tmp_path, number, how):
    kill_many_at(tmp_path, number, *how)


@st.composite
def documents(draw: Any) -> dict[str, Any]:
    """A small graph of the steps of :mod:`crash_world`; each waits for some of those before it."""
    steps: list[dict[str, Any]] = []
    for number in range(draw(st.integers(1, 5))):
        kind = draw(st.sampled_from(["loops", "sends"]))
        waits = draw(st.lists(st.sampled_from([each["id"] for each in steps]), unique=True)) if steps else []
        step = {"id": f"s{number}", "type": kind, "depends_on": waits, "output": f"made.s{number}"}
        steps.append(step | ({"rounds": draw(st.integers(1, 3))} if kind == "loops" else {}))
    return {**crash_world.DOCUMENT, "steps": steps}


@settings(max_examples=15, deadline=None)
@given(document=documents(), data=st.data())
def test_whatever_the_graph_and_wherever_the_record_breaks_off_the_run_goes_on(tmp_path_factory, document, data):
    """As a kill, in this process, and again while it is resumed."""
    folder = tmp_path_factory.mktemp("run")
    _, _, writes = whole(folder, document)
    log = Log(folder / "log")
    number = data.draw(st.integers(2, writes - 1))
    with pytest.raises(Crash):
        crash_world.run(Crashing(SqliteJournal(folder / "journal.db"), number), log, document)
    with contextlib.suppress(Crash):
        crash_world.resume(Crashing(SqliteJournal(folder / "journal.db"), data.draw(st.integers(1, 6))), log)
    check(folder, log, document)
