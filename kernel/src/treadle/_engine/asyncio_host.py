"""Sessions and streams for programs on asyncio."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Concatenate, NoReturn, ParamSpec, TypeVar

from treadle._bridges.portal import Held
from treadle._engine.session import Session, open_session
from treadle._engine.streaming import RunStream
from treadle.contracts.events import RunEvent
from treadle.contracts.journal import Journal
from treadle.contracts.results import RunResult

if TYPE_CHECKING:
    from treadle._plugins import Host

__all__ = ["AsyncioRunStream", "AsyncioSession", "open_asyncio_session"]

P = ParamSpec("P")
T = TypeVar("T")


@asynccontextmanager
async def open_asyncio_session(host: Host, journal: Journal | None) -> AsyncIterator[AsyncioSession]:
    """A session that lives on trio in a thread of its own, for a program on asyncio."""
    held = Held(partial(open_session, host, journal))
    session = await held.open_in_thread()
    try:
        yield AsyncioSession(held, session)
    finally:
        await held.close()


def _held(
    method: Callable[Concatenate[Session, P], Awaitable[T]],
) -> Callable[Concatenate[AsyncioSession, P], Coroutine[Any, Any, T]]:
    """The same in the session's thread. A cancellation of the task cancels what it began, and its end is waited for."""

    @wraps(method)
    async def call(self: AsyncioSession, /, *args: P.args, **options: P.kwargs) -> T:
        return await self._held.call(partial(method, self._session, *args, **options))

    return call


class AsyncioSession:
    """A :class:`Session` for a program on asyncio. What it runs is in the session's thread, observers too."""

    def __init__(self, held: Held[Session], session: Session) -> None:
        self.host = session.host
        self.journal = session.journal
        self._held = held
        self._session = session

    run = _held(Session.run)
    resume = _held(Session.resume)
    fork = _held(Session.fork)
    answer = _held(Session.answer)
    estimate = _held(Session.estimate)

    @wraps(Session.stream, assigned=())
    @asynccontextmanager
    async def stream(self, *args: Any, **options: Any) -> AsyncIterator[AsyncioRunStream]:
        """As :meth:`Session.stream`, except that what is wrong with the file is raised when the context is entered."""
        held = Held(partial(self._session.stream, *args, **options))  # called on trio: loading belongs to that thread
        reader = await held.open_within(self._held)
        try:
            yield AsyncioRunStream(held, reader)
        finally:
            await held.close()

    def start(self, *_: Any, **__: Any) -> NoReturn:
        """Runs that are begun by hand are for programs on trio.

        :raises RuntimeError: always.
        """
        raise RuntimeError(
            "session.start is for programs on trio; under asyncio await session.run(...) and cancel its task, "
            "or use session.stream(...) and cancel that"
        )


class AsyncioRunStream:
    """A :class:`RunStream` for a program on asyncio."""

    def __init__(self, held: Held[RunStream], reader: RunStream) -> None:
        self._held = held
        self._reader = reader

    @property
    def run_id(self) -> str:
        """The run's id."""
        return self._reader.run_id

    @property
    def result(self) -> RunResult:
        """As :attr:`RunStream.result`."""
        return self._reader.result

    def cancel(self, reason: str = "cancelled") -> None:
        """As :meth:`RunStream.cancel`."""
        self._held.thread.soon(partial(self._reader.cancel, reason))

    def __aiter__(self) -> AsyncioRunStream:
        return self

    async def __anext__(self) -> RunEvent:
        event: RunEvent | None = await self._held.call(partial(anext, self._reader, None))
        if event is None:
            raise StopAsyncIteration
        return event
