"""Every provider is held to the contract of its kind, and every plugin to what it declares."""

from __future__ import annotations

from collections.abc import Callable

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


def maker(vendor: Vendor, server: WireServer) -> Callable[[], Provider]:
    return lambda: vendor.build(server.url)


@EVERY
async def test_replies(vendor: Vendor, monkeypatch: pytest.MonkeyPatch) -> None:
    embed = None if vendor.vectors is None else EmbedRequest(model="e", inputs=("a", "bb", "ccc"))
    async with vendor.server.open() as server:
        await check_provider(maker(vendor, server), expect="hello", embed=embed)


@pytest.mark.parametrize(("status", "kind"), FAILURES, ids=[str(status) for status, _ in FAILURES])
@EVERY
async def test_failures(
    vendor: Vendor, monkeypatch: pytest.MonkeyPatch, status: int, kind: type[ProviderError]
) -> None:
    def fails(_: Recorded) -> Reply:
        return vendor.failure("no", status=status)

    async with vendor.server.open() as failing, vendor.server.open() as server:
        monkeypatch.setattr(failing, "default_reply", fails)
        await check_provider(maker(vendor, server), failing=[(maker(vendor, failing), kind)])
