"""trio in a thread of its own, for programs that run on something else; cancellation is passed on both ways."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Any, Generic, TypeVar

import trio

from treadle._bridges.loops import CALLERS_LOOP
from treadle.nurseries import open_nursery

__all__ = ["Held", "run_for_asyncio", "run_in_thread"]

T = TypeVar("T")
R = TypeVar("R")


async def run_for_asyncio(function: Callable[[], Awaitable[T]]) -> T:
    """Run an async function on trio in one worker thread, and wait for it on asyncio.

    A cancellation of the waiting task cancels what runs on trio; the task ends when that has ended, so nothing is
    left behind. Context variables are those of the caller.
    """
    held = Held(_nothing)
    await held.open_in_thread()
    try:
        return await held.call(function)
    finally:
        await held.close()


def run_in_thread(function: Callable[[], Awaitable[T]]) -> T:
    """Run an async function on trio in a worker thread, while this one stands still.

    Ctrl-C cancels it, and is raised when it has ended.
    """
    thread = _TrioThread()
    results: list[T] = []

    async def main() -> None:
        with trio.CancelScope() as scope:
            thread.begin(scope.cancel)
            results.append(await function())

    try:
        thread.start(main)
        thread.join()
    except KeyboardInterrupt:
        thread.cancel()
        thread.join()
        raise
    if thread.error is not None:
        raise thread.error
    return results[0]


@asynccontextmanager
async def _nothing() -> AsyncIterator[None]:
    yield


class _TrioThread:
    """A thread in which trio runs, and the way to have something done there."""

    def __init__(self) -> None:
        self.error: BaseException | None = None
        self._lock = threading.Lock()
        self._token: trio.lowlevel.TrioToken | None = None
        self._cancel: Callable[[], object] | None = None
        self._is_cancelled = False
        self._thread: threading.Thread | None = None
        self._is_over = threading.Event()

    def start(self, main: Callable[[], Awaitable[None]], ended: Callable[[], None] = lambda: None) -> None:
        """Run it. ``ended`` is called in the thread when all is over."""

        def thread() -> None:
            try:
                trio.run(main)
            except BaseException as error:
                self.error = error
            self._is_over.set()
            ended()

        # A daemon: a program that ends in spite of a session which nobody closed is not to hang.
        context = contextvars.copy_context()
        context.run(CALLERS_LOOP.set, None)  # each call says to which loop it belongs
        made = threading.Thread(target=context.run, args=(thread,), name="treadle-trio", daemon=True)
        self._thread = made
        made.start()

    def join(self) -> None:
        """Wait for the thread's end. Where Ctrl-C breaks in, it can be waited for again."""
        if self._thread is not None:
            # Not `join` alone: a thread that was joined and interrupted counts as ended in some Pythons. And not
            # without end: a Ctrl-C that the system gave to another thread is heard when this one wakes.
            while not self._is_over.wait(0.2):
                pass
            self._thread.join()

    def begin(self, cancel: Callable[[], object]) -> None:
        """On trio: from now on it can be reached; ``cancel`` is called at once if it was to be cancelled before."""
        with self._lock:
            self._token, self._cancel = trio.lowlevel.current_trio_token(), cancel
            if self._is_cancelled:
                cancel()

    def cancel(self) -> None:
        """From another thread: cancel all that runs there, or that will."""
        with self._lock:
            self._is_cancelled = True
        if self._cancel is not None:
            self.soon(self._cancel)

    def soon(self, function: Callable[[], object]) -> None:
        """From another thread: have it called on trio, or not at all where that has ended."""
        assert self._token is not None, "trio has begun"
        with suppress(trio.RunFinishedError):
            self._token.run_sync_soon(function)


