"""Streams that can be left at any moment without leaving anything behind.

An async generator that is abandoned between two items (an SDK's, or a chain of them) is closed by the garbage
collector, too late and with warnings, and its connection stays open. So the generator is run to its end, or to
its cancellation, in a task of its own that never waits for its reader: it is always inside its own read when the
cancellation comes, and unwinds as it was written to.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Generic, TypeVar

import trio

__all__ = ["Pumped", "pumped"]

T = TypeVar("T")

_DRAIN_SECONDS = 0.25
"""How long a reader that has all it wanted lets the rest of the body come in, to keep the connection."""


@dataclass(frozen=True, slots=True)
class _Failure:
    error: Exception


class Pumped(Generic[T]):
    """The items of a source, as they come. Raises what the source raised, after the items before it."""

    def __init__(self, items: trio.MemoryReceiveChannel[T | _Failure]) -> None:
        self._items = items
        self._failure: _Failure | None = None
        self._complete = False

    def __aiter__(self) -> Pumped[T]:
        return self

    async def __anext__(self) -> T:
        if self._failure is not None:
            raise self._failure.error
        try:
            item = await self._items.receive()
        except trio.EndOfChannel:
            raise StopAsyncIteration from None
        if isinstance(item, _Failure):
            self._failure = item
            raise item.error
        return item

    async def arrived(self) -> list[T]:
        """Everything that has come since the last call, at least one item; empty at the end of the source.

        Much cheaper than one item at a time where a source gives many small ones.
        """
        try:
            batch = [await anext(self)]
        except StopAsyncIteration:
            return []
        while True:
            try:
                item = self._items.receive_nowait()
            except (trio.WouldBlock, trio.EndOfChannel):
                return batch
            if isinstance(item, _Failure):
                self._failure = item
                return batch
            batch.append(item)

    def complete(self) -> None:
        """The reader has all it wants: on leaving, the source gets a moment to end by itself."""
        self._complete = True

    async def _drain(self) -> None:
        if self._complete:
            with trio.move_on_after(_DRAIN_SECONDS):
                async for _ in self._items:
                    pass


@asynccontextmanager
async def pumped(source: Callable[[], AbstractAsyncContextManager[AsyncIterator[T]]]) -> AsyncIterator[Pumped[T]]:
    """Run the source in a task of its own and give its items; leaving cancels it.

    What the source raises is raised to whoever iterates; what the body raises leaves as itself, never wrapped
    in an exception group. Items wait in memory until they are read, so a source must be bounded.
    """
    send, receive = trio.open_memory_channel[T | _Failure](math.inf)

    async def run() -> None:
        with send:
            try:
                async with source() as items:
                    async for item in items:
                        send.send_nowait(item)
            except Exception as error:
                send.send_nowait(_Failure(error))

    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(run)
            stream = Pumped(receive)
            yield stream
            await stream._drain()
            nursery.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        # The nursery wraps whatever the body raised. One layer is taken off, not more: the body may have
        # raised a group of its own.
        others = [error for error in group.exceptions if not isinstance(error, trio.Cancelled)]
        if len(others) != 1:
            raise
        error = others[0]
        context = error.__context__
        try:
            raise error
        finally:
            error.__context__ = context  # not the group, which holds the error itself
            del error, others
