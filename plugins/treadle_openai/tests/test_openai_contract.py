"""Both providers are held to their contract: the real SDK against the wire server."""

from __future__ import annotations

from typing import Any

from treadle import Usage
from treadle.contracts.secrets import SecretRef
from treadle.testing import check_plugin, check_provider
from treadle_openai.provider import GenericOpenAIProvider, OpenAIProvider
from treadle_openai.settings import GenericOpenAISettings, OpenAISettings

from wire.http_server import Json, Recorded, Reply
from wire.openai_server import OpenAIServer, Stream, completion, text_chunks


async def test_the_plugin() -> None:
    await check_plugin("treadle_openai.plugin", offers={"provider": ["openai", "generic_openai"]})


class Silent(OpenAIServer):
    """Says nothing of usage."""

    def default_reply(self, request: Recorded) -> Reply:
        if request.json.get("stream"):
            return Stream(text_chunks("hel", "lo")[:-1])
        reply: dict[str, Any] = completion("hello")
        del reply["usage"]
        return Json(reply)


async def test_usage_that_is_not_said_is_unknown() -> None:
    key = SecretRef("env:TEST_KEY")
    async with Silent.open() as server:
        openai, other = OpenAISettings(base_url=server.api, api_key=key), GenericOpenAISettings(base_url=server.api)
        await check_provider(lambda: OpenAIProvider("openai", openai), usage=Usage())
        await check_provider(lambda: GenericOpenAIProvider("mine", other), usage=Usage())