class Held(Generic[T]):
    """A context manager of trio's that is open for a program on asyncio, which makes calls within it.

    What is called ends at the latest with the context. Every method but :meth:`main` is for asyncio.
    """

    def __init__(self, factory: Callable[[], AbstractAsyncContextManager[T]]) -> None:
        self._factory = factory
        self._loop = asyncio.get_running_loop()
        self._opened: asyncio.Future[T] = self._loop.create_future()
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._scope = trio.CancelScope()
        self._closing = trio.Event()
        self._error: BaseException | None = None
        self._nursery: trio.Nursery
        self.thread: _TrioThread
        self._owns_thread = False

    async def main(self) -> None:
        """On trio: hold it open until it is to be closed."""
        try:
            with self._scope:
                if self._owns_thread:
                    self.thread.begin(self._scope.cancel)
                async with self._factory() as value, open_nursery() as self._nursery:
                    self._settle(self._opened, value)
                    await self._closing.wait()
                    self._nursery.cancel_scope.cancel()
        except BaseException as error:
            if _is_cancellation(error):
                raise
            self._error = error
        finally:
            if not self._owns_thread:  # that has ended only when trio has
                self._settle(self._ended, None)

    async def open_in_thread(self) -> T:
        """Enter the context, in a thread with a trio of its own."""
        self._owns_thread = True
        self.thread = _TrioThread()
        self.thread.start(self.main, lambda: self._settle(self._ended, None))
        return await self._open(self.thread.cancel)

    async def open_within(self, outer: Held[Any]) -> T:
        """Enter the context, in a task within another one."""
        self.thread = outer.thread
        outer._start(self.main)
        return await self._open(lambda: self.thread.soon(self._scope.cancel))

    async def _open(self, cancel: Callable[[], object]) -> T:
        cancelled = await self._first_of(self._opened, cancel)
        if cancelled is not None or self._ended.done():
            await self._first_of(self._ended, cancel)
            self._end()
            raise cancelled or RuntimeError("the session has been closed")
        return self._opened.result()

    async def call(self, function: Callable[[], Awaitable[R]]) -> R:
        """Await a function on trio within the context. A cancellation is passed on, and its end waited for.

        :raises RuntimeError: the context has been left.
        """
        if self._ended.done():
            raise RuntimeError("the session has been closed")
        finished: asyncio.Future[None] = self._loop.create_future()
        scope = trio.CancelScope()
        results: list[R] = []
        errors: list[BaseException] = []

        async def there() -> None:
            try:
                with scope:
                    results.append(await function())
            except BaseException as error:
                if _is_cancellation(error):
                    raise
                errors.append(error)
            finally:
                self._settle(finished, None)

        self._start(there)
        cancelled = await self._first_of(finished, lambda: self.thread.soon(scope.cancel))
        if errors:
            raise errors[0]
        if results:
            return results[0]
        if cancelled is not None:
            raise cancelled
        # It was ended with the context, by an error of that or because it was left meanwhile.
        await self._first_of(self._ended, self.cancel)
        self._end()
        raise RuntimeError("the session was closed while this was under way")

    def _start(self, function: Callable[[], Awaitable[None]]) -> None:
        context = contextvars.copy_context()
        context.run(CALLERS_LOOP.set, self._loop)

        def start() -> None:
            # Where the context is being left, whoever waits is told by its end.
            with suppress(RuntimeError):
                context.run(self._nursery.start_soon, function)

        self.thread.soon(start)

    def cancel(self) -> None:
        """Cancel all within the context."""
        self.thread.soon(self._scope.cancel)

    async def close(self) -> None:
        """Leave the context.

        :raises BaseException: whatever leaving it raised, or had ended it before.
        """
        self.thread.soon(self._closing.set)
        cancelled = await self._first_of(self._ended, self.cancel)
        self._end()
        if cancelled is not None:
            raise cancelled

    def _end(self) -> None:
        if self._owns_thread:
            self.thread.join()
            self._error = self._error or self.thread.error
        if self._error is not None:
            raise self._error

    async def _first_of(
        self, awaited: asyncio.Future[Any], cancel: Callable[[], object]
    ) -> asyncio.CancelledError | None:
        """Wait for that or for the end of the context. A cancellation calls ``cancel``, and is given back."""
        cancelled: asyncio.CancelledError | None = None
        while not (awaited.done() or self._ended.done()):
            try:
                await asyncio.wait({awaited, self._ended}, return_when=asyncio.FIRST_COMPLETED)
            except asyncio.CancelledError as error:
                cancelled = error
                cancel()
        return cancelled

    def _settle(self, future: asyncio.Future[Any], value: Any) -> None:
        def settle() -> None:
            if not future.done():
                future.set_result(value)

        with suppress(RuntimeError):  # the loop has been closed; nobody waits
            self._loop.call_soon_threadsafe(settle)


def _is_cancellation(error: BaseException) -> bool:
    """Whether trio is ending the task, whatever else went wrong in doing so."""
    if isinstance(error, BaseExceptionGroup):
        return error.split(trio.Cancelled)[0] is not None
    return isinstance(error, trio.Cancelled)
