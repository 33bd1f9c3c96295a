"""Every provider is held to the contract of its kind, and every plugin to what it declares."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack

import pytest

from providers.vendors import EVERY, Vendor
from treadle.contracts.provider import Provider
from treadle.errors import (
    AuthenticationError,
    ModelNotFoundError,
    ProviderError,
    RateLimitError,
    UnavailableError,
)
from treadle.messages import EmbedRequest
from treadle.testing import check_provider

from wire.http_server import Recorded, Reply, WireServer

FAILURES: list[tuple[int, type[ProviderError]]] = [
    (401, AuthenticationError),
    (404, ModelNotFoundError),
    (429, RateLimitError),
    (503, UnavailableError),
]


@EVERY
async def test_a_provider_keeps_its_contract(vendor: Vendor, monkeypatch: pytest.MonkeyPatch) -> None:
    embed = None if vendor.vectors is None else EmbedRequest(model="e", inputs=("a", "bb", "ccc"))

    def makes(server: WireServer) -> Callable[[], Provider]:
        return lambda: vendor.build(server.url)

    def fails(status: int) -> Callable[[Recorded], Reply]:
        return lambda _: vendor.failure("no", status=status)

    async with vendor.server.open() as server, AsyncExitStack() as stack:
        failing = []
        for status, kind in FAILURES:
            failed = await stack.enter_async_context(vendor.server.open())
            monkeypatch.setattr(failed, "default_reply", fails(status))
            failing.append((makes(failed), kind))
        await check_provider(makes(server), expect="hello", embed=embed, failing=failing)
