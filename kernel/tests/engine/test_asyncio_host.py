"""Programs on asyncio: a run goes to a thread of its own, and a cancellation reaches it."""

from __future__ import annotations

import asyncio
import contextvars
import threading

import pytest
import trio
import trio.lowlevel

from treadle._bridges.portal import run_for_asyncio


def test_the_result_and_the_error_come_back_to_asyncio() -> None:
    async def good() -> str:
        await trio.lowlevel.checkpoint()
        return "made on trio"

    async def bad() -> None:
        await trio.lowlevel.checkpoint()
        raise LookupError("lost")

    async def main() -> str:
        with pytest.raises(LookupError, match="lost"):
            await run_for_asyncio(bad)
        return await run_for_asyncio(good)

    assert asyncio.run(main()) == "made on trio"


def test_other_tasks_of_the_program_go_on_meanwhile() -> None:
    async def main() -> list[str]:
        seen: list[str] = []
        release = threading.Event()

        async def slow() -> None:
            await trio.to_thread.run_sync(release.wait)
            seen.append("trio")

        async def other() -> None:
            seen.append("asyncio")
            release.set()

        await asyncio.gather(run_for_asyncio(slow), other())
        return seen

    assert asyncio.run(main()) == ["asyncio", "trio"]


def test_a_cancelled_task_cancels_the_run_and_waits_for_its_end() -> None:
    async def main() -> list[str]:
        seen: list[str] = []
        started = asyncio.Event()
        loop = asyncio.get_running_loop()

        async def endless() -> None:
            loop.call_soon_threadsafe(started.set)
            try:
                await trio.sleep_forever()
            finally:
                seen.append("cleaned up")

        task = asyncio.create_task(run_for_asyncio(endless))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return seen

    before = threading.active_count()
    assert asyncio.run(main()) == ["cleaned up"]
    assert threading.active_count() == before


def test_a_cancellation_before_the_thread_has_begun_is_not_lost() -> None:
    async def main() -> None:
        async def endless() -> None:
            await trio.sleep_forever()

        for delay in range(5):
            task = asyncio.create_task(run_for_asyncio(endless))
            for _ in range(delay):
                await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(main())


def test_a_run_that_ends_in_spite_of_a_cancellation_gives_its_result() -> None:
    async def main() -> str:
        started = asyncio.Event()
        loop = asyncio.get_running_loop()

        async def stubborn() -> str:
            loop.call_soon_threadsafe(started.set)
            with trio.CancelScope(shield=True):
                await trio.sleep(0.05)
            return "done all the same"

        task = asyncio.create_task(run_for_asyncio(stubborn))
        await started.wait()
        task.cancel()
        return await task

    assert asyncio.run(main()) == "done all the same"


def test_context_variables_are_the_callers() -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable")

    async def main() -> str:
        variable.set("from asyncio")

        async def read() -> str:
            return variable.get()

        return await run_for_asyncio(read)

    assert asyncio.run(main()) == "from asyncio"
