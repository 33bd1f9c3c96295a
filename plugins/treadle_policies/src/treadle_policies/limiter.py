"""The rate limiter: requests wait until they are within what a provider allows."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, nullcontext
from typing import ClassVar

import trio

from treadle import Completed, Exchange, ModelRequest, StreamEvent
from treadle_policies.adaptive import AdaptiveSlots
from treadle_policies.estimate import estimate_tokens
from treadle_policies.limits import ProviderLimits

__all__ = ["RateLimiter"]

_MINUTE = 60.0


class RateLimiter:
    """Holds one provider to its requests and tokens per minute, and to its requests at once.

    Requests are let through in the order in which they came. Waiting ends when it is cancelled.
    """

    settings_model: ClassVar[type[ProviderLimits]] = ProviderLimits

    def __init__(self, provider: str, limits: ProviderLimits) -> None:
        self._requests = _Window(limits.requests_per_minute)
        self._tokens = _Window(limits.tokens_per_minute)
        self._adaptive = AdaptiveSlots(limits.max_concurrent) if limits.adaptive else None
        fixed = None if limits.adaptive else limits.max_concurrent
        self._at_once = trio.Semaphore(fixed) if fixed else nullcontext()
        self._turn = trio.Lock()  # first come, first served

    @asynccontextmanager
    async def exchange(
        self, request: ModelRequest, proceed: Callable[[ModelRequest], Exchange]
    ) -> AsyncIterator[AsyncIterator[StreamEvent]]:
        """Wait for the request's turn, and count what its reply came to."""
        if self._adaptive is not None:
            async with self._adaptive.exchange(request, lambda request: self._paced(request, proceed)) as events:
                yield events
        else:
            async with self._at_once, self._paced(request, proceed) as events:
                yield events

    @asynccontextmanager
    async def _paced(
        self, request: ModelRequest, proceed: Callable[[ModelRequest], Exchange]
    ) -> AsyncIterator[AsyncIterator[StreamEvent]]:
        estimated = estimate_tokens(request) if self._tokens.limit else 0
        async with self._turn:
            await self._requests.wait_for(1)
            await self._tokens.wait_for(estimated)
            self._requests.add(1)
            self._tokens.add(estimated)
        async with proceed(request) as events:
            yield self._counted(events, estimated) if self._tokens.limit else events

    async def _counted(self, events: AsyncIterator[StreamEvent], estimated: int) -> AsyncIterator[StreamEvent]:
        async for event in events:
            if isinstance(event, Completed):
                usage = event.response.usage
                read = estimated if usage.input_tokens is None else usage.input_tokens
                # What was read beyond the estimate, and what was written. An estimate that was too high stays: it was
                # what others waited for.
                self._tokens.add(max(0, read - estimated) + (usage.output_tokens or 0))
            yield event


class _Window:
    """What was spent in the last 60 seconds, of at most ``limit``; anything where that is None.

    It remembers every spending instead of refilling a bucket: a bucket that is full lets twice the limit through in
    one minute, once what is in it and once what flows in.
    """

    def __init__(self, limit: int | None) -> None:
        self.limit = limit
        self._spent: deque[tuple[float, int]] = deque()
        self._total = 0

    def add(self, amount: int) -> None:
        """Spend it, allowed or not."""
        if self.limit is not None and amount:
            self._spent.append((trio.current_time(), amount))
            self._total += amount

    async def wait_for(self, amount: int) -> None:
        """Wait until so much may be spent; more than the limit may once nothing else was spent for a minute."""
        if self.limit is None:
            return
        wanted = min(amount, self.limit)
        while True:
            now = trio.current_time()
            while self._spent and now >= self._spent[0][0] + _MINUTE:
                self._total -= self._spent.popleft()[1]
            if self._total + wanted <= self.limit:
                return
            await trio.sleep_until(self._spent[0][0] + _MINUTE)
