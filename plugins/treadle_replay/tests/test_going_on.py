"""Lists of replies in runs that another session goes on with: each reply is given once in a run."""

import json
from pathlib import Path
from typing import Any

import pytest

import treadle
from treadle import Journal, MemoryJournal, RunResult

STEPS: list[dict[str, Any]] = [
    {"id": "ask", "type": "llm_call", "prompt": "Hi", "output": "asked"},
    {"id": "gate", "type": "approval_gate", "depends_on": ["ask"]},
    {"id": "again", "type": "llm_call", "prompt": "Hi", "depends_on": ["gate"], "output": "again"},
]


def _workflow(folder: Path, steps: list[dict[str, Any]], replies: Any, **state: Any) -> treadle.Workflow:
    (folder / "replies.json").write_text(json.dumps(replies), encoding="utf-8")
    config = {"provider": "mock", "responses_file": str(folder / "replies.json")}
    return treadle.build_workflow({"name": "w", "config": config, "state": state, "steps": steps})


async def _resume(journal: Journal, run_id: str, **how: Any) -> RunResult:
    async with treadle.open(journal=journal) as session:
        return await session.resume(run_id, **how)


async def _begin(journal: Journal, workflow: treadle.Workflow) -> RunResult:
    async with treadle.open(journal=journal) as session:
        return await session.run(workflow)


async def test_a_step_that_failed_takes_the_reply_after_those_that_it_had(tmp_path: Path) -> None:
    """As it does when it is tried again in the same process; a third process goes on from both."""
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    step = {**STEPS[0], "response_schema": {"type": "json_schema", "schema": schema}, "retry": {"max_retries": 0}}
    workflow = _workflow(tmp_path, [step], {"ask": ["no JSON", "nor this", {"content": {"n": 3}}]})
    journal = MemoryJournal()
    first = await _begin(journal, workflow)
    assert (first.status, (await _resume(journal, first.run_id)).status) == ("failed", "failed")
    third = await _resume(journal, first.run_id)
    assert third.final_state["asked"] == {"n": 3}


@pytest.mark.parametrize("in_one_session", [True, False])
async def test_each_item_of_a_foreach_has_its_own_reply_and_no_reply_counts_twice(
    tmp_path: Path, in_one_session: bool
) -> None:
    body = [STEPS[0], {**STEPS[1], "question": "{item}?"}, {**STEPS[2], "id": "more"}]
    steps = [{"id": "each", "type": "foreach", "items": ["a", "b"], "concurrency": 1, "steps": body, "output": "all"}]
    workflow = _workflow(tmp_path, steps, {"ask": ["one", "two"], "more": ["three", "four", "five"]})
    journal = MemoryJournal()
    async with treadle.open(journal=journal) as session:
        result = await session.run(workflow)
        gates = [each.gate for each in result.pending]
        while gates:
            answers = {gates[0]: "approved"}
            if in_one_session:
                result = await session.resume(result.run_id, answers=answers)
            else:
                result = await _resume(journal, result.run_id, answers=answers)
            gates = [each.gate for each in result.pending]
    calls = [entry.data["response"].text for entry in journal.entries(result.run_id) if "response" in entry.data]
    assert calls == ["one", "two", "three", "four"], result


async def test_a_fork_keeps_what_its_kept_steps_had(tmp_path: Path) -> None:
    workflow = _workflow(tmp_path, STEPS, {"ask": ["one", "two"], "again": ["three", "four"]})
    journal = MemoryJournal()
    paused = await _begin(journal, workflow)
    done = await _resume(journal, paused.run_id, answers={"gate": "approved"})
    assert done.final_state["again"] == "three"
    async with treadle.open(journal=journal) as session:
        forked = await session.fork(done.run_id, at="again")
    assert (forked.final_state["asked"], forked.final_state["again"]) == ("one", "three")
