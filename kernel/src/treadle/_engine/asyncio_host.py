"""Running trio for a program on asyncio: in a thread of its own, with cancellation passed on."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

import outcome
import trio

__all__ = ["run_for_asyncio"]

T = TypeVar("T")


async def run_for_asyncio(function: Callable[[], Awaitable[T]]) -> T:
    """Run an async function on trio in one worker thread, and wait for it on asyncio.

    A cancellation of the waiting task cancels what runs on trio; the task ends when that has ended, so nothing is
    left behind. Context variables are those of the caller.
    """
    loop = asyncio.get_running_loop()
    finished: asyncio.Future[None] = loop.create_future()
    run = _TrioRun(function)

    def thread() -> None:
        run.outcome = outcome.capture(trio.run, run.main)
        loop.call_soon_threadsafe(finished.set_result, None)

    worker = threading.Thread(target=contextvars.copy_context().run, args=(thread,), name="treadle-trio")
    worker.start()
    cancelled: asyncio.CancelledError | None = None
    while not finished.done():
        try:
            await asyncio.shield(finished)
        except asyncio.CancelledError as error:
            cancelled = error
            run.cancel()
    worker.join()
    if run.was_cancelled and cancelled is not None:
        raise cancelled
    assert run.outcome is not None, "the thread has ended"
    run.outcome.unwrap()
    return run.results[0]


class _TrioRun(Generic[T]):
    """The run in the other thread, and the way to cancel it from this one."""

    def __init__(self, function: Callable[[], Awaitable[T]]) -> None:
        self._function = function
        self._lock = threading.Lock()
        self._token: trio.lowlevel.TrioToken | None = None
        self._scope = trio.CancelScope()
        self._cancel_called = False
        self.was_cancelled = False
        self.outcome: outcome.Outcome[None] | None = None
        self.results: list[T] = []

    async def main(self) -> None:
        with self._lock:
            self._token = trio.lowlevel.current_trio_token()
            if self._cancel_called:
                self._scope.cancel()
        with self._scope:
            self.results.append(await self._function())
        self.was_cancelled = self._scope.cancelled_caught

    def cancel(self) -> None:
        with self._lock:
            self._cancel_called = True
            if self._token is not None:
                try:
                    self._token.run_sync_soon(self._scope.cancel)
                except trio.RunFinishedError:
                    return  # it ended by itself in the meantime
