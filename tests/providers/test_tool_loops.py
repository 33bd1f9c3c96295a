"""A whole tool loop by `llm_call`, on every provider's wire, plain and streamed."""

from __future__ import annotations

import json
from typing import Any

import pytest

import treadle
from providers.vendors import EVERY, VENDORS, Call, Vendor
from treadle import tool

from wire import anthropic_server, openai_responses
from wire.exchanges import PLAIN_AND_STREAMED

LOOP = """
name: loop
config: {{provider: {provider}, model: "{model}"}}
steps:
  - id: ask
    type: llm_call
    prompt: what time is it there?
    stream: {stream}
    tools:
      - {{name: city_time, description: The time in a city.}}
      - name: add
        description: The sum.
        parameters:
          type: object
          properties: {{a: {{type: integer}}, b: {{type: integer}}}}
          required: [a, b]
    max_tool_iterations: 6
{more}    output: answer
"""

SHAPED = """
name: shaped
config: {{provider: {provider}, model: "{model}"}}
steps:
  - id: ask
    type: llm_call
    prompt: who?
    stream: {stream}
    retry: {{max_retries: 1}}
    response_schema:
      type: json_schema
      schema:
        type: object
        properties: {{name: {{type: string}}, age: {{type: integer, default: 7}}}}
        required: [name]
    output: answer
"""


@tool(effect="pure")
def city_time(city: str) -> str:
    """The time in a city."""
    return f"noon in {city}"


@tool(effect="pure")
def add(a: int, b: int) -> int:
    """The sum."""
    return a + b


async def run(vendor: Vendor, text: str, url: str, monkeypatch: pytest.MonkeyPatch, **fields: Any) -> Any:
    for name, value in vendor.environment(url).items():
        monkeypatch.setenv(name, value)
    filled = text.format(provider=vendor.provider, model=vendor.model, **fields)
    return await treadle.run(treadle.parse_workflow(filled), tools=[city_time, add])


@PLAIN_AND_STREAMED
@EVERY
async def test_two_calls_bad_arguments_and_the_answer(
    vendor: Vendor, stream: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = '{"a": 1,' if vendor.can_say_bad_json else '{"a": 1, "b": "much"}'
    async with vendor.server.open() as server:
        server.reply(
            vendor.reply(
                stream, calls=[Call("city_time", '{"city": "Oslo"}', "c1"), Call("add", '{"a": 2, "b": 3}', "c2")]
            ),
            vendor.reply(stream, calls=[Call("add", bad, "c3")]),
            vendor.reply(stream, "It is noon."),
        )
        result = await run(vendor, LOOP, server.url, monkeypatch, stream=str(stream).lower(), more="")
        bodies = [json.dumps(each) for each in server.bodies()]
    assert result.status == "success", result.error
    assert result.final_state["answer"] == "It is noon."
    assert [body.count("noon in Oslo") for body in bodies] == [0, 1, 1]
    second = bodies[1]
    assert second.index("noon in Oslo") < second.rindex("5"), "results in the order of the calls"
    told = bodies[2]
    assert "much" in told or "JSON" in told, "the model is told what is wrong with its arguments"
    assert "required" in told.rpartition("c3")[2] or "integer" in told, "and what they should be"
    assert result.total_tokens == 3 * (16 if vendor.name == "openai responses" else 12)


OPAQUE = {
    "openai responses": openai_responses.reasoning("I look it up", encrypted="gAAAA+opaque/=="),
    "anthropic": anthropic_server.thinking("I look it up", "EqQB+opaque/=="),
    "google": {"text": "I look it up", "thought": True, "thoughtSignature": "Q3JlYXRl+/=="},
}


@PLAIN_AND_STREAMED
@pytest.mark.parametrize("name", OPAQUE)
async def test_reasoning_goes_back_byte_for_byte(name: str, stream: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    vendor = VENDORS[name]
    block: dict[str, Any] = OPAQUE[name]
    async with vendor.server.open() as server:
        server.reply(
            vendor.reply(stream, calls=[Call("add", '{"a": 2, "b": 3}')], before=[block]), vendor.reply(stream, "five")
        )
        more = "    thinking: {enabled: true, budget_tokens: 2000, level: low}\n"
        result = await run(vendor, LOOP, server.url, monkeypatch, stream=str(stream).lower(), more=more)
        sent = json.dumps(server.last.json)
    assert result.status == "success", result.error
    opaque = block.get("encrypted_content") or block.get("signature") or block["thoughtSignature"]
    assert json.dumps(opaque) in sent
    assert result.step_results["ask"].reasoning_content == "I look it up"
    assert "I look it up" not in json.dumps(result.final_state)


@PLAIN_AND_STREAMED
@EVERY
async def test_a_reply_of_another_shape_is_asked_for_again(
    vendor: Vendor, stream: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = '{"name": "Ann", "age": null}' if vendor.provider == "openai" else '{"name": "Ann"}'
    async with vendor.server.open() as server:
        server.reply(vendor.reply(stream, '{"name": 3}'), vendor.reply(stream, good))
        result = await run(vendor, SHAPED, server.url, monkeypatch, stream=str(stream).lower())
        bodies = [json.dumps(each) for each in server.bodies()]
    if stream:  # a streamed reply is read at its end, and what is wrong then fails the step
        assert len(bodies) in (1, 2)
    else:
        assert len(bodies) == 2
        assert "is not of type 'string'" in bodies[1]
    if len(bodies) == 2:
        assert result.final_state["answer"] == {"name": "Ann", "age": 7}
    assert '"default"' not in bodies[0]
