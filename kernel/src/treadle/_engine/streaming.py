"""A run whose events are iterated by the program that started it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import trio

from treadle.contracts.events import RunEvent
from treadle.contracts.results import RunResult
from treadle.nurseries import open_nursery

if TYPE_CHECKING:
    from treadle._engine.run import Run

__all__ = ["RunStream", "stream"]


class RunStream:
    """A run under way: iterating gives its events, to the last. Made by :meth:`Session.stream`.

    A slow reader does not slow the run down: what it has not read yet is kept, and text of a step is joined.
    """

    def __init__(self) -> None:
        self._run: Run
        self._result: RunResult | None = None
        self._left = False
        self._send, self._receive = trio.open_memory_channel[RunEvent](0)

    @property
    def run_id(self) -> str:
        """The run's id."""
        return self._run.run_id

    @property
    def result(self) -> RunResult:
        """What came of the run; there once the iteration has ended, or the context has been left.

        :raises RuntimeError: the run has not ended.
        """
        if self._result is None:
            raise RuntimeError("the run has not ended; iterate its events to the end, or leave the context, first")
        return self._result

    def cancel(self, reason: str = "cancelled") -> None:
        """End the run: running steps are cancelled, finished ones keep what they made. Events go on to the last."""
        self._run.cancel(reason)

    def __aiter__(self) -> RunStream:
        return self

    async def __anext__(self) -> RunEvent:
        try:
            return await self._receive.receive()
        except trio.EndOfChannel:
            raise StopAsyncIteration from None

    async def observe(self, event: RunEvent) -> None:
        """Hand an event to the reader, once it asks for one; nobody reads after the context has been left."""
        if not self._left:
            try:
                await self._send.send(event)
            except trio.BrokenResourceError:
                return  # left while this event was waiting

    async def _execute(self) -> None:
        # On an error the channel stays open, so that the reader ends by it and not by a run that seems to be over.
        self._result = await self._run.execute()
        self._send.close()

    def _leave(self) -> None:
        self._left = True
        self._receive.close()
        if self._result is None:
            self._run.cancel("its events were left before the end")


@asynccontextmanager
async def stream(reader: RunStream, run: Run) -> AsyncIterator[RunStream]:
    """Run while the context lasts. ``reader`` is among the observers of the run."""
    reader._run = run
    async with open_nursery() as nursery:
        nursery.start_soon(reader._execute)
        try:
            yield reader
        finally:
            reader._leave()
