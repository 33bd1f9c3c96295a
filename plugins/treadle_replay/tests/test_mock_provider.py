"""The provider ``mock``: what it answers, when, and what it refuses."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import trio
from pydantic import ValidationError

import treadle_llm_call.plugin
import treadle_replay.plugin
from treadle import (
    BadRequestError,
    Completed,
    ConfigurationError,
    DocumentError,
    EmbedRequest,
    Host,
    ModelRequest,
    ModelResponse,
    OutputSchema,
    ProviderSettings,
    StopReason,
    StreamEvent,
    TextDelta,
    ToolCallDelta,
    Usage,
    UserMessage,
    load_workflow,
)
from treadle_replay.provider import MockProvider
from treadle_replay.request_hash import request_hash
from treadle_replay.settings import MockSettings

ASK = ModelRequest(model="m", messages=(UserMessage.of("Hi"),), key="greet")


def _mock(responses: Any = None, **settings: Any) -> MockProvider:
    return MockProvider("mock", MockSettings(responses=responses, **settings))


async def _events(provider: MockProvider, request: ModelRequest = ASK) -> list[StreamEvent]:
    async with provider.exchange(request) as events:
        return [event async for event in events]


async def _ask(provider: MockProvider, request: ModelRequest = ASK) -> ModelResponse:
    (event,) = await _events(provider, request)
    assert isinstance(event, Completed)
    return event.response


async def test_without_replies_the_default_response_costs_nothing() -> None:
    response = await _ask(_mock())
    assert response.text == "Mock response"
    assert response.usage == Usage.ZERO
    assert (response.cost_usd, response.provider, response.model) == (0.0, "mock", "m")
    assert (response.stop_reason, response.finish_reason) == (StopReason.END_TURN, "stop")
    assert _mock().known_cost("m") == 0.0


async def test_a_reply_is_found_by_key_then_by_hash_then_the_default_is_given() -> None:
    provider = _mock({"greet": "by key", request_hash(ASK): "by hash"}, default_response="neither")
    assert (await _ask(provider)).text == "by key"
    assert (await _ask(provider, replace(ASK, key="other"))).text == "by hash"
    assert (await _ask(provider, replace(ASK, key=""))).text == "by hash"
    assert (await _ask(provider, replace(ASK, key="other", model="n"))).text == "neither"
    assert [call.key for call in provider.calls] == ["greet", "other", "", "other"]


async def test_a_list_is_played_in_order_by_each_provider_on_its_own() -> None:
    first, second = _mock({"greet": ["1", "2"]}), _mock({"greet": ["1", "2"]})
    assert [(await _ask(first)).text for _ in range(3)] == ["1", "2", "2"]
    assert (await _ask(second)).text == "1"


async def test_every_field_of_a_reply_reaches_the_response() -> None:
    reply = {
        "content": "Looking",
        "model": "m-2026",
        "usage": {"prompt_tokens": 10, "completion_tokens": 5, "reasoning_tokens": 2},
        "cost_usd": 0.25,
        "finish_reason": "tool_calls",
        "tool_calls": [
            {"id": "1", "name": "look", "arguments": {"at": "ü"}},
            {"id": "2", "name": "look", "arguments": '{"at": 2}'},
            {"id": "3", "name": "look", "arguments": "{"},
            {"id": "4", "name": "look", "arguments": "[]"},
        ],
    }
    response = await _ask(_mock({"greet": reply}))
    assert (response.text, response.model, response.cost_usd) == ("Looking", "m-2026", 0.25)
    assert response.stop_reason is StopReason.TOOL_USE
    assert response.usage.total_tokens == 15
    assert response.usage.reasoning_tokens == 2
    assert [call.arguments for call in response.message.tool_calls] == [{"at": "ü"}, {"at": 2}, None, None]
    assert (response.message.tool_calls[2].parse_error or "").startswith("not JSON: ")
    assert response.message.tool_calls[3].parse_error == "not a JSON object but list"


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("length", StopReason.MAX_TOKENS),
        ("MAX_TOKENS", StopReason.MAX_TOKENS),
        ("refusal", StopReason.REFUSAL),
        ("odd", StopReason.UNKNOWN),
    ],
)
async def test_finish_reasons_of_every_vendor_are_understood(word: str, expected: StopReason) -> None:
    response = await _ask(_mock({"greet": {"content": "x", "finish_reason": word}}))
    assert (response.stop_reason, response.finish_reason) == (expected, word)


@pytest.mark.parametrize("text", ["", "one", "  a b\n\nc \tü€ 😀 ", " \n "])
async def test_the_pieces_of_a_stream_are_words_and_join_to_the_text(text: str) -> None:
    events = await _events(_mock({"greet": {"content": text}}), replace(ASK, stream=True))
    pieces = [event.text for event in events if isinstance(event, TextDelta)]
    assert "".join(pieces) == text
    assert all(len(piece.split()) <= 1 for piece in pieces)
    assert isinstance(events[-1], Completed)
    assert events[-1].response.text == text


async def test_a_stream_tells_tool_calls_before_it_is_complete() -> None:
    reply = {"tool_calls": [{"id": "1", "name": "look", "arguments": {"at": "ü"}}]}
    first, second = await _events(_mock({"greet": reply}), replace(ASK, stream=True))
    assert first == ToolCallDelta(index=0, call_id="1", tool_name="look", arguments='{"at": "ü"}')
    assert isinstance(second, Completed)
    assert second.response.stop_reason is StopReason.TOOL_USE


@pytest.mark.parametrize("stream", [False, True])
async def test_constant_latency_is_the_time_of_the_whole_reply(autojump_clock: Any, stream: bool) -> None:
    began = trio.current_time()
    await _events(_mock({"greet": "one two three four"}, latency_ms=2000), replace(ASK, stream=stream))
    assert trio.current_time() - began == pytest.approx(2.0)


async def test_the_latency_of_a_stream_is_spread_over_its_pieces(autojump_clock: Any) -> None:
    began = trio.current_time()
    provider = _mock({"greet": "one two three four"}, latency_ms=2000)
    async with provider.exchange(replace(ASK, stream=True)) as events:
        times = [trio.current_time() - began async for _ in events]
    assert times == pytest.approx([0.5, 1.0, 1.5, 2.0, 2.0])


async def test_replayed_latency_is_that_of_the_recording_else_the_setting(autojump_clock: Any) -> None:
    provider = _mock({"greet": {"content": "x", "latency_ms": 3000}}, latency_model="replay", latency_ms=1000)
    for request, seconds in ((ASK, 3.0), (replace(ASK, key="other"), 1.0)):
        began = trio.current_time()
        await _ask(provider, request)
        assert trio.current_time() - began == pytest.approx(seconds)


async def test_normal_latency_varies_and_a_seed_repeats_it(autojump_clock: Any) -> None:
    async def times(seed: int) -> list[float]:
        provider, found = _mock(latency_model="normal", latency_ms=1000, seed=seed), []
        for _ in range(20):
            began = trio.current_time()
            await _ask(provider)
            found.append(trio.current_time() - began)
        return found

    first, again, other = await times(1), await times(1), await times(2)
    assert first == pytest.approx(again)
    assert first != pytest.approx(other)
    assert all(0.5 < seconds < 1.5 for seconds in first)
    assert len({round(seconds, 6) for seconds in first}) > 1


async def test_leaving_a_stream_early_ends_it(autojump_clock: Any) -> None:
    provider = _mock({"greet": "one two three"}, latency_ms=3000)
    async with provider.exchange(replace(ASK, stream=True)) as events:
        assert await anext(events) == TextDelta("one ")
    assert trio.current_time() == pytest.approx(1.0, abs=0.5)


async def test_a_waiting_reply_can_be_cancelled(autojump_clock: Any) -> None:
    with trio.move_on_after(1) as scope:
        await _ask(_mock(latency_ms=60_000))
    assert scope.cancelled_caught


async def test_strict_refuses_a_miss_and_names_what_was_near() -> None:
    provider = _mock({"greeting": "x", "summary": "y"}, strict=True)
    with pytest.raises(BadRequestError) as caught:
        await _ask(provider)
    assert str(caught.value) == "provider 'mock' is strict and has no reply for 'greet'; there are replies for greeting"
    assert caught.value.transient is False
    assert caught.value.provider == "mock"


async def test_strict_without_any_reply_says_so() -> None:
    with pytest.raises(BadRequestError, match="it has no replies at all"):
        await _ask(_mock(strict=True))


async def test_strict_refuses_a_reply_that_was_recorded_for_another_request() -> None:
    replies = {"greet": {"content": "x", "request_hash": request_hash(ASK)}}
    assert (await _ask(_mock(replies, strict=True))).text == "x"
    with pytest.raises(BadRequestError) as caught:
        await _ask(_mock(replies, strict=True), replace(ASK, model="n"))
    assert "the reply for 'greet' was recorded for another request" in str(caught.value)
    assert "record it again" in str(caught.value)


async def test_otherwise_such_a_reply_is_given_with_a_warning() -> None:
    response = await _ask(_mock({"greet": {"content": "x", "request_hash": "other"}}))
    assert response.text == "x"
    assert response.warnings == ("the reply for 'greet' was recorded for another request",)
    assert (await _ask(_mock({"greet": {"content": "x"}}))).warnings == ()


SCHEMA = {"type": "object", "required": ["route", "why"], "properties": {"route": {"enum": ["a", "b"]}, "why": {}}}


async def test_without_a_reply_a_structured_request_gets_a_value_of_its_shape() -> None:
    asked = replace(ASK, output=OutputSchema(name="choice", schema=SCHEMA))
    assert json.loads((await _ask(_mock(default_response="So"), asked)).text) == {"route": "a", "why": "So"}
    assert json.loads((await _ask(_mock(), replace(ASK, output=OutputSchema(name="any")))).text) == {}
    assert json.loads((await _ask(_mock({"greet": {"content": {"route": "b"}}}), asked)).text) == {"route": "b"}


async def test_a_shape_that_no_value_is_known_for_says_where_to_write_one() -> None:
    asked = replace(ASK, output=OutputSchema(name="choice", schema={"$ref": "https://x.test/s.json"}))
    with pytest.raises(BadRequestError) as caught:
        await _ask(_mock(), asked)
    assert str(caught.value) == (
        "provider 'mock' cannot make up a value of the shape 'choice': https://x.test/s.json is outside the schema; "
        "write a reply for 'greet' in responses_file"
    )


async def test_a_file_is_read_when_the_provider_is_entered_and_written_replies_win(tmp_path: Path) -> None:
    path = tmp_path / "replies.json"
    path.write_text('{"_version": 2, "greet": "from the file", "part": "part"}', encoding="utf-8")
    async with _mock({"greet": "written"}, responses_file=path) as provider:
        path.unlink()
        assert (await _ask(provider)).text == "written"
        assert (await _ask(provider, replace(ASK, key="part"))).text == "part"


async def test_a_bad_file_is_told_by_check_and_on_entering(tmp_path: Path) -> None:
    path = tmp_path / "replies.json"
    path.write_text('{"greet": 5}', encoding="utf-8")
    expected = f"{path}: key 'greet': must be a text, an object or a list of them, not a number"
    provider = _mock(responses_file=path)
    assert list(provider.check(ASK)) == [expected]
    with pytest.raises(ConfigurationError) as caught:
        async with provider:
            raise AssertionError("not entered")
    assert str(caught.value) == expected
    assert list(_mock().check(ASK)) == []


def test_a_missing_file_is_told_where_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    host = Host.of({"mock": treadle_replay.plugin, "llm_call": treadle_llm_call.plugin})
    text = (
        "name: x\nconfig: {provider: mock, responses_file: c.json}\nsteps:\n  - {id: a, type: llm_call, prompt: hi}\n"
    )
    Path("f").write_text(text, encoding="utf-8")
    with pytest.raises(DocumentError) as caught:
        load_workflow("f", host=host)
    assert str(caught.value).startswith(
        "f:2:42: config.responses_file: provider 'mock' cannot take this request: c.json: cannot be read"
    )


def test_settings_refuse_what_a_file_may_not_hold() -> None:
    with pytest.raises(ValidationError, match="responses: key 'a': must be a text"):
        MockSettings(responses={"a": 5})
    with pytest.raises(ValidationError, match="latency_model"):
        MockSettings.model_validate({"latency_model": "slow"})
    with pytest.raises(ValidationError, match="latency_ms"):
        MockSettings(latency_ms=-1)
    with pytest.raises(TypeError, match="provider 'm' takes MockSettings, not ProviderSettings"):
        MockProvider("m", ProviderSettings())


async def test_pseudo_vectors_are_the_same_every_time_and_as_long_as_asked() -> None:
    request = EmbedRequest(model="m", inputs=("a", "ü", "a"))
    response = await _mock().embed(request)
    assert response.vectors == (await _mock().embed(request)).vectors
    assert response.vectors[0] == response.vectors[2] != response.vectors[1]
    assert {len(vector) for vector in response.vectors} == {8}
    assert all(-1 <= number <= 1 for vector in response.vectors for number in vector)
    assert (response.usage, response.cost_usd) == (Usage.ZERO, 0.0)
    (vector,) = (await _mock().embed(EmbedRequest(model="m", inputs=("a",), dimensions=3))).vectors
    assert len(vector) == 3
    assert (await _mock().embed(replace(request, model="n"))).vectors != response.vectors


async def test_recorded_vectors_are_given_back() -> None:
    reply = {"embeddings": [[0.5, 1.0]], "usage": {"prompt_tokens": 4}, "model": "e-1", "cost_usd": 0.1}
    provider = _mock({"index": reply}, strict=True)
    request = EmbedRequest(model="e", inputs=("a",), key="index")
    response = await provider.embed(request)
    assert (response.vectors, response.model, response.cost_usd) == (((0.5, 1.0),), "e-1", 0.1)
    assert response.usage.input_tokens == 4
    with pytest.raises(BadRequestError, match="holds 1 embeddings, and 2 are asked for"):
        await provider.embed(replace(request, inputs=("a", "b")))
    with pytest.raises(BadRequestError, match="strict and has no reply for 'other'"):
        await provider.embed(replace(request, key="other"))
    with pytest.raises(BadRequestError, match="the reply for 'index' holds embeddings and no text"):
        await _ask(provider, replace(ASK, key="index"))
    with pytest.raises(BadRequestError, match="holds no embeddings"):
        await _mock({"index": "text"}).embed(request)
