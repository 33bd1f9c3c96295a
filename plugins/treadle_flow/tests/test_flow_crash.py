"""A run that was killed, or that failed, in the middle of items or iterations repeats none that was finished."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import flow_world
import pytest
import trio
import trio.testing
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

import treadle
from treadle import Journal, JournalEntry, MemoryJournal, RunResult
from treadle_journal_sqlite import SqliteJournal

ITEMS = [f"i{number}" for number in range(8)]


def foreach(**say: Any) -> dict[str, Any]:
    step = {"type": "say", "text": "{item}", "log": "log", **say}
    fields = {"id": "each", "type": "foreach", "items": ITEMS, "concurrency": 2, "step": step, "output": "made"}
    return flow_world.document(fields)


def loop(**say: Any) -> dict[str, Any]:
    steps = [
        {"id": "count", "type": "count", "output": "count"},
        {"id": "say", "type": "say", "text": "i{count}", "log": "log", "depends_on": ["count"], **say},
    ]
    fields = {"id": "again", "type": "loop", "until": "state.count == 8", "steps": steps, "output": "made"}
    return flow_world.document(fields, state={"count": 0})


def subworkflow(**say: Any) -> dict[str, Any]:
    steps = [
        {"id": f"s{number}", "type": "say", "text": f"i{number}", "log": "log", **say}
        | ({"depends_on": [f"s{number - 1}"]} if number else {})
        for number in range(8)
    ]
    inner = {"id": "sub", "type": "subworkflow", "workflow_inline": {"name": "inner", "steps": steps}, "output": "made"}
    return flow_world.document(inner)


FLOWS = {"foreach": foreach, "loop": loop, "subworkflow": subworkflow}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def resume(journal: Journal, workflow: treadle.Workflow | None = None) -> RunResult:
    async def main() -> RunResult:
        steps = {"say": flow_world.Say, "count": flow_world.Count}
        async with treadle.open(journal=journal, steps=steps) as session:
            return await session.resume("r", workflow=workflow)

    return trio.run(main)


@pytest.mark.parametrize("flow", FLOWS)
def test_after_a_kill_in_the_middle_no_finished_one_is_repeated(folder, flow):
    Path("flow.yaml").write_text(yaml.safe_dump(FLOWS[flow](kills_on="i4")))
    done = subprocess.run(
        [sys.executable, flow_world.__file__, "flow.yaml"], env={**os.environ, "FLOW_KILLS": "1"}, check=False
    )
    assert done.returncode == -signal.SIGKILL
    before = Path("log").read_text().split()
    assert before
    assert "i4" not in before
    result = resume(SqliteJournal("journal.db"))
    assert result.status == "success", result.error
    after = Path("log").read_text().split()
    expected = {f"i{number}" for number in range(8)} if flow != "loop" else {f"i{number}" for number in range(1, 9)}
    assert sorted(after) == sorted(expected)
    assert result.step_results[next(iter(result.step_results))].attempts == 1
    if flow == "foreach":
        assert result.final_state["made"] == ITEMS


@pytest.mark.parametrize("flow", FLOWS)
def test_after_a_failure_it_is_resumed_where_it_failed(folder, flow):
    async def main(journal: Journal) -> RunResult:
        steps = {"say": flow_world.Say, "count": flow_world.Count}
        async with treadle.open(journal=journal, steps=steps) as session:
            failing = treadle.build_workflow(
                FLOWS[flow](fails_on="i4", retry={"max_retries": 0}) | {"name": "x"}, host=session.host
            )
            result = await session.run(failing, run_id="r")
            assert result.status == "failed"
            again = await session.resume("r")  # it fails once more, in a third process so to speak
            assert again.status == "failed"
            return await session.resume("r", workflow=treadle.build_workflow(FLOWS[flow](), host=session.host))

    result = trio.run(main, SqliteJournal("journal.db"))
    assert result.status == "success", result.error
    log = Path("log").read_text().split()
    assert len(log) == len(set(log)) == 8


def test_where_every_iteration_was_good_and_the_loop_was_not_it_runs_them_anew(folder):
    flow = flow_world.document(
        {"id": "again", "type": "loop", "until": "state.count == 9", "max_iterations": 3, "output": "made",
         "steps": [{"id": "say", "type": "say", "text": "{index}", "log": "log"}]},
        state={"count": 0},
    )  # fmt: skip

    async def main(journal: Journal) -> None:
        async with treadle.open(journal=journal, steps={"say": flow_world.Say}) as session:
            first = await session.run(treadle.build_workflow(flow, host=session.host), run_id="r")
            second = await session.resume("r")
            assert (first.status, second.status) == ("failed", "failed")

    trio.run(main, MemoryJournal())
    assert Path("log").read_text().split() == ["0", "1", "2"] * 2


class _Cut(Journal):
    """Raises at an append of its own choice, as a full disk does."""

    def __init__(self, inner: Journal, number: int) -> None:
        self.inner, self.left = inner, number

    def append(self, entry: JournalEntry) -> None:
        self.left -= 1
        if self.left < 0:
            raise OSError("the disk is full")
        self.inner.append(entry)

    def entries(self, run_id: str) -> Any:
        return self.inner.entries(run_id)


@pytest.mark.parametrize("flow", FLOWS)
def test_cut_at_any_write_it_comes_to_the_same_end(folder, flow):
    @settings(max_examples=12, deadline=None)
    @given(st.integers(1, 20))
    def law(number: int) -> None:
        Path("log").write_text("")
        inner = MemoryJournal()

        async def main() -> None:
            steps = {"say": flow_world.Say, "count": flow_world.Count}
            async with treadle.open(journal=_Cut(inner, number), steps=steps) as session:
                await session.run(treadle.build_workflow(FLOWS[flow](), host=session.host), run_id="r")

        with pytest.raises(OSError, match="the disk is full"):
            trio.run(main)
        finished = [e.step for e in inner.entries("r") if e.kind == "step_finished"]
        result = resume(inner)
        assert result.status == "success", result.error
        log = Path("log").read_text().split()
        assert set(log) == ({f"i{n}" for n in range(1, 9)} if flow == "loop" else set(ITEMS))
        # What was said without its end being recorded is said again, and nothing else.
        assert len(log) - 8 <= 2
        assert len(set(finished)) == len(finished)

    law()


def test_calls_of_several_items_that_may_have_happened_are_asked_about_one_by_one(folder):
    once = treadle.tool(effect="once")(_wait)
    step = {"type": "tool", "tool_name": "_wait", "tool_args": {"text": "{item}"}}
    flow = flow_world.document({"id": "each", "type": "foreach", "items": ["a", "b"], "step": step, "output": "made"})

    async def main(journal: Journal) -> RunResult:
        async with treadle.open(journal=journal, tools=[once]) as session:
            limited = treadle.build_workflow({**flow, "config": {"timeout": 5}}, host=session.host)
            assert (await session.run(limited, run_id="r")).status == "timeout"
            paused = await session.resume("r", workflow=treadle.build_workflow(flow, host=session.host))
            assert {(each.step_id, each.call_id) for each in paused.pending} == {
                ("each.0.step", "each.0.step.1.1"),
                ("each.1.step", "each.1.step.1.1"),
            }
            answers = {each.call_id or "": "done" for each in paused.pending[:1]}
            answers |= {f"{each.step_id}:{each.call_id}": "done" for each in paused.pending[1:]}
            return await session.resume("r", assume=answers)

    result = trio.run(main, MemoryJournal(), clock=trio.testing.MockClock(autojump_threshold=0))
    assert result.status == "success"
    assert len(result.final_state["made"]) == 2


async def _wait(text: str) -> str:
    """Wait for ever."""
    await trio.sleep_forever()
    return text
