"""The provider is held to its contract against the wire server."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from treadle import EmbedRequest, Provider
from treadle.contracts.secrets import SecretRef
from treadle.errors import ModelNotFoundError, ProviderError, RateLimitError, UnavailableError
from treadle.testing import check_plugin, check_provider
from treadle_google.provider import GoogleProvider
from treadle_google.settings import GoogleSettings

from wire.google_server import GoogleServer, failure
from wire.http_server import Recorded, Reply


async def test_the_plugin() -> None:
    await check_plugin("treadle_google.plugin", offers={"provider": ["google"]})


def maker(server: GoogleServer, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Provider]:
    monkeypatch.setenv("TEST_KEY", "sk-test")
    settings = GoogleSettings(base_url=server.url, api_key=SecretRef("env:TEST_KEY"))
    return lambda: GoogleProvider("google", settings)


async def test_replies(monkeypatch: pytest.MonkeyPatch) -> None:
    async with GoogleServer.open() as server:
        await check_provider(
            maker(server, monkeypatch), expect="hello", embed=EmbedRequest(model="e", inputs=("a", "bb", "ccc"))
        )


class Fails(GoogleServer):
    """Answers everything with one failure."""

    status = 500

    def default_reply(self, request: Recorded) -> Reply:
        return failure("no", status=self.status)


FAILURES: list[tuple[int, type[ProviderError]]] = [
    (404, ModelNotFoundError),
    (429, RateLimitError),
    (503, UnavailableError),
]


@pytest.mark.parametrize(("status", "kind"), FAILURES, ids=[str(status) for status, _ in FAILURES])
async def test_failures(monkeypatch: pytest.MonkeyPatch, status: int, kind: type[ProviderError]) -> None:
    async with Fails.open() as failing, GoogleServer.open() as server:
        failing.status = status  # type: ignore[attr-defined]  # open() is typed by its base
        await check_provider(maker(server, monkeypatch), failing=[(maker(failing, monkeypatch), kind)])
