"""Runs that are gone on with: what a journal has is not done again, and their time goes on whatever the clock says."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Any

import pytest
import trio
from engine_doubles import act, asking, flow, host_of, provider_of, request, statuses

import treadle
from treadle import ConfigurationError, JournalEntry, MemoryJournal, Pending, Record, StepOutcome

HOUR = 3600.0
SET = pytest.mark.parametrize("by", [HOUR, -HOUR], ids=["ahead", "back"])


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The clock of the day, which goes on and can be set."""
    offset = [0.0]
    now = time.time
    monkeypatch.setattr(time, "time", lambda: now() + offset[0])
    return offset


def killed(journal: MemoryJournal, when: Callable[[JournalEntry], bool]) -> MemoryJournal:
    """What a process has left behind that was killed before that entry."""
    kept = MemoryJournal()
    for entry in takewhile(lambda each: not when(each), journal.entries("r")):
        kept.append(entry)
    return kept


async def begun(steps: dict[str, Any], **config: Any) -> tuple[Any, MemoryJournal]:
    """A run of `a`, `b`, `c` one after the other, killed as `c` was to begin."""
    workflow = flow(host_of(steps), act("a"), act("b", "a"), act("c", "b"), config=config)
    journal = MemoryJournal()
    async with treadle.open(host=workflow.host, journal=journal) as session:
        await session.run(workflow, run_id="r")
    return workflow, killed(journal, lambda each: each.step == "c")


@SET
async def test_a_clock_that_is_set_while_a_run_is_under_way_takes_none_of_its_time(by, clock):
    async def set_it(ctx):
        clock[0] += by

    workflow, journal = await begun({"a": set_it}, timeout=600.0)
    assert 0 <= Record("r", journal.entries("r")).elapsed < 60
    async with treadle.open(host=workflow.host, journal=journal) as session:
        result = await session.resume("r")
    assert (result.status, statuses(result)["c"]) == ("success", "success"), result.error
    assert 0 < result.total_duration_ms < 60_000
    assert all(0 <= each.duration_ms < 60_000 for each in result.step_results.values())
    times = [entry.at for entry in journal.entries("r") if entry.kind != "run_resumed"]
    assert times[0] <= times[1], "no entry of one process is before another"


@SET
async def test_a_clock_that_is_set_between_two_processes_takes_no_time_of_the_run(by, clock):
    workflow, journal = await begun({}, timeout=600.0)
    before = Record("r", journal.entries("r")).elapsed
    clock[0] += by
    async with treadle.open(host=workflow.host, journal=journal) as session:
        result = await session.resume("r")
    assert result.status == "success", result.error
    assert before * 1000 <= result.total_duration_ms < 60_000
    assert 0 <= Record("r", journal.entries("r")).elapsed < 60


@SET
async def test_a_step_has_its_whole_timeout_and_no_more_whatever_the_clock_says(by, clock, autojump_clock):
    async def slow(ctx):
        clock[0] += by
        await trio.sleep(5 if ctx.attempt == 2 else 50)

    workflow = flow(host_of({"a": slow}), act("a", timeout=10.0, retry={"max_retries": 1, "backoff_base": 1.0}))
    async with treadle.open(host=workflow.host) as session:
        began = trio.current_time()
        result = await session.run(workflow)
        took = trio.current_time() - began
    assert (result.status, result.step_results["a"].attempts) == ("success", 2)
    assert 15 <= took < 25


async def test_a_step_that_fails_as_it_goes_on_still_has_what_its_attempt_has_cost():
    async def ask_and_wait(ctx):
        question = Pending(question="?")
        if ctx.answer(question):
            raise LookupError("gone")
        await ctx.complete(request())
        return StepOutcome(pending=(question,))

    workflow = flow(host_of({"a": ask_and_wait}, provider=provider_of(cost=0.003)), act("a"))
    journal = MemoryJournal()
    async with treadle.open(host=workflow.host, journal=journal) as session:
        paused = await session.run(workflow, run_id="r")
        failed = await session.resume("r", answers={"": "yes"})
    spent = paused.step_results["a"]
    assert spent.usage.total_tokens
    assert spent.cost_usd == 0.003
    result = failed.step_results["a"]
    assert (result.status, result.attempts) == ("failed", 1)
    assert (result.usage, result.cost_usd) == (spent.usage, spent.cost_usd)
    assert (failed.total_tokens, failed.total_cost_usd) == (paused.total_tokens, 0.003)


