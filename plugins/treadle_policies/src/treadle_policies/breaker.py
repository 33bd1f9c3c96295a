"""The circuit breaker: a provider that keeps failing is left alone for a while."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import ClassVar, Literal

import trio

from treadle import (
    BadRequestError,
    Completed,
    ConfigurationError,
    Exchange,
    ModelNotFoundError,
    ModelRequest,
    RateLimitError,
    StreamEvent,
    UnavailableError,
)
from treadle.nurseries import lone_error
from treadle_policies.limits import BreakerLimits, ProviderLimits

__all__ = ["CircuitBreaker"]

_NOT_COUNTED = (RateLimitError, BadRequestError, ModelNotFoundError, ConfigurationError)
"""A provider that answers so is at work: it is busy, or the request is at fault."""


class CircuitBreaker:
    """Stands around one provider.

    Closed: requests pass, and failures in a row are counted. After ``failures`` of them it opens: requests fail at
    once, so that a fallback answers. After ``cooldown`` seconds it is half-open: one request passes as a probe. Where
    that succeeds the breaker closes, where it fails the breaker opens again.

    A refusal for too many requests (429), an error in the request itself and a cancellation count neither way.
    """

    settings_model: ClassVar[type[ProviderLimits]] = ProviderLimits

    def __init__(self, provider: str, limits: ProviderLimits) -> None:
        self._provider = provider
        self._limits: BreakerLimits | None = limits.breaker
        self._failures = 0
        self._opened: float | None = None
        self._probing = False
        self._times_opened = 0

    @property
    def state(self) -> Literal["closed", "open", "half-open"]:
        """How it stands."""
        if self._limits is None or self._opened is None:
            return "closed"
        return "open" if trio.current_time() < self._opened + self._limits.cooldown else "half-open"

    @asynccontextmanager
    async def exchange(
        self, request: ModelRequest, proceed: Callable[[ModelRequest], Exchange]
    ) -> AsyncIterator[AsyncIterator[StreamEvent]]:
        """Let the request pass, or refuse it.

        :raises UnavailableError: the breaker is open.
        """
        if self._limits is None:
            async with proceed(request) as events:
                yield events
            return
        probe = self._admit(self._limits)
        begun_in, entered, completed = self._times_opened, False, False
        failure: BaseException | None = None

        async def watched(events: AsyncIterator[StreamEvent]) -> AsyncIterator[StreamEvent]:
            nonlocal completed, failure
            try:
                async for event in events:
                    completed = completed or isinstance(event, Completed)
                    yield event
            except Exception as error:
                failure = error
                raise

        try:
            async with proceed(request) as events:
                entered = True
                yield watched(events)
        except BaseException as error:
            if not entered:
                failure = lone_error(error)  # else it is the provider's only where its events brought it
            raise
        finally:
            if probe:
                self._probing = False
            # What began before it opened says nothing of how the provider fares now.
            if begun_in == self._times_opened:
                if completed:
                    self._failures, self._opened = 0, None
                elif isinstance(failure, Exception) and not isinstance(failure, _NOT_COUNTED):
                    self._failed(self._limits)

    def _admit(self, limits: BreakerLimits) -> bool:
        """Whether the request is a probe."""
        state = self.state
        if state == "closed":
            return False
        if state == "half-open" and not self._probing:
            self._probing = True
            return True
        assert self._opened is not None
        wait = self._opened + limits.cooldown - trio.current_time()
        when = f"it is asked again in {wait:.0f} s" if wait > 0 else "one request is trying it now"
        times = "once" if self._failures == 1 else f"{self._failures} times in a row"
        raise UnavailableError(
            f"provider '{self._provider}' is not asked, as it failed {times}; {when}",
            provider=self._provider,
            retry_after=wait if wait > 0 else None,
            request_sent=False,
        )

    def _failed(self, limits: BreakerLimits) -> None:
        self._failures += 1
        if self._opened is not None or self._failures >= limits.failures:
            self._opened = trio.current_time()
            self._times_opened += 1
