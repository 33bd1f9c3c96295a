"""The provider is held to its contract against the wire server."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from treadle import EmbedRequest, Provider
from treadle.contracts.secrets import SecretRef
from treadle.errors import ModelNotFoundError, ProviderError, RateLimitError, UnavailableError
from treadle.testing import check_plugin, check_provider
from treadle_ollama.provider import OllamaProvider
from treadle_ollama.settings import OllamaSettings

from wire.http_server import Recorded, Reply
from wire.ollama_server import OllamaServer, failure


async def test_the_plugin() -> None:
    await check_plugin("treadle_ollama.plugin", offers={"provider": ["ollama"]})


def maker(server: OllamaServer, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Provider]:
    monkeypatch.setenv("TEST_KEY", "sk-test")
    settings = OllamaSettings(base_url=server.url, api_key=SecretRef("env:TEST_KEY"))
    return lambda: OllamaProvider("ollama", settings)


async def test_replies(monkeypatch: pytest.MonkeyPatch) -> None:
    async with OllamaServer.open() as server:
        await check_provider(
            maker(server, monkeypatch), expect="hello", embed=EmbedRequest(model="e", inputs=("a", "bb", "ccc"))
        )


class Fails(OllamaServer):
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
    async with Fails.open() as failing, OllamaServer.open() as server:
        failing.status = status  # type: ignore[attr-defined]  # open() is typed by its base
        await check_provider(maker(server, monkeypatch), failing=[(maker(failing, monkeypatch), kind)])
