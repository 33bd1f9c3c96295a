"""Trying again, around any client."""

from __future__ import annotations

import inspect
import random
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

import treadle
from treadle_loop.attempts import continued
from treadle_loop.conversations.listening import ON_RETRY, has_begun
from treadle_loop.conversations.wire import as_response
from treadle_loop.errors import AgentLoopError, ProviderError, translated
from treadle_loop.provider import AttemptRecord, ModelRequest, ModelResponse
from treadle_loop.wrapping import WrappingClient, complete_on_trio

__all__ = ["RetryPolicy", "RetryingClient"]


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often, and how long between.

    :param max_attempts: in all, the first included.
    :param base_delay: seconds before the second attempt, doubled before each further one; up to half a second of
        chance comes on top.
    :param max_delay: the longest wait, also where the server asks for a longer one.
    """

    max_attempts: int = 3
    base_delay: float = 1.0
    max_delay: float = 30.0

    def __post_init__(self) -> None:
        if self.max_attempts < 1:
            raise ValueError("max_attempts is at least 1")
        if self.base_delay < 0 or self.max_delay < 0:
            raise ValueError("base_delay and max_delay are seconds, not below 0")

    def wait(self, attempt: int, retry_after: float | None = None) -> float:
        """Seconds to wait after the attempt of that number failed."""
        if retry_after is not None:
            return min(max(retry_after, 0.0), self.max_delay)
        # Chance spreads the clients that failed together; it guards nothing.
        return min(self.base_delay * 2.0 ** (attempt - 1) + random.uniform(0, 0.5), self.max_delay)


class RetryingClient(WrappingClient):
    """A client that tries again where the error says that it is worth it."""

    def __init__(self, client: Any, policy: RetryPolicy | None = None, *, sleep: Callable[[float], Any] | None = None):
        super().__init__(client)
        self.policy = policy or RetryPolicy()
        self._sleep = sleep

    def complete(self, request: ModelRequest) -> Any:
        """Send the request, and again where that may help. Awaited where the client's own is."""
        if self.is_async:
            return self._on_a_loop(request, self.client.complete)
        attempts = _attempts(self.policy)
        wait = next(attempts)
        while True:
            if wait:
                (self._sleep or time.sleep)(wait)
            try:
                response = self.client.complete(request)
            except treadle.ProviderError as error:
                wait = attempts.send(translated(error, provider=self.name))
                continue
            return _finished(attempts, response)

    async def complete_async(self, request: ModelRequest) -> ModelResponse:
        """The same on trio, whatever the client's own is."""
        return await self._on_a_loop(request, lambda each: complete_on_trio(self.client, each))

    async def _on_a_loop(self, request: ModelRequest, complete: Callable[[ModelRequest], Any]) -> ModelResponse:
        attempts = _attempts(self.policy)
        wait = next(attempts)
        while True:
            if wait:
                await self._sleep_on_loop(wait)
            try:
                response = await complete(request)
            except treadle.ProviderError as error:
                wait = attempts.send(translated(error, provider=self.name))
                continue
            return _finished(attempts, response)

    async def _sleep_on_loop(self, seconds: float) -> None:
        if self._sleep is not None:
            slept = self._sleep(seconds)
            if inspect.isawaitable(slept):
                await slept
            return
        import trio

        if trio.lowlevel.in_trio_task():
            await trio.sleep(seconds)
        else:
            import asyncio

            await asyncio.sleep(seconds)


def _attempts(policy: RetryPolicy) -> Generator[float, AgentLoopError | ModelResponse, ModelResponse]:
    """Yields the seconds to wait before each attempt, and is sent how that ended.

    It raises where no other one is made, and returns the response with what it took.
    """
    log: tuple[AttemptRecord, ...] = ()
    wait, waited = 0.0, 0.0
    for attempt in range(1, policy.max_attempts + 1):
        ended = yield wait
        if isinstance(ended, ModelResponse):
            log, waited = continued(log, ended), waited + ended.retry_wait_seconds
            return ended.model_copy(update={"attempts": len(log), "retry_wait_seconds": waited, "attempt_log": log})
        assert isinstance(ended, ProviderError)
        if log and ended.attempt_log is log:  # the very error of the attempt before, raised again
            ended.attempts, ended.retry_wait_seconds, ended.attempt_log = 1, 0.0, ()
        again = ended.retryable and attempt < policy.max_attempts and not has_begun()
        wait = policy.wait(attempt, ended.retry_after) if again else 0.0
        log, waited = continued(log, ended, wait=wait), waited + ended.retry_wait_seconds
        ended.attempts, ended.retry_wait_seconds, ended.attempt_log = len(log), waited, log
        if not again:
            raise ended
        waited += wait
        listener = ON_RETRY.get()
        if listener is not None:
            listener(len(log), ended, wait)
    raise AssertionError("the last attempt raises or returns")


def _finished(
    attempts: Generator[float, AgentLoopError | ModelResponse, ModelResponse], response: Any
) -> ModelResponse:
    try:
        attempts.send(as_response(response))
    except StopIteration as end:
        made: ModelResponse = end.value
        return made
    raise AssertionError("a response ends the attempts")
