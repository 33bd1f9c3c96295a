"""An exchange may end at any of its awaits: the server sees the client go, and nothing is left behind."""

from __future__ import annotations

import gc
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from treadle.messages import AssistantMessage, EmbedRequest, ModelRequest, ReasoningPart, UserMessage
from treadle_openai.provider import OpenAIProvider
from treadle_openai.settings import OpenAISettings

from wire.http_server import Json, Recorded, Reply
from wire.openai_responses import message, reasoning, response
from wire.openai_server import OpenAIServer, Stream, completion, failure, response_stream, text_chunks

Work = Callable[[OpenAIProvider], Awaitable[None]]

MOST_STEPS = 200
CLOSE = {"connection": "close"}  # so that each exchange opens a connection, which may be cancelled too


class CancelAt(trio.abc.Instrument):
    """Cancels a scope right before the n-th step of the task that owns it, or of a task below that one."""

    def __init__(self, scope: trio.CancelScope, step: int) -> None:
        self.scope, self.left = scope, step
        self.root = trio.lowlevel.current_task()

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        above: trio.lowlevel.Task | None = task
        while above is not None and above is not self.root:
            above = above.parent_nursery.parent_task if above.parent_nursery else None
        if above is None:
            return
        self.left -= 1
        if self.left == 0:
            self.scope.cancel()


def asking(**fields: Any) -> Work:
    request = ModelRequest(**{"model": "gpt-5-mini", "messages": (UserMessage.of("hi"),), **fields})

    async def work(provider: OpenAIProvider) -> None:
        async with provider.exchange(request) as events:
            async for _ in events:
                pass

    return work


async def embedding(provider: OpenAIProvider) -> None:
    await provider.embed(EmbedRequest(model="e", inputs=("a",)))


THOUGHT = ReasoningPart(provider_data={"openai": {"summary": [], "encrypted_content": "old"}})
EARLIER = (AssistantMessage(parts=(THOUGHT,)), UserMessage.of("go on"))
WHOLE = response(reasoning("hm"), message("hello"))
VECTORS = {"model": "e", "data": [{"index": 0, "embedding": [1, 2]}], "usage": {"prompt_tokens": 2}}


def asked_again(request: Recorded) -> Reply:
    """The first time, the server cannot read the reasoning."""
    if any(item.get("type") == "reasoning" for item in request.json["input"]):
        return failure(code="invalid_encrypted_content")
    return response_stream(WHOLE, pause=0.001)


@pytest.mark.parametrize(
    ("api", "work", "answer"),
    [
        ("completions", asking(), lambda _: Json(completion(), headers=CLOSE, delay=0.001)),
        ("completions", asking(stream=True), lambda _: Stream(text_chunks("a", "b", "c"), pause=0.001)),
        ("responses", asking(), lambda _: Json(WHOLE, headers=CLOSE, delay=0.001)),
        ("responses", asking(stream=True), lambda _: response_stream(WHOLE, pause=0.001)),
        ("responses", asking(stream=True, messages=EARLIER), asked_again),
        ("completions", embedding, lambda _: Json(VECTORS, headers=CLOSE, delay=0.001)),
    ],
    ids=["chat", "chat-stream", "responses", "responses-stream", "responses-asked-again", "embeddings"],
)
async def test_cancelled_at_any_step_nothing_is_left(
    server: OpenAIServer,
    monkeypatch: pytest.MonkeyPatch,
    recwarn: pytest.WarningsRecorder,
    api: Any,
    work: Work,
    answer: Callable[[Recorded], Reply],
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789abcdef")
    async with OpenAIProvider("openai", OpenAISettings(base_url=server.url, api=api)) as provider:
        monkeypatch.setattr(server, "default_reply", answer)
        await work(provider)  # the SDK is loaded
        await wait_all_tasks_blocked()
        tasks = trio.lowlevel.current_statistics().tasks_living
        cancelled = 0
        for step in range(1, MOST_STEPS):
            with trio.CancelScope() as scope:
                watch = CancelAt(scope, step)
                trio.lowlevel.add_instrument(watch)
                try:
                    await work(provider)
                    break
                finally:
                    trio.lowlevel.remove_instrument(watch)
            assert scope.cancelled_caught
            cancelled += 1
        else:
            pytest.fail("it never came to its end")
        assert cancelled >= 2
        # At most the connection of the last exchange, which came to its end, is still there; and no task of ours.
        await server.until(lambda it: it.connections <= 1)
        await wait_all_tasks_blocked()
        assert trio.lowlevel.current_statistics().tasks_living <= tasks
    await server.until(lambda it: it.connections == 0)
    gc.collect()
    await trio.lowlevel.checkpoint()
    assert [str(each.message) for each in recwarn] == []


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
