"""What tests of a provider ask with, and how they read what comes back."""

from __future__ import annotations

import pytest

from treadle.contracts.provider import Provider
from treadle.messages import Completed, ModelRequest, ModelResponse, StreamEvent, ToolSpec

__all__ = ["PLAIN_AND_STREAMED", "SPEC", "collect", "events_of", "response_to"]

PLAIN_AND_STREAMED = pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])
SPEC = ToolSpec(
    name="look", description="Look up", parameters={"type": "object", "properties": {"q": {"type": "string"}}}
)


async def collect(provider: Provider, request: ModelRequest, seen: list[StreamEvent]) -> None:
    """Put the events of an exchange into a list, which keeps what came before an error."""
    async with provider.exchange(request) as events:
        async for event in events:
            seen.append(event)  # noqa: PERF401 - what came before an error is kept


async def events_of(provider: Provider, request: ModelRequest) -> list[StreamEvent]:
    """The events of an exchange."""
    seen: list[StreamEvent] = []
    await collect(provider, request, seen)
    return seen


async def response_to(provider: Provider, request: ModelRequest) -> ModelResponse:
    """The response that an exchange ends with."""
    last = (await events_of(provider, request))[-1]
    assert isinstance(last, Completed)
    return last.response
