"""How many requests may be under way at once, learnt from what the provider refuses."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import trio

from treadle import Completed, Exchange, ModelRequest, RateLimitError, StreamEvent
from treadle.nurseries import lone_error

__all__ = ["AdaptiveSlots"]

_FIRST = 10
_MOST = 1024
_LONGEST_HALT = 120.0
"""Seconds. Where a provider asks for more, each request is told so by itself: waiting would look like hanging."""


class AdaptiveSlots:
    """Lets requests through, first come, first served, as many at once as the provider has been seen to take.

    It begins with 10. Each reply makes room for one more, until the provider refuses a request as one too many
    (429): that halves the room, once for all requests that were then under way. From then on it grows by one for as
    many replies as there is room for. For as long as such a refusal asks to wait, nobody is let through.
    """

    def __init__(self, most: int | None) -> None:
        self._most = most or _MOST
        self._room: float = min(_FIRST, self._most)
        self._under_way = 0
        self._round = 0
        self._not_before = float("-inf")
        self._entrance = trio.Lock()
        self._freed = trio.lowlevel.ParkingLot()

    @property
    def room(self) -> int:
        """How many requests may be under way now."""
        return int(self._room)

    @asynccontextmanager
    async def exchange(
        self, request: ModelRequest, proceed: Callable[[ModelRequest], Exchange]
    ) -> AsyncIterator[AsyncIterator[StreamEvent]]:
        """Wait for a slot, and learn from how the request fares."""
        async with self._entrance:
            while self._under_way >= self.room or trio.current_time() < self._not_before:
                if self._under_way >= self.room:
                    await self._freed.park()
                else:
                    await trio.sleep_until(self._not_before)
            self._under_way += 1
        begun_in = self._round
        try:
            async with proceed(request) as events:
                yield self._watched(events)
        except BaseException as error:
            cause = lone_error(error)
            if isinstance(cause, RateLimitError):
                self._refused(cause, begun_in)
            raise
        finally:
            self._under_way -= 1
            self._freed.unpark_all()

    async def _watched(self, events: AsyncIterator[StreamEvent]) -> AsyncIterator[StreamEvent]:
        async for event in events:
            if isinstance(event, Completed):
                self._room = min(self._most, self._room + (1 / self._room if self._round else 1))
            yield event

    def _refused(self, error: RateLimitError, begun_in: int) -> None:
        if begun_in == self._round:
            self._room = max(1.0, self._room / 2)
            self._round += 1
        if error.retry_after is not None and error.retry_after <= _LONGEST_HALT:
            self._not_before = max(self._not_before, trio.current_time() + error.retry_after)
