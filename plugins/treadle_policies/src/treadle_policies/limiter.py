"""The rate limiter: requests wait until they are within what a provider allows."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, nullcontext
from dataclasses import fields, is_dataclass
from typing import Any, ClassVar

import trio

from treadle import Completed, Exchange, ModelRequest, StreamEvent
from treadle_policies.limits import ProviderLimits

__all__ = ["RateLimiter", "estimate_tokens"]

_MINUTE = 60.0


class RateLimiter:
    """Holds one provider to its requests and tokens per minute, and to its requests at once.

    Requests are let through in the order in which they came. Waiting ends when it is cancelled.
    """

    settings_model: ClassVar[type[ProviderLimits]] = ProviderLimits

    def __init__(self, provider: str, limits: ProviderLimits) -> None:
        self._requests = _Window(limits.requests_per_minute)
        self._tokens = _Window(limits.tokens_per_minute)
        self._at_once = trio.Semaphore(limits.max_concurrent) if limits.max_concurrent else nullcontext()
        self._turn = trio.Lock()  # first come, first served

    @asynccontextmanager
    async def exchange(
        self, request: ModelRequest, proceed: Callable[[ModelRequest], Exchange]
    ) -> AsyncIterator[AsyncIterator[StreamEvent]]:
        """Wait for the request's turn, and count what its reply came to."""
        async with self._at_once:
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


def estimate_tokens(request: ModelRequest) -> int:
    """The tokens of a request, guessed: one for four characters, a few for each message, 1,000 for an attachment."""
    return (_characters(request.messages) + _characters(request.tools)) // 4 + 4 * len(request.messages)


def _characters(value: Any) -> int:
    if isinstance(value, str):
        return len(value)
    if isinstance(value, bytes):
        return 4_000
    if isinstance(value, Mapping):
        return sum(len(str(key)) + _characters(item) for key, item in value.items())
    if isinstance(value, tuple | list):
        return sum(map(_characters, value))
    if is_dataclass(value):
        return sum(_characters(getattr(value, each.name)) for each in fields(value) if each.name != "provider_data")
    return 0
