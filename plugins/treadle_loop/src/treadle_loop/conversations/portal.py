"""A trio of a client's own, in a thread, for programs that are synchronous or run on another loop.

The kernel's bridges serve a session, whose caller is one asyncio loop. A synchronous client is called from any thread,
many at once, and keeps its connections between the calls.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, suppress
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    import trio

__all__ = ["Portal"]

T = TypeVar("T")
R = TypeVar("R")


class PortalClosed(RuntimeError):
    """It was closed before the call, or during it."""


class Portal(Generic[T]):
    """Keeps an async context manager open in a thread in which trio runs, and makes calls within it.

    The thread starts with the first call and ends with :meth:`close`.

    :param factory: makes what is kept open.
    """

    def __init__(self, factory: Callable[[], AbstractAsyncContextManager[T]]) -> None:
        self._factory = factory
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._opened: Future[T] = Future()
        self._is_closed = False
        self._token: trio.lowlevel.TrioToken
        self._nursery: trio.Nursery
        self._closing: trio.Event

    def call(self, function: Callable[[T], Awaitable[R]]) -> R:
        """Await a function within the context, while this thread stands still.

        Where Ctrl-C breaks in, what runs is cancelled and its end is waited for.

        :raises RuntimeError: it has been closed.
        """
        future, cancel = self._begin(function)
        try:
            return future.result()
        except KeyboardInterrupt:
            cancel()
            with suppress(Exception):
                future.exception()
            raise

    async def call_on_trio(self, function: Callable[[T], Awaitable[R]]) -> R:
        """The same for a task of another trio. A cancellation is passed on, and its end waited for."""
        import trio

        token, ended = trio.lowlevel.current_trio_token(), trio.Event()
        future, cancel = self._begin(function)
        future.add_done_callback(lambda _: _soon(token, ended.set))
        try:
            await ended.wait()
        finally:
            if not ended.is_set():
                cancel()
                with trio.CancelScope(shield=True):
                    await ended.wait()
        return future.result()

    def close(self) -> None:
        """Leave the context, end the thread and wait for both. What is under way is cancelled."""
        with self._lock:
            self._is_closed = True
            thread = self._thread
        if thread is None:
            return
        with suppress(Exception):
            self._opened.result()
            _soon(self._token, self._closing.set)
        thread.join()

    def _begin(self, function: Callable[[T], Awaitable[R]]) -> tuple[Future[R], Callable[[], None]]:
        value = self._open()
        future: Future[R] = Future()
        context = contextvars.copy_context()
        scopes: list[trio.CancelScope] = []
        is_cancelled = threading.Event()

        async def there() -> None:
            import trio

            with trio.CancelScope() as scope:
                scopes.append(scope)
                if is_cancelled.is_set():
                    scope.cancel()
                try:
                    result = await function(value)
                except BaseException as error:
                    cancelled, other = _split(error)
                    if other is not None:
                        future.set_exception(other)
                    if cancelled is not None:
                        raise cancelled from None
                else:
                    future.set_result(result)

        async def guarded() -> None:
            try:
                await there()
            finally:
                if not future.done():
                    future.set_exception(PortalClosed("the client was closed while this was under way"))

        def start() -> None:
            try:
                context.run(self._nursery.start_soon, guarded)
            except RuntimeError:  # the nursery is being left
                future.set_exception(PortalClosed("the client has been closed"))

        def cancel() -> None:
            is_cancelled.set()
            _soon(self._token, lambda: [scope.cancel() for scope in scopes])

        try:
            self._token.run_sync_soon(start)
        except Exception as error:
            raise PortalClosed("the client has been closed") from error
        return future, cancel

    def _open(self) -> T:
        with self._lock:
            if self._is_closed:
                raise PortalClosed("the client has been closed")
            if self._thread is None:
                # A daemon: a program that ends with a client which nobody closed is not to hang.
                self._thread = threading.Thread(target=self._run, name="treadle-client", daemon=True)
                self._thread.start()
        return self._opened.result()

    def _run(self) -> None:
        import trio

        try:
            trio.run(self._main)
        except BaseException as error:
            if not self._opened.done():
                self._opened.set_exception(error)
            else:
                raise

    async def _main(self) -> None:
        import trio

        self._token, self._closing = trio.lowlevel.current_trio_token(), trio.Event()
        async with self._factory() as value, trio.open_nursery() as self._nursery:
            self._opened.set_result(value)
            await self._closing.wait()
            self._nursery.cancel_scope.cancel()


def _split(error: BaseException) -> tuple[BaseException | None, BaseException | None]:
    """What of it trio must have back, and what is for the caller."""
    import trio

    from treadle.nurseries import lone_error

    if isinstance(error, trio.Cancelled):
        return error, None
    if not isinstance(error, BaseExceptionGroup):
        return None, error
    cancelled, other = error.split(trio.Cancelled)
    return cancelled, None if other is None else lone_error(other)


def _soon(token: Any, function: Callable[[], object]) -> None:
    """Have it called on that trio, or not at all where that has ended."""
    import trio

    with suppress(trio.RunFinishedError):
        token.run_sync_soon(function)
