"""An exchange may be left or cancelled at any moment: the server sees the client go, and nothing is left behind."""

from __future__ import annotations

import gc
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from providers.vendors import EVERY, VENDORS, Vendor, ask
from treadle.contracts.provider import Provider
from treadle.messages import AssistantMessage, EmbedRequest, Reasoning, ReasoningPart, TextDelta, UserMessage

from wire import anthropic_server, openai_server
from wire.exchanges import PLAIN_AND_STREAMED, response_to
from wire.http_server import Bytes, Hang, Recorded, Reply

EMBED = EmbedRequest(model="e", inputs=("a",))


def slow(vendor: Vendor) -> Reply:
    """A stream that takes longer than any test."""
    return vendor.streamed(vendor.begun(*(f"{n} " for n in range(1000))), pause=0.01)


async def nothing_is_left(recwarn: pytest.WarningsRecorder) -> None:
    gc.collect()
    await trio.lowlevel.checkpoint()
    assert [str(each.message) for each in recwarn] == []


@EVERY
async def test_leaving_a_stream_early_ends_it_at_the_server(vendor: Vendor, recwarn: pytest.WarningsRecorder) -> None:
    async with vendor.server.open() as server, vendor.build(server.url) as provider:
        await response_to(provider, ask(vendor))  # the SDK is loaded, one idle connection is there
        await wait_all_tasks_blocked()
        tasks = trio.lowlevel.current_statistics().tasks_living
        server.reply(*(slow(vendor) for _ in range(8)))
        for turn in range(8):
            async with provider.exchange(ask(vendor, stream=True)) as events:
                assert [await anext(events) for _ in range(turn % 4)] == [TextDelta(f"{n} ") for n in range(turn % 4)]
                await server.until(lambda it, turn=turn: len(it.requests) == turn + 2)
            await server.until(lambda it, turn=turn: (it.disconnects, it.connections) == (turn + 1, 0))
        await wait_all_tasks_blocked()
        # One less than before: the server's task of the connection that was idle.
        assert trio.lowlevel.current_statistics().tasks_living == tasks - 1
    await nothing_is_left(recwarn)


@pytest.mark.parametrize("received", [0, 1, 3])
@EVERY
async def test_cancelling_a_stream_ends_it_at_the_server(vendor: Vendor, received: int) -> None:
    async with vendor.server.open() as server, vendor.build(server.url) as provider:
        server.reply(slow(vendor) if received else Hang())
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:

                async def consume() -> None:
                    async with provider.exchange(ask(vendor, stream=True)) as events:
                        for _ in range(received):
                            await anext(events)
                        if received:
                            scope.cancel()
                        await anext(events)
                        raise AssertionError("it was cancelled")

                nursery.start_soon(consume)
                await server.until(lambda it: len(it.requests) == 1)
                if not received:
                    scope.cancel()
        assert scope.cancelled_caught
        await server.until(lambda it: it.disconnects == 1 and it.connections == 0)


@EVERY
async def test_cancelling_a_plain_exchange_or_an_embedding_ends_it_at_the_server(vendor: Vendor) -> None:
    async with vendor.server.open() as server, vendor.build(server.url) as provider:
        works: list[Callable[[], Awaitable[Any]]] = [lambda: response_to(provider, ask(vendor))]
        if vendor.vectors is not None:
            works.append(lambda: provider.embed(EMBED))
        server.reply(*(Hang() for _ in works))
        async with trio.open_nursery() as nursery:
            for work in works:
                nursery.start_soon(work)
            await server.until(lambda it: len(it.requests) == len(works))
            nursery.cancel_scope.cancel()
        await server.until(lambda it: it.disconnects == len(works) and it.connections == 0)


@EVERY
async def test_a_cancelled_session_closes_every_connection(vendor: Vendor) -> None:
    late: Any = vendor.reply(False, "hello")
    async with vendor.server.open() as server:
        with trio.CancelScope() as scope:
            async with vendor.build(server.url) as provider:
                async with trio.open_nursery() as nursery:
                    for number in range(5):
                        server.reply(replace(late, delay=0.05))
                        nursery.start_soon(response_to, provider, ask(vendor, str(number)))
                assert server.connections == 5
                scope.cancel()
                await trio.lowlevel.checkpoint()
        await server.until(lambda it: it.connections == 0)


