"""Ending a run early: what is kept, what is said, and that nothing is left behind."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
import trio
from engine_doubles import (
    Recorder,
    RecordingJournal,
    act,
    asking,
    flow,
    host_of,
    provider_of,
    request,
    run,
    sandbox_class,
    statuses,
)

import treadle
from treadle.contracts.events import RunFinished, RunWarning, StepFinished
from treadle.contracts.tool import Tool


class Nap(Tool):
    name = "nap"

    async def call(self, arguments, context):
        await trio.lowlevel.checkpoint()
        return "slept"


async def forever(ctx):
    await trio.sleep_forever()


async def test_a_run_that_is_cancelled_keeps_what_is_finished_and_says_what_became_of_the_rest(autojump_clock):
    observer, journal = Recorder(), RecordingJournal()
    host = host_of({"runs": forever})
    workflow = flow(host, act("done", value=1, output="x"), act("runs", "done"), act("never", "runs"))
    async with treadle.open(host=host, journal=journal) as session, trio.open_nursery() as nursery:
        going = session.start(workflow, observers=[observer])

        @nursery.start_soon
        async def cancel():
            await trio.sleep(5)
            going.cancel("the user asked for it")
            going.cancel("again")

        result = await going.execute()
    assert (result.status, result.error) == ("cancelled", "the user asked for it")
    assert statuses(result) == {"done": "success", "runs": "cancelled", "never": "skipped"}
    assert result.final_state == {"x": 1}
    runs, never = result.step_results["runs"], result.step_results["never"]
    assert (runs.error, runs.attempts, runs.duration_ms) == ("the user asked for it", 1, pytest.approx(5000))
    assert (never.reason, never.attempts) == ("the user asked for it", 0)
    assert result.total_cost_usd == 0
    finished = [event.step_id for event in observer.events if isinstance(event, StepFinished)]
    assert finished == ["done", "runs", "never"]
    assert isinstance(observer.events[-1], RunFinished)
    assert journal.facts()[-3:] == ["step_finished runs", "step_finished never", "run_finished"]


async def test_a_run_that_is_cancelled_before_it_begins_starts_no_step():
    touched = []

    async def touch(ctx):
        touched.append(ctx.step_id)

    host = host_of({"a": touch})
    async with treadle.open(host=host) as session:
        going = session.start(flow(host, act("a"), act("b", "a")))
        going.cancel("changed my mind")
        result = await going.execute()
    assert touched == []
    assert (result.status, result.error) == ("cancelled", "changed my mind")
    assert {each.reason for each in result.step_results.values()} == {"changed my mind"}
    assert statuses(result) == {"a": "skipped", "b": "skipped"}


async def test_steps_without_an_await_do_not_go_on_after_a_cancel():
    going: Any = None

    async def cancel(ctx):
        going.cancel("enough")
        return 1

    host = host_of({"s1": cancel})
    workflow = flow(host, act("s0"), act("s1", "s0", output="x"), act("s2", "s1"), act("s3", "s2"))
    async with treadle.open(host=host) as session:
        going = session.start(workflow)
        result = await going.execute()
    assert statuses(result) == {"s0": "success", "s1": "success", "s2": "skipped", "s3": "skipped"}
    assert (result.status, result.final_state) == ("cancelled", {"x": 1})


async def test_a_cancel_that_comes_when_every_step_has_finished_changes_nothing():
    going: Any = None

    async def cancel(ctx):
        going.cancel("too late")

    host = host_of({"a": cancel})
    async with treadle.open(host=host) as session:
        going = session.start(flow(host, act("a")))
        result = await going.execute()
    assert (result.status, result.error) == ("success", None)


async def test_a_step_that_is_waiting_for_its_next_attempt_is_cancelled(autojump_clock):
    async def flaky(ctx):
        raise OSError("flaky")

    host = host_of({"a": flaky})
    workflow = flow(host, act("a", retry={"max_retries": 9, "jitter": False}), config={"timeout": 2})
    result = await run(workflow)
    assert (result.status, result.step_results["a"].status, result.step_results["a"].attempts) == (
        "timeout", "cancelled", 2,
    )  # fmt: skip


async def test_a_run_that_takes_too_long_is_timed_out(autojump_clock):
    host = host_of({"slow": forever})
    result = await run(flow(host, act("quick"), act("slow"), act("after", "slow"), config={"timeout": 1.5}))
    assert result.status == "timeout"
    assert result.error == "the run took longer than config.timeout (1.5 s)"
    assert statuses(result) == {"quick": "success", "slow": "cancelled", "after": "skipped"}
    assert result.step_results["after"].reason == result.error
    assert result.total_duration_ms == pytest.approx(1500)


async def test_a_run_within_its_time_is_not_timed_out(autojump_clock):
    async def nap(ctx):
        await trio.sleep(1)

    assert (await run(flow(host_of({"a": nap}), act("a"), config={"timeout": 2}))).status == "success"


async def test_a_step_that_keeps_its_cancellation_to_itself_is_finished_and_nothing_starts_after_it(autojump_clock):
    async def stubborn(ctx):
        try:
            await trio.sleep_forever()
        except trio.Cancelled:
            return "whatever"

    host = host_of({"a": stubborn})
    result = await run(flow(host, act("a"), act("b", "a"), config={"timeout": 1}))
    assert statuses(result) == {"a": "success", "b": "skipped"}
    assert result.status == "timeout"


async def test_a_step_that_fails_while_it_is_cancelled_failed(autojump_clock):
    async def messy(ctx):
        try:
            await trio.sleep_forever()
        finally:
            raise ValueError("clean-up")

    result = await run(flow(host_of({"a": messy}), act("a"), act("b", "a"), config={"timeout": 1}))
    assert result.status == "timeout"
    assert (result.step_results["a"].status, result.step_results["a"].error) == ("failed", "ValueError: clean-up")
    assert result.step_results["b"].reason == "step 'a' failed"


async def test_a_task_of_a_step_that_fails_while_the_step_is_cancelled_is_told_and_the_run_has_a_result(autojump_clock):
    observer = Recorder()

    async def child():
        try:
            await trio.sleep_forever()
        finally:
            raise ValueError("clean-up")

    async def messy(ctx):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(child)
            nursery.start_soon(trio.sleep_forever)

    result = await run(flow(host_of({"a": messy}), act("a"), config={"timeout": 1}), observers=[observer])
    assert (result.status, statuses(result)) == ("timeout", {"a": "cancelled"})
    assert [event.message for event in observer.events if isinstance(event, RunWarning)] == [
        "while it was cancelled: ValueError: clean-up"
    ]


async def test_a_cancellation_from_outside_passes_through_and_the_session_goes_on(autojump_clock):
    host = host_of({"a": forever})
    async with treadle.open(host=host) as session:
        with trio.move_on_after(3) as scope:
            await session.run(flow(host, act("a")))
        assert scope.cancelled_caught
        assert (await session.run(flow(host, act("b")))).status == "success"


# --- cancelled at every await ---------------------------------------------------------------------


async def scripted(ctx):
    """Awaits everything that a step can await."""
    await asking(stream=True)(ctx)
    await ctx.call_tool("nap", {})
    async with ctx.exchange(request(ctx.step_id)) as events:
        async for _ in events:
            break
    return (await ctx.complete(request(ctx.step_id))).text


@pytest.mark.parametrize("from_outside", [True, False])
async def test_a_run_can_be_cancelled_at_any_of_its_awaits(from_outside):
    provider, sandbox = provider_of(), sandbox_class()
    host = host_of(
        {"a": scripted, "b": scripted, "c": scripted}, provider=provider, tools={"nap": Nap}, sandbox=sandbox
    )
    workflow = flow(host, act("a", output="a"), act("b"), act("c", "a"))
    tasks = trio.lowlevel.current_statistics().tasks_living
    ended_early = finished = 0
    for ticks in range(400):
        async with treadle.open(host=host) as session:
            in_session = trio.lowlevel.current_statistics().tasks_living
            going, result = session.start(workflow), None
            async with trio.open_nursery() as nursery:

                @nursery.start_soon
                async def cancel(ticks=ticks, going=going, nursery=nursery):
                    for _ in range(ticks):
                        await trio.lowlevel.checkpoint()
                    if from_outside:
                        nursery.cancel_scope.cancel()
                    else:
                        going.cancel()

                result = await going.execute()
            assert provider.open_exchanges == 0
            assert sandbox.log.count("closed") == len(sandbox.log) / 2
            # Of the session there may be the provider's task; of the run there is nothing.
            assert trio.lowlevel.current_statistics().tasks_living <= in_session + 1
            if result is not None and result.status == "success":
                finished += 1
            else:
                ended_early += 1
                assert from_outside or (result is not None and result.status == "cancelled")
                if ticks % 10 == 0:
                    assert (await session.run(workflow)).status == "success", "the session can be used again"
        assert provider.log.count("opened") == provider.log.count("closed")
        assert trio.lowlevel.current_statistics().tasks_living == tasks
        if finished == 3:
            break
    assert finished == 3
    assert ended_early > 15, "the run has at least that many awaits"


async def test_nothing_is_left_behind_by_runs_that_succeed_fail_time_out_or_are_cancelled(autojump_clock):
    async def broken(ctx):
        await asking()(ctx)
        raise ValueError("no")

    host = host_of(
        {"ok": scripted, "bad": broken, "slow": forever},
        provider=provider_of(),
        tools={"nap": Nap},
        sandbox=sandbox_class(),
    )
    await run(flow(host, act("ok")))  # whatever is made once a process is made now
    before = trio.lowlevel.current_statistics().tasks_living, threading.active_count(), _descriptors()
    for _ in range(5):
        async with treadle.open(host=host) as session:
            assert (await session.run(flow(host, act("ok")), on_event=lambda event: None)).status == "success"
            assert (await session.run(flow(host, act("bad")))).status == "failed"
            assert (await session.run(flow(host, act("slow", timeout=1)))).status == "failed"
            assert (await session.run(flow(host, act("slow"), config={"timeout": 1}))).status == "timeout"
            with trio.move_on_after(1):
                await session.run(flow(host, act("slow"), act("ok")))
    assert (trio.lowlevel.current_statistics().tasks_living, threading.active_count(), _descriptors()) == before


def _descriptors() -> int:
    folder = Path("/proc/self/fd")
    return len(list(folder.iterdir())) if folder.is_dir() else 0
