"""When steps start: as soon as they may, never more at once than allowed, in an order that can be relied on."""

import itertools
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
from engine_doubles import Recorder, act, chain, flow, host_of, run, statuses

import treadle
from treadle.contracts.events import RunEvent, StepFinished, StepStarted


async def test_a_step_starts_when_its_own_dependencies_have_settled_whatever_its_siblings_do(autojump_clock):
    log: list[str] = []
    slow_may_end = trio.Event()

    async def slow(ctx):
        await slow_may_end.wait()
        log.append("slow")

    async def last(ctx):
        log.append("last")
        slow_may_end.set()  # with layers this would never be reached

    host = host_of({"slow": slow, "last": last})
    with trio.fail_after(60):
        result = await run(flow(host, act("slow"), act("quick"), act("next", "quick"), act("last", "next")))
    assert result.status == "success"
    assert log == ["last", "slow"]


async def test_a_step_waits_for_every_one_of_its_dependencies():
    log: list[str] = []

    def logging(name: str) -> Callable[[Any], Awaitable[None]]:
        async def behave(ctx):
            await trio.lowlevel.checkpoint()
            log.append(name)

        return behave

    host = host_of({name: logging(name) for name in "abcd"})
    await run(flow(host, act("d", "a", "b", "c"), act("a"), act("b", "a"), act("c", "a")))
    assert log[0] == "a"
    assert sorted(log[1:3]) == ["b", "c"]
    assert log[3] == "d"


@pytest.mark.parametrize("limit", [1, 3, 10])
async def test_as_many_steps_run_at_once_as_allowed_and_no_more(limit, autojump_clock):
    running, most, levels = 0, 0, []

    async def busy(ctx):
        nonlocal running, most
        running += 1
        most = max(most, running)
        await trio.sleep(1)
        levels.append(running)
        running -= 1

    steps = [act(f"s{n}") for n in range(30)]
    host = host_of({step["id"]: busy for step in steps})
    started = trio.current_time()
    await run(flow(host, *steps, config={"max_concurrent_steps": limit}))
    assert most == limit
    assert trio.current_time() - started == pytest.approx(30 / limit)  # every slot is used all the time


async def test_a_free_slot_is_taken_at_once_though_others_run_on(autojump_clock):
    ends: dict[str, float] = {}

    def lasting(seconds: float) -> Callable[[Any], Awaitable[None]]:
        async def behave(ctx):
            await trio.sleep(seconds)
            ends[ctx.step_id] = trio.current_time()

        return behave

    host = host_of({"long": lasting(10), "a": lasting(1), "b": lasting(1), "c": lasting(1)})
    start = trio.current_time()
    await run(flow(host, *map(act, ("long", "a", "b", "c")), config={"max_concurrent_steps": 2}))
    assert {name: end - start for name, end in ends.items()} == pytest.approx({"a": 1, "b": 2, "c": 3, "long": 10})


async def test_steps_that_may_start_together_start_in_the_order_of_the_document():
    names = [f"s{n}" for n in (5, 3, 9, 1, 7, 0, 2, 8, 6, 4)]
    for _ in range(10):  # trio runs new tasks in any order
        observer = Recorder()
        await run(flow(host_of(), *map(act, names)), observers=[observer])
        assert [event.step_id for event in observer.events if isinstance(event, StepStarted)] == names


async def test_dependents_of_a_step_start_in_the_order_of_the_document():
    for _ in range(10):
        observer = Recorder()
        steps = [act("root"), act("c", "root"), act("a", "root"), act("b", "root")]
        await run(flow(host_of(), *steps), observers=[observer])
        assert [each.step_id for each in observer.events if isinstance(each, StepStarted)] == ["root", "c", "a", "b"]


async def test_a_chain_of_ten_thousand_steps_runs():
    result = await run(flow(host_of(), *chain(10_000)))
    assert result.status == "success"
    assert len(result.step_results) == 10_000


async def test_steps_that_wait_for_nothing_let_other_tasks_have_their_turn(monkeypatch):
    """Steps that follow each other run in one task, and the clock says when it has had the loop for long enough."""
    seconds = itertools.count(0, 0.001)
    monkeypatch.setattr("time.perf_counter", lambda: next(seconds))
    turns = 0

    async def others():
        nonlocal turns
        while True:
            await trio.lowlevel.checkpoint()
            turns += 1

    async with trio.open_nursery() as nursery:
        nursery.start_soon(others)
        result = await run(flow(host_of(), *chain(100)))
        during = turns
        nursery.cancel_scope.cancel()
    assert result.status == "success"
    assert during >= 100 / 7, "a turn every five steps, and those of the run's start and end"


async def test_a_chain_of_steps_that_wait_for_nothing_can_be_cancelled_from_outside(monkeypatch):
    seconds = itertools.count(0, 0.001)
    monkeypatch.setattr("time.perf_counter", lambda: next(seconds))
    ran: list[str] = []

    async def note(ctx):
        ran.append(ctx.step_id)

    async with trio.open_nursery() as nursery:

        async def end_it():
            while len(ran) < 10:
                await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()

        nursery.start_soon(end_it)
        await run(flow(host_of({f"s{n}": note for n in range(1000)}), *chain(1000)))
        pytest.fail("it ran to its end")
    assert 10 <= len(ran) <= 30


async def test_an_observer_hears_of_a_step_before_the_next_but_one_begins():
    """Also where no step waits for anything: so that what it does about it, as cancelling the run, is not too late."""
    heard: list[str] = []
    behind: list[int] = []

    class Listener:
        async def observe(self, event: RunEvent) -> None:
            if isinstance(event, StepFinished):
                heard.append(event.step_id)

    async def note(ctx):
        behind.append(int(ctx.step_id[1:]) - len(heard))

    await run(flow(host_of({f"s{n}": note for n in range(50)}), *chain(50)), observers=[Listener()])
    assert max(behind) <= 2


async def test_ten_thousand_steps_side_by_side_run_and_a_step_after_all_of_them():
    wide = [act(f"s{n}", "root") for n in range(10_000)]
    result = await run(flow(host_of(), act("root"), *wide, act("join", *(step["id"] for step in wide))))
    assert result.status == "success"


async def test_a_failure_at_the_head_of_a_long_chain_skips_the_rest_without_recursion():
    async def broken(ctx):
        raise ValueError("no")

    result = await run(flow(host_of({"s0": broken}), *chain(10_000)))
    assert set(list(statuses(result).values())[1:]) == {"skipped"}
    assert result.step_results["s9999"].reason == "step 's0' failed"


async def test_runs_of_one_session_go_on_side_by_side():
    met = [trio.Event(), trio.Event()]

    async def meet(ctx):
        mine, other = (met[0], met[1]) if ctx.run_id == "one" else (met[1], met[0])
        mine.set()
        await other.wait()

    workflow = flow(host_of({"a": meet}), act("a"))
    with trio.fail_after(60):
        async with treadle.open(host=workflow.host) as session, trio.open_nursery() as nursery:
            for run_id in ("one", "two"):
                nursery.start_soon(lambda run_id=run_id: session.run(workflow, run_id=run_id))