@PLAIN_AND_STREAMED
@EVERY
async def test_an_exception_of_the_body_leaves_as_itself(vendor: Vendor, stream: bool) -> None:
    cause = KeyError("cause")

    async def fail(provider: Provider) -> None:
        async with provider.exchange(ask(vendor, stream=stream)) as events:
            await anext(events)
            raise ValueError("mine") from cause

    async with vendor.server.open() as server:
        server.reply(slow(vendor) if stream else vendor.reply(False, "x"))
        async with vendor.build(server.url) as provider:
            with pytest.raises(ValueError, match="mine") as caught:
                await fail(provider)
        assert caught.value.__cause__ is cause
        assert not isinstance(caught.value.__context__, BaseExceptionGroup)
        await server.until(lambda it: it.connections == 0)


# --- at any step ------------------------------------------------------------------------------------

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


def paused(reply: Any) -> Reply:
    """The same reply, not at once: a plain one in a connection of its own."""
    if isinstance(reply, Bytes):
        return replace(reply, delay=0.001, headers={**reply.headers, **CLOSE})
    return replace(reply, pause=0.001)


STALE = {
    "openai responses": (
        {"openai": {"summary": [], "encrypted_content": "old"}},
        "encrypted_content",
        openai_server.failure(code="invalid_encrypted_content"),
    ),
    "anthropic": (
        {"anthropic": [anthropic_server.thinking("hm", "from another account")]},
        "from another account",
        anthropic_server.failure("messages.1.content.0: Invalid `signature` in `thinking` block"),
    ),
}
"""Reasoning of an earlier turn that the server refuses, how it is known in a request, and what the server says."""


def work_of(vendor: Vendor, what: str) -> tuple[Callable[[Provider], Awaitable[Any]], Callable[[Recorded], Reply]]:
    if what == "embedding":
        assert vendor.vectors is not None
        vectors = paused(vendor.vectors([[1.0, 2.0]]))
        return lambda provider: provider.embed(EMBED), lambda _: vectors
    stream = what.endswith("streamed")
    answer = paused(vendor.reply(stream, "hello", **vendor.thought("hm")))
    if not what.startswith("asked again"):
        return lambda provider: response_to(provider, ask(vendor, stream=stream)), lambda _: answer
    data, known, refusal = STALE[vendor.name]
    earlier = AssistantMessage(parts=(ReasoningPart(text="hm", provider_data=data), *AssistantMessage.of("b").parts))
    request = ask(
        vendor,
        messages=(UserMessage.of("a"), earlier, UserMessage.of("go on")),
        reasoning=Reasoning(budget_tokens=2000),
        stream=stream,
    )
    return (
        lambda provider: response_to(provider, request),
        lambda asked: refusal if f'"{known}"' in asked.body.decode() else answer,
    )


@pytest.mark.parametrize(
    ("vendor", "what"),
    [
        *((each, what) for each in VENDORS.values() for what in ("plain", "streamed")),
        *((each, "embedding") for each in VENDORS.values() if each.vectors and each.name != "openai responses"),
        *((VENDORS[name], f"asked again {how}") for name in STALE for how in ("plain", "streamed")),
    ],
    ids=str,
)
async def test_cancelled_at_any_step_nothing_is_left(
    vendor: Vendor, what: str, monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder
) -> None:
    """In connecting, sending, waiting, reading, between two events, and in the second request of a refused one."""
    work, answer = work_of(vendor, what)
    async with vendor.server.open() as server:
        monkeypatch.setattr(server, "default_reply", answer)
        async with vendor.build(server.url) as provider:
            await work(provider)  # the SDK is loaded
            assert len(server.requests) == (2 if what.startswith("asked again") else 1)
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
            await work(provider)  # the pool is as good as new
        await server.until(lambda it: it.connections == 0)
    await nothing_is_left(recwarn)
