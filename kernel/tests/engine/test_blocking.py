"""Steps that block in threads: an attempt ends when it must, the thread is left behind and named."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest
import trio
from engine_doubles import act, flow, host_of, run, statuses

import treadle
from treadle.contracts.events import RunWarning


@contextmanager
def stuck() -> Iterator[Any]:
    """A function that blocks until the test is over."""
    release = threading.Event()

    def block() -> str:
        assert release.wait(60)
        return "late"

    try:
        yield block
    finally:
        release.set()


def blocking(function: Any, *args: Any, **how: Any) -> Any:
    async def behave(ctx):
        return await ctx.run_blocking(function, *args, **how)

    return behave


async def test_a_function_runs_in_a_thread_of_its_own_and_gives_its_value():
    def add(one: int, two: int) -> list[Any]:
        return [one + two, threading.current_thread() is threading.main_thread(), threading.current_thread().name]

    host = host_of({"a": blocking(add, 1, 2), "b": blocking(add, 3, 4, name="adder")})
    result = await run(flow(host, act("a", output="a"), act("b", output="b")))
    assert result.final_state["a"][:2] == [3, False]
    assert result.final_state["a"][2].startswith("add")
    assert result.final_state["b"][2].startswith("adder")
    assert result.warnings == ()


async def test_its_error_is_the_steps():
    def bad() -> None:
        raise ValueError("no")

    result = await run(flow(host_of({"a": blocking(bad)}), act("a")))
    assert result.step_results["a"].error == "ValueError: no"
    assert result.warnings == ()


async def test_an_attempt_that_times_out_ends_and_its_thread_is_named():
    with stuck() as block:
        result = await run(flow(host_of({"a": blocking(block, name="loader")}), act("a", timeout=1), act("b", "a")))
        assert statuses(result) == {"a": "timeout", "b": "skipped"}
        assert result.warnings == (
            RunWarning(
                run_id=result.run_id,
                step_id="a",
                message="thread 'loader' of step 'a' is still running: the attempt ended without it",
            ),
        )


async def test_without_a_name_the_thread_has_the_functions():
    with stuck() as block:
        result = await run(flow(host_of({"a": blocking(block)}), act("a", timeout=1)))
        assert [each.message.split(" of ")[0] for each in result.warnings] == ["thread 'block'"]


async def test_a_run_that_is_cancelled_does_not_wait_for_its_threads():
    with stuck() as block:
        started, token = trio.Event(), trio.lowlevel.current_trio_token()

        def begin() -> str:
            token.run_sync_soon(started.set)
            value: str = block()
            return value

        host = host_of({"a": blocking(begin)})
        async with treadle.open(host=host) as session, trio.open_nursery() as nursery:
            going = session.start(flow(host, act("a")))

            @nursery.start_soon
            async def cancel() -> None:
                await started.wait()
                going.cancel("enough")

            result = await going.execute()
        assert (result.status, len(result.warnings)) == ("cancelled", 1)


def test_a_program_does_not_wait_for_them_either():
    """The session, the loop and the interpreter all end while the thread sleeps."""
    import subprocess

    program = """
import sys, threading, time
import trio
from treadle import Host, Offer, Step, StepOutcome, build_workflow, hookimpl, open
from types import ModuleType

class Block(Step):
    async def run(self, ctx):
        await ctx.run_blocking(time.sleep, 600)
        return StepOutcome()

def treadle_step_types():
    return {"block": Offer(Block, "blocks")}

plugin = ModuleType("lab")
plugin.treadle_step_types = hookimpl(treadle_step_types)
host = Host.of({"lab": plugin})

async def main():
    data = {"name": "x", "steps": [{"id": "a", "type": "block", "timeout": 0.05}], "config": {"max_retries": 0}}
    async with open(host=host) as session:
        print((await session.run(build_workflow(data, host=host))).status)

trio.run(main)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True)
    assert (done.stdout.strip(), done.stderr) == ("failed", "")


async def test_no_thread_is_started_for_an_attempt_that_is_already_over():
    called: list[int] = []

    async def late(ctx):
        with trio.CancelScope() as scope:
            scope.cancel()
            await ctx.run_blocking(called.append, 1)
        return "went on"

    result = await run(flow(host_of({"a": late}), act("a", output="x")))
    assert (called, result.final_state, result.warnings) == ([], {"x": "went on"}, ())


async def test_threads_left_behind_do_not_hinder_others():
    """64 calls at once, all stuck and left; as many more find room."""
    with stuck() as block:
        started = threading.Semaphore(0)

        def begin() -> str:
            started.release()
            return block()

        def all_started() -> None:
            for _ in range(64):
                assert started.acquire(timeout=60)

        async def many(ctx):
            async with trio.open_nursery() as nursery:
                for _ in range(64):
                    nursery.start_soon(partial(ctx.run_blocking, begin, name="block"))
                await trio.to_thread.run_sync(all_started)
                nursery.cancel_scope.cancel()
            return await ctx.run_blocking(lambda: "room")

        result = await run(flow(host_of({"a": many}), act("a", output="x")))
        assert result.final_state == {"x": "room"}
        assert [each.message for each in result.warnings] == [
            "thread 'block' of step 'a' is still running: the attempt ended without it"
        ]


@pytest.mark.parametrize(("slots", "most"), [(10, 64), (80, 80)])
async def test_how_many_calls_are_in_threads_at_once(slots, most):
    lock, enough = threading.Lock(), threading.Event()
    now, peak = 0, 0

    def count() -> None:
        nonlocal now, peak
        with lock:
            now += 1
            peak = max(peak, now)
            if now == most:
                enough.set()
        assert enough.wait(60)
        time.sleep(0.01)
        with lock:
            now -= 1

    async def many(ctx):
        async with trio.open_nursery() as nursery:
            for _ in range(most + 20):
                nursery.start_soon(ctx.run_blocking, count)

    result = await run(flow(host_of({"a": many}), act("a"), config={"max_concurrent_steps": slots}))
    assert (result.status, peak) == ("success", most)


async def test_in_a_child_the_thread_is_named_under_the_dotted_id():
    with stuck() as block:

        async def sub(ctx):
            await ctx.run_child({"name": "inner", "steps": [act("load")]})

        result = await run(flow(host_of({"sub": sub, "load": blocking(block)}), act("sub", timeout=1)))
        assert [each.step_id for each in result.warnings] == ["sub.load"]
