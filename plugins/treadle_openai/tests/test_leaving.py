"""An exchange may end at any of its awaits: the server sees the client go, and nothing is left behind."""

from __future__ import annotations

import gc

import pytest
import trio

from treadle.messages import ModelRequest, UserMessage
from treadle_openai.provider import OpenAIProvider
from treadle_openai.settings import OpenAISettings

from wire.openai_responses import message, reasoning, response
from wire.openai_server import OpenAIServer, response_stream


async def test_a_stream_of_reasoning_may_be_left_after_any_of_its_events(
    server: OpenAIServer, monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789abcdef")
    request = ModelRequest(model="gpt-5-mini", messages=(UserMessage.of("hi"),), stream=True)

    whole = response(reasoning("a", "b"), message("hello"), status="hangs")
    async with OpenAIProvider("openai", OpenAISettings(base_url=server.url, api="responses")) as provider:
        for taken in range(4):
            server.reply(response_stream(whole, then="hang"))
            async with provider.exchange(request) as events:
                for _ in range(taken):
                    await anext(events)
                await server.until(lambda it, seen=taken: len(it.requests) == seen + 1)
            await server.until(lambda it, seen=taken: it.disconnects == seen + 1 and it.connections == 0)
    gc.collect()
    await trio.lowlevel.checkpoint()
    assert [str(each.message) for each in recwarn] == []