async def test_a_step_that_is_asked_for_what_it_did_once_more_pays_once():
    async def ask_and_wait(ctx):
        await ctx.complete(request())
        question = Pending(question="?")
        return StepOutcome() if ctx.answer(question) else StepOutcome(pending=(question,))

    workflow = flow(host_of({"a": ask_and_wait}, provider=provider_of(cost=0.003)), act("a"))
    journal = MemoryJournal()
    async with treadle.open(host=workflow.host, journal=journal) as session:
        paused = await session.run(workflow, run_id="r")
        done = await session.resume("r", answers={"": "yes"})
    assert (done.status, done.total_tokens, done.total_cost_usd) == ("success", paused.total_tokens, 0.003)
    assert done.step_results["a"].model == paused.step_results["a"].model


@treadle.tool(effect="pure")
def weather() -> str:
    """The weather."""
    return "sun"


async def paused_with_a_tool(note: str, *, tools: Sequence[Any] = (weather,)) -> tuple[Any, MemoryJournal]:
    async def wait(ctx):
        question = Pending(question="?")
        return StepOutcome() if ctx.answer(question) else StepOutcome(pending=(question,))

    workflow = flow(host_of({"a": wait}), act("a", value=note))
    journal = MemoryJournal()
    async with treadle.open(host=workflow.host, journal=journal) as session:
        await session.run(workflow, run_id="r", tools=tools)
    return workflow, journal


async def test_a_run_does_not_go_on_without_a_tool_of_its_own_that_its_workflow_names():
    workflow, journal = await paused_with_a_tool("weather")
    assert Record("r", journal.entries("r")).facts["tools"] == ["weather"]
    length = len(list(journal.entries("r")))
    async with treadle.open(host=workflow.host, journal=journal) as session:
        for go_on in (
            lambda: session.resume("r", answers={"": "yes"}),
            lambda: session.resume("r", workflow=workflow, answers={"": "yes"}),
            lambda: session.fork("r", at="a"),
        ):
            with pytest.raises(ConfigurationError) as caught:
                await go_on()
            assert str(caught.value) == (
                "this run had tool 'weather', which is not registered now; give it in tools=, or go on without it "
                "with another form of the workflow, workflow="
            )
        assert len(list(journal.entries("r"))) == length, "nothing is recorded, the answer neither"
        forked = await session.fork("r", at="a", tools=[weather])
        with pytest.raises(ConfigurationError, match="this run had tool 'weather'"):
            await session.resume(forked.run_id, answers={"": "yes"})
        assert (await session.resume("r", answers={"": "yes"}, tools=[weather])).status == "success"


async def test_a_run_is_answered_without_its_tools_and_goes_on_with_them():
    workflow, journal = await paused_with_a_tool("weather")
    async with treadle.open(host=workflow.host, journal=journal) as session:
        await session.answer("r", {"": "yes"})
        with pytest.raises(ConfigurationError, match="this run had tool 'weather'"):
            await session.resume("r")
        assert (await session.resume("r", tools=[weather])).status == "success"


async def test_a_run_goes_on_without_tools_that_its_workflow_does_not_name_or_that_are_given_otherwise():
    workflow, journal = await paused_with_a_tool("the weather")
    async with treadle.open(host=workflow.host, journal=journal) as session:
        assert (await session.resume("r", answers={"": "yes"})).status == "success"
    workflow, journal = await paused_with_a_tool("weather")
    async with treadle.open(host=workflow.host, journal=journal) as session:
        other = flow(workflow.host, act("a", value="none"))
        assert (await session.resume("r", workflow=other, answers={"": "yes"})).status == "success"
    workflow, journal = await paused_with_a_tool("weather", tools=())
    assert "tools" not in Record("r", journal.entries("r")).facts


async def test_a_provider_is_told_once_what_it_answered_in_the_run_before_it_is_asked_again():
    """Not what another one did, and not what nobody heard the end of."""
    told: list[list[str]] = []

    def catch_up(self: Any, requests: Iterable[Any]) -> None:
        told.append([*(each.key for each in requests), f"after {len(self.requests)} calls"])

    double = provider_of(catch_up=catch_up)
    host = host_of({each: asking() for each in "abcd"}, provider=double)
    workflow = flow(host, act("a"), act("b", "a"), act("c", "b"), act("d", "c"))
    journal = MemoryJournal()
    async with treadle.open(host=host, journal=journal) as session:
        await session.run(workflow, run_id="r")
        assert (len(double.requests), told) == (4, [])
    left = MemoryJournal()
    for entry in killed(journal, lambda each: each.step == "c" and each.kind == "model_call_finished").entries("r"):
        is_other = entry.step == "b" and "request" in entry.data
        left.append(replace(entry, data={**entry.data, "provider": "another"}) if is_other else entry)
    async with treadle.open(host=host, journal=left) as session:
        assert (await session.resume("r")).ok
    assert [each.key for each in double.requests[4:]] == ["c", "d"]
    assert told == [["a", "after 4 calls"]]
