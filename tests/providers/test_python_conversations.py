"""Conversations in Python on every provider's wire: streams, and answers that have a shape."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import Any

import pytest

from providers.vendors import EVERY, Call, Vendor
from treadle_loop import Agent, TextDelta, ToolSpec
from treadle_loop.conversations.clients import ProviderClient

from wire.in_thread import serving

LOOK = ToolSpec("look", "looks", {"type": "object", "properties": {}}, lambda deps: "Ada is 36")


@dataclass
class Person:
    name: str
    age: int


def client_of(vendor: Vendor, url: str) -> ProviderClient:
    return ProviderClient(vendor.build(url), name=vendor.provider, model=vendor.model)


@EVERY
def test_a_loop_of_tools_streams_to_synchronous_and_async_programs(vendor: Vendor) -> None:
    with serving(vendor.server) as server, client_of(vendor, server.url) as client:
        agent = Agent([LOOK], client=client)
        for _ in range(2):
            server.reply(vendor.reply(True, calls=[Call("look", "{}")]), vendor.reply(True, "She is 36."))
        with agent.stream("who?") as stream:
            events = list(stream)
        assert "".join(each.text for each in events if isinstance(each, TextDelta)) == "She is 36."
        assert stream.result.summary.tool_calls == {"look": 1}

        async def read() -> str:
            async with agent.stream_async("who?") as stream:
                return "".join([each async for each in stream.text])

        assert asyncio.run(read()) == "She is 36."


@pytest.mark.parametrize("tools", [(), (LOOK,)], ids=["schema", "beside tools"])
@EVERY
def test_an_answer_has_its_shape(vendor: Vendor, tools: Any) -> None:
    wrong, right = '{"name": "Ada"}', '{"name": "Ada", "age": 36}'

    def reply(said: str) -> Any:
        return vendor.reply(False, calls=[Call("final_result", said)]) if tools else vendor.reply(False, said)

    with serving(vendor.server) as server, client_of(vendor, server.url) as client:
        server.reply(reply(wrong), reply(right), vendor.reply(False, "You are welcome."))
        agent = Agent(tools, client=client)
        result = agent.run_result("who?", output_type=Person)
        assert result.output == Person("Ada", 36)
        first, second = map(json.dumps, server.bodies())
        assert "age" in first, "the schema is sent"
        assert "age: Field required" in second
        result.transcript.add_user_message("Thanks")
        assert agent.converse_result(result.transcript).text == "You are welcome."
