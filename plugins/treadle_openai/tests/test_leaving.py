"""An exchange may end at any of its awaits: the server sees the client go, and nothing is left behind."""

from __future__ import annotations

import gc
from typing import Any

import pytest
import trio

from treadle.messages import ModelRequest, UserMessage
from treadle_openai.provider import OpenAIProvider
from treadle_openai.settings import OpenAISettings

from wire.openai_responses import message, reasoning, response
from wire.openai_server import OpenAIServer, Stream, response_stream, text_chunks


@pytest.mark.parametrize("api", ["completions", "responses"])
async def test_a_stream_may_be_left_after_any_of_its_events(
    server: OpenAIServer, monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder, api: Any
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789abcdef")
    request = ModelRequest(model="gpt-5-mini", messages=(UserMessage.of("hi"),), stream=True)

    def endless() -> Stream:
        if api == "responses":
            return response_stream(response(reasoning("a", "b"), message("hello"), status="hangs"), then="hang")
        return Stream(text_chunks("a", "b", "c")[:-2], done=False, then="hang")

    async with OpenAIProvider("openai", OpenAISettings(base_url=server.url, api=api)) as provider:
        for taken in range(4):
            server.reply(endless())
            async with provider.exchange(request) as events:
                for _ in range(taken):
                    await anext(events)
                await server.until(lambda it, seen=taken: len(it.requests) == seen + 1)
            await server.until(lambda it, seen=taken: it.disconnects == seen + 1 and it.connections == 0)
    gc.collect()
    await trio.lowlevel.checkpoint()
    assert [str(each.message) for each in recwarn] == []
