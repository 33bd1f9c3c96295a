"""Both providers are held to their contract: the real SDK against the wire server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from treadle import EmbedRequest, Provider, Usage
from treadle.contracts.secrets import SecretRef
from treadle.errors import AuthenticationError, ModelNotFoundError, ProviderError, RateLimitError, UnavailableError
from treadle.testing import check_plugin, check_provider
from treadle_openai.provider import GenericOpenAIProvider, OpenAIProvider
from treadle_openai.settings import GenericOpenAISettings, OpenAISettings

from wire.http_server import Json, Recorded, Reply
from wire.openai_server import OpenAIServer, Stream, completion, failure, text_chunks


async def test_the_plugin() -> None:
    await check_plugin("treadle_openai.plugin", offers={"provider": ["openai", "generic_openai"]})


def makers(server: OpenAIServer, monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], Provider]]:
    monkeypatch.setenv("TEST_KEY", "sk-test")
    key = SecretRef("env:TEST_KEY")
    return [
        lambda: OpenAIProvider("openai", OpenAISettings(base_url=server.api, api_key=key)),
        lambda: GenericOpenAIProvider("mine", GenericOpenAISettings(base_url=server.api, api_key=key)),
    ]


class Vectors(OpenAIServer):
    """Gives each text its length as a vector, and not in the order of the texts: the index says whose it is."""

    def default_reply(self, request: Recorded) -> Reply:
        texts = request.json.get("input")
        if texts is None:
            return super().default_reply(request)
        data = [
            {"object": "embedding", "index": index, "embedding": [float(len(text)), 1.0]}
            for index, text in reversed(list(enumerate(texts)))
        ]
        return Json({"object": "list", "data": data, "model": "e", "usage": {"prompt_tokens": 3, "total_tokens": 3}})


@pytest.mark.parametrize("which", [0, 1], ids=["openai", "generic_openai"])
async def test_replies(monkeypatch: pytest.MonkeyPatch, which: int) -> None:
    async with Vectors.open() as server:
        make = makers(server, monkeypatch)[which]
        await check_provider(make, expect="hello", embed=EmbedRequest(model="e", inputs=("a", "bb", "ccc")))


class Fails(OpenAIServer):
    """Answers everything with one failure."""

    status = 500

    def default_reply(self, request: Recorded) -> Reply:
        return failure("no", status=self.status)


FAILURES: list[tuple[int, type[ProviderError]]] = [
    (401, AuthenticationError),
    (404, ModelNotFoundError),
    (429, RateLimitError),
    (503, UnavailableError),
]


@pytest.mark.parametrize("which", [0, 1], ids=["openai", "generic_openai"])
@pytest.mark.parametrize(("status", "kind"), FAILURES, ids=[str(status) for status, _ in FAILURES])
async def test_failures(monkeypatch: pytest.MonkeyPatch, which: int, status: int, kind: type[ProviderError]) -> None:
    async with Fails.open() as failing, OpenAIServer.open() as server:
        failing.status = status  # type: ignore[attr-defined]  # open() is typed by its base
        await check_provider(makers(server, monkeypatch)[which], failing=[(makers(failing, monkeypatch)[which], kind)])


class Silent(OpenAIServer):
    """Says nothing of usage."""

    def default_reply(self, request: Recorded) -> Reply:
        if request.json.get("stream"):
            return Stream(text_chunks("hel", "lo")[:-1])
        reply: dict[str, Any] = completion("hello")
        del reply["usage"]
        return Json(reply)


async def test_usage_that_is_not_said_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Silent.open() as server:
        for make in makers(server, monkeypatch):
            await check_provider(make, usage=Usage())
