"""trio for libraries whose callers may run on something else: on asyncio, or on nothing."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from typing import TypeVar

__all__ = ["await_on_callers_loop", "await_on_trio", "is_asyncio_running", "run_on_trio"]

T = TypeVar("T")


def is_asyncio_running() -> bool:
    """Whether this is called from a task of asyncio's."""
    asyncio = sys.modules.get("asyncio")  # a program that has not imported it does not run on it
    try:
        return asyncio is not None and asyncio.get_running_loop() is not None
    except RuntimeError:
        return False


async def await_on_trio(function: Callable[[], Awaitable[T]]) -> T:
    """Await a function on trio: here where that is running, else in one worker thread, while asyncio goes on.

    A cancellation of the task that waits is passed on, and the end waited for.
    """
    if not is_asyncio_running():
        return await function()
    from treadle._bridges.portal import run_for_asyncio

    return await run_for_asyncio(function)


async def await_on_callers_loop(function: Callable[[], Awaitable[T]]) -> T:
    """On trio: await a function on the asyncio loop of the program that called, or here where there is none."""
    from treadle._bridges.loops import CALLERS_LOOP, call_on

    loop = CALLERS_LOOP.get()
    return await (function() if loop is None else call_on(loop, function))


def run_on_trio(function: Callable[[], Awaitable[T]]) -> T:
    """Run a function on trio to its end. Under a running asyncio loop, which stands still, it has a thread to itself.

    :raises RuntimeError: trio is running.
    """
    import trio

    if is_asyncio_running():
        from treadle._bridges.portal import run_in_thread

        return run_in_thread(function)
    return trio.run(function)
