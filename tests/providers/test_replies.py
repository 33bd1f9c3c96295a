"""Good replies, as every provider reads them: as they are written, in any pieces, many at once."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest
import trio

from providers.vendors import EMBEDDING, EVERY, VENDORS, Call, Vendor, ask
from treadle.errors import ResponseError
from treadle.messages import (
    Completed,
    EmbedRequest,
    Reasoning,
    ReasoningDelta,
    StopReason,
    TextDelta,
    ToolCallDelta,
    Usage,
)

from wire.exchanges import PLAIN_AND_STREAMED, SPEC, events_of, response_to
from wire.http_server import Json, Recorded, Reply


@EVERY
async def test_a_streamed_reply_gives_its_text_as_it_is_written(vendor: Vendor) -> None:
    async with vendor.server.open() as server, vendor.build(server.url) as provider:
        server.reply(vendor.reply(True, "hello"))
        *deltas, last = await events_of(provider, ask(vendor, stream=True))
        assert "stream" in server.last.path.lower() or server.last.json["stream"] is True
    assert deltas == [TextDelta("hel"), TextDelta("lo")]
    assert isinstance(last, Completed)
    assert (last.response.text, last.response.stop_reason) == ("hello", StopReason.END_TURN)


@EVERY
async def test_text_is_passed_on_while_the_server_still_writes(vendor: Vendor) -> None:
    async with vendor.server.open() as server, vendor.build(server.url) as provider:
        server.reply(vendor.streamed(vendor.begun("first"), then="hang"))
        with trio.fail_after(10):
            async with provider.exchange(ask(vendor, stream=True)) as events:
                assert await anext(events) == TextDelta("first")


@EVERY
async def test_a_plain_and_a_streamed_reply_are_the_same_response(vendor: Vendor) -> None:
    calls = [Call("look", '{"q": "x"}', "a"), Call("look", '{"q": "y"}', "b")]
    async with vendor.server.open() as server, vendor.build(server.url) as provider:
        server.reply(*(vendor.reply(stream, "so", calls, **vendor.thought("hm")) for stream in (False, True)))
        plain = await response_to(provider, ask(vendor, tools=(SPEC,)))
        *deltas, last = await events_of(provider, ask(vendor, tools=(SPEC,), stream=True))
    assert isinstance(last, Completed)
    assert last.response == plain
    found = [(each.call_id, each.tool_name, each.arguments) for each in plain.message.tool_calls]
    assert found == [("a", "look", {"q": "x"}), ("b", "look", {"q": "y"})]
    assert (plain.message.reasoning, plain.text, plain.stop_reason) == ("hm", "so", StopReason.TOOL_USE)
    told = [each for each in deltas if isinstance(each, ToolCallDelta)]
    for index in range(2):
        pieces = [each for each in told if each.index == index]
        assert pieces[0].tool_name == "look"
        assert {each.call_id for each in pieces} == {"ab"[index]}
        assert json.loads("".join(each.arguments for each in pieces)) == {"q": "xy"[index]}


@PLAIN_AND_STREAMED
@EVERY
async def test_thoughts_are_kept_apart(vendor: Vendor, stream: bool) -> None:
    async with vendor.server.open() as server, vendor.build(server.url) as provider:
        server.reply(vendor.reply(stream, "yes", **vendor.thought("hm")))
        *deltas, last = await events_of(provider, ask(vendor, stream=stream))
    assert isinstance(last, Completed)
    assert (last.response.message.reasoning, last.response.text) == ("hm", "yes")
    if stream:
        assert "".join(each.text for each in deltas if isinstance(each, ReasoningDelta)) == "hm"
        assert [type(each) for each in deltas] == sorted((type(each) for each in deltas), key=lambda it: it.__name__)


@PLAIN_AND_STREAMED
@EVERY
async def test_thoughts_that_are_not_wanted_are_not_told(vendor: Vendor, stream: bool) -> None:
    request = ask(vendor, reasoning=Reasoning(capture=False), stream=stream)
    async with vendor.server.open() as server, vendor.build(server.url) as provider:
        server.reply(vendor.reply(stream, "yes", **vendor.thought("a secret thought")))
        *deltas, last = await events_of(provider, request)
    assert isinstance(last, Completed)
    assert (last.response.message.reasoning, last.response.text) == ("", "yes")
    assert all(isinstance(each, TextDelta) for each in deltas)


@EVERY
async def test_a_server_that_cannot_stream_is_understood(vendor: Vendor) -> None:
    async with vendor.server.open() as server, vendor.build(server.url) as provider:
        server.reply(vendor.reply(False, "all at once"))
        first, last = await events_of(provider, ask(vendor, stream=True))
    assert first == TextDelta("all at once")
    assert isinstance(last, Completed)
    assert last.response.text == "all at once"


@EVERY
async def test_any_cut_of_a_stream_into_pieces_gives_one_reply(vendor: Vendor) -> None:
    reply: Any = vendor.reply(True, "é😀z")
    whole = b"".join(reply.frames())
    async with vendor.server.open() as server, vendor.build(server.url) as provider:
        for size in (1, 2, 3, 7, len(whole)):
            server.reply(vendor.streamed([whole[at : at + size] for at in range(0, len(whole), size)]))
            assert (await response_to(provider, ask(vendor, stream=True))).text == "é😀z"


# Not Google: nothing but the end of its body says that a stream is whole.
@pytest.mark.parametrize("vendor", [each for each in VENDORS.values() if each.name != "google"], ids=str)
async def test_a_stream_that_never_ends_its_body_does_not_hold_the_reply_up(vendor: Vendor) -> None:
    reply: Any = vendor.reply(True, "hi")
    async with vendor.server.open() as server, vendor.build(server.url) as provider:
        server.reply(replace(reply, then="hang"))
        with trio.fail_after(5):
            assert (await response_to(provider, ask(vendor, stream=True))).text == "hi"
        await server.until(lambda it: it.connections == 0)


@EVERY
async def test_a_connection_is_used_again(vendor: Vendor) -> None:
    async with vendor.server.open() as server:
        async with vendor.build(server.url) as provider:
            for stream in (False, True, True, False):
                await response_to(provider, ask(vendor, stream=stream))
            assert server.accepted == 1
        await server.until(lambda it: it.connections == 0)


@EVERY
async def test_fifty_exchanges_at_once_get_their_own_answers(vendor: Vendor) -> None:
    answered: dict[int, str] = {}

    def echo(request: Recorded) -> Reply:
        asked = re.search(rb"question (\d+)", request.body)
        assert asked is not None
        reply: Any = vendor.reply(int(asked[1]) % 2 == 1, asked[1].decode())
        return replace(reply, pause=0.001) if hasattr(reply, "pause") else reply

    async with vendor.server.open() as server:
        server.reply(*(echo for _ in range(50)))
        async with vendor.build(server.url) as provider, trio.open_nursery() as nursery:

            async def one(number: int) -> None:
                request = ask(vendor, f"question {number}", stream=bool(number % 2))
                answered[number] = (await response_to(provider, request)).text

            for number in range(50):
                nursery.start_soon(one, number)
        assert answered == {number: str(number) for number in range(50)}
        await server.until(lambda it: it.connections == 0)


# Not Google, whose SDK sends half a pair as an escape.
@PLAIN_AND_STREAMED
@pytest.mark.parametrize("vendor", [each for each in VENDORS.values() if each.name != "google"], ids=str)
async def test_text_that_utf8_cannot_hold_does_not_break_the_request(vendor: Vendor, stream: bool) -> None:
    async with vendor.server.open() as server, vendor.build(server.url) as provider:
        await response_to(provider, ask(vendor, "half \ud83d of a pair, é", stream=stream))
    assert "half ? of a pair, é" in json.dumps(server.last.json, ensure_ascii=False)
    assert json.loads(server.last.body.decode("utf-8"))


@EMBEDDING
async def test_nothing_to_embed_asks_nothing(vendor: Vendor) -> None:
    async with vendor.server.open() as server, vendor.build(server.url) as provider:
        nothing = await provider.embed(EmbedRequest(model="e", inputs=()))
    assert (nothing.vectors, nothing.usage) == ((), Usage.ZERO)
    assert server.requests == []


@pytest.mark.parametrize(
    ("vendor", "rows"),
    [(each, rows) for each in VENDORS.values() if each.vectors for rows in ([], [[1.0]], None, [[1.0], ["x"]])],
    ids=str,
)
async def test_vectors_that_are_not_one_for_each_input_are_unreadable(vendor: Vendor, rows: Any) -> None:
    assert vendor.vectors is not None
    async with vendor.server.open() as server, vendor.build(server.url) as provider:
        server.reply(vendor.vectors(rows))
        with pytest.raises(ResponseError, match=r"answered with \d vectors for 2 inputs"):
            await provider.embed(EmbedRequest(model="e", inputs=("a", "b")))


@EMBEDDING
async def test_an_answer_without_vectors_is_unreadable(vendor: Vendor) -> None:
    async with vendor.server.open() as server, vendor.build(server.url) as provider:
        server.reply(Json({}))
        with pytest.raises(ResponseError, match=f"provider '{vendor.provider}' answered"):
            await provider.embed(EmbedRequest(model="e", inputs=("a",)))
