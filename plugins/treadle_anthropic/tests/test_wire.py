"""The provider over the wire: the real SDK against a real server on the loopback."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from treadle.errors import (
    BadRequestError,
    ProviderError,
    RateLimitError,
    UnavailableError,
)
from treadle.messages import (
    AssistantMessage,
    Completed,
    HostedTool,
    ModelRequest,
    OutputSchema,
    Reasoning,
    ReasoningDelta,
    ReasoningPart,
    StopReason,
    StreamEvent,
    SystemMessage,
    TextDelta,
    ToolMessage,
    ToolResultPart,
    Usage,
    UserMessage,
)
from treadle_anthropic.provider import AnthropicProvider
from treadle_anthropic.settings import AnthropicSettings

from wire.anthropic_server import (
    AnthropicServer,
    Stream,
    failure,
    message,
    redacted,
    search,
    text,
    thinking,
    tool_use,
)
from wire.anthropic_server import (
    events_of as message_events,
)
from wire.exchanges import PLAIN_AND_STREAMED, SPEC, collect, events_of, response_to
from wire.http_server import Json, Recorded, Reply

KEY = "sk-ant-test-0123456789abcdef"
BAD_SIGNATURE = "messages.1.content.0: Invalid `signature` in `thinking` block"


def ask(said: str = "hi", **fields: Any) -> ModelRequest:
    return ModelRequest(**{"model": "claude-sonnet-4-5", "messages": (UserMessage.of(said),), **fields})


@asynccontextmanager
async def claude_at(
    server: AnthropicServer, monkeypatch: pytest.MonkeyPatch, **settings: Any
) -> AsyncIterator[AnthropicProvider]:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    async with AnthropicProvider("anthropic", AnthropicSettings(base_url=server.url, **settings)) as provider:
        yield provider


def reply_of(stream: bool, whole: dict[str, Any] | None = None, **headers: str) -> Reply:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    whole = whole or message()
    return Stream(message_events(whole), headers=named) if stream else Json(whole, headers=named)


# --- good replies -----------------------------------------------------------------------------------


async def test_a_plain_reply_is_one_event(server: AnthropicServer, monkeypatch: pytest.MonkeyPatch) -> None:
    server.reply(reply_of(False, request_id="req_7"))
    async with claude_at(server, monkeypatch) as provider:
        (event,) = await events_of(provider, ask(max_tokens=9))
    assert isinstance(event, Completed)
    response = event.response
    assert (response.text, response.stop_reason) == ("hello", StopReason.END_TURN)
    assert (response.finish_reason, response.usage) == ("end_turn", Usage(input_tokens=9, output_tokens=3))
    assert (response.model, response.provider) == ("claude-sonnet-4-5-20250929", "anthropic")
    assert (response.request_id, response.warnings) == ("req_7", ())
    sent = server.last
    assert sent.path == "/v1/messages"
    assert KEY in (sent.headers.get("authorization", "").removeprefix("Bearer "), sent.headers.get("x-api-key"))
    assert sent.headers["user-agent"].startswith("treadle/")
    assert sent.headers["content-type"] == "application/json"
    assert "anthropic-version" in sent.headers
    assert "anthropic-beta" not in sent.headers
    assert sent.json == {
        "model": "claude-sonnet-4-5",
        "max_tokens": 9,
        "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
    }


@PLAIN_AND_STREAMED
async def test_a_tool_loop_goes_round_with_its_thinking_byte_for_byte(
    server: AnthropicServer, monkeypatch: pytest.MonkeyPatch, stream: bool
) -> None:
    thought = [thinking("I should look", "EqQB/+=="), redacted("Emw==")]
    server.reply(
        reply_of(stream, message(*thought, "let me see", tool_use("look", {"q": "x"}, "toolu_a"))),
        reply_of(stream, message(thinking("now I know"), "done")),
    )
    request = ask(
        messages=(SystemMessage(text="be brief"), UserMessage.of("look")),
        tools=(SPEC,),
        reasoning=Reasoning(budget_tokens=2000),
        stream=stream,
    )
    async with claude_at(server, monkeypatch) as provider:
        first = await response_to(provider, request)
        assert first.stop_reason is StopReason.TOOL_USE
        assert first.message.reasoning == "I should look"
        (call,) = first.message.tool_calls
        results = ToolMessage(results=(ToolResultPart(call_id=call.call_id, tool_name="look", content="found"),))
        second = await response_to(provider, replace(request, messages=(*request.messages, first.message, results)))
    assert (second.text, second.warnings) == ("done", ())
    body = server.last.json
    assert body["system"] == "be brief"
    assert body["thinking"] == {"type": "enabled", "budget_tokens": 2000}
    assert body["messages"][1:] == [
        {
            "role": "assistant",
            "content": [*thought, {"type": "text", "text": "let me see"}, tool_use("look", {"q": "x"}, "toolu_a")],
        },
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_a", "content": "found"}]},
    ]


@PLAIN_AND_STREAMED
async def test_thinking_that_is_not_captured_is_not_told_and_goes_back_all_the_same(
    server: AnthropicServer, monkeypatch: pytest.MonkeyPatch, stream: bool
) -> None:
    server.reply(reply_of(stream, message(thinking("secret thought"), tool_use("look"))))
    request = ask(tools=(SPEC,), reasoning=Reasoning(budget_tokens=2000, capture=False), stream=stream)
    async with claude_at(server, monkeypatch) as provider:
        *deltas, last = await events_of(provider, request)
        assert isinstance(last, Completed)
        assert last.response.message.reasoning == ""
        assert not any(isinstance(each, ReasoningDelta) for each in deltas)
        result = ToolResultPart(call_id="toolu_1", tool_name="look", content="x")
        history = (*request.messages, last.response.message, ToolMessage(results=(result,)))
        await response_to(provider, replace(request, messages=history))
    assert server.last.json["messages"][1]["content"][0] == thinking("secret thought")


@PLAIN_AND_STREAMED
@pytest.mark.parametrize("model", ["claude-sonnet-4-5", "claude-3-7-sonnet-latest", "claude-fable-5"])
async def test_a_shape_comes_back_as_text_of_json_whatever_the_way(
    server: AnthropicServer, monkeypatch: pytest.MonkeyPatch, stream: bool, model: str
) -> None:
    def answer(request: Recorded) -> Reply:
        forced = request.json.get("tool_choice")
        return reply_of(stream, message(tool_use(forced["name"], {"a": 1}) if forced else '{"a": 1}'))

    server.reply(answer)
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    request = ask(model=model, output=OutputSchema(name="the shape", schema=schema), stream=stream)
    async with claude_at(server, monkeypatch) as provider:
        *deltas, last = await events_of(provider, request)
    assert isinstance(last, Completed)
    assert (last.response.text, last.response.stop_reason) == ('{"a": 1}', StopReason.END_TURN)
    assert not stream or "".join(each.text for each in deltas if isinstance(each, TextDelta)) == '{"a": 1}'


@PLAIN_AND_STREAMED
async def test_a_search_that_pauses_is_continued_with_what_it_has(
    server: AnthropicServer, monkeypatch: pytest.MonkeyPatch, stream: bool
) -> None:
    citation = {"type": "web_search_result_location", "url": "https://a", "title": "A", "encrypted_index": "Eo8="}
    begun = [*search("q", "https://a"), search("more", call_id="srvtoolu_2")[0]]
    server.reply(
        reply_of(stream, message(*begun, stop_reason="pause_turn")),
        reply_of(stream, message(search("more", "https://b", call_id="srvtoolu_2")[1], text("so", citation))),
    )
    request = ask(hosted_tools=(HostedTool(tool="web_search", options={"max_uses": 2}),), stream=stream)
    async with claude_at(server, monkeypatch) as provider:
        paused = await response_to(provider, request)
        assert (paused.stop_reason, paused.finish_reason) == (StopReason.PAUSED, "pause_turn")
        final = await response_to(provider, replace(request, messages=(*request.messages, paused.message)))
    assert server.last.json["messages"][-1] == {"role": "assistant", "content": begun}
    assert (final.text, final.stop_reason) == ("so", StopReason.END_TURN)
    assert [each.url for part in final.message.parts if part.kind == "text" for each in part.citations] == ["https://a"]


async def test_betas_and_headers_are_sent(server: AnthropicServer, monkeypatch: pytest.MonkeyPatch) -> None:
    async with claude_at(server, monkeypatch, betas=("a-1", "b-2"), headers={"X-Title": "mine"}) as provider:
        await response_to(provider, ask(provider_options={"anthropic": {"betas": ["b-2", "c-3"]}}))
    assert server.last.headers["anthropic-beta"] == "a-1,b-2,c-3"
    assert server.last.headers["x-title"] == "mine"


async def test_a_temperature_is_sent_under_the_version_that_takes_it(
    server: AnthropicServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with claude_at(server, monkeypatch) as provider:
        await response_to(provider, ask())
        newest = server.last.headers["anthropic-version"]
        await response_to(provider, ask(temperature=0.3))
        assert (server.last.json["temperature"], server.last.headers["anthropic-version"]) == (0.3, "2023-06-01")
    async with claude_at(server, monkeypatch, headers={"Anthropic-Version": newest}) as provider:
        await response_to(provider, ask(temperature=0.3))
    assert server.last.headers["anthropic-version"] == newest


# --- a signature that is refused --------------------------------------------------------------------


def with_thinking(**fields: Any) -> ModelRequest:
    thought = ReasoningPart(text="hm", provider_data={"anthropic": [thinking("hm", "from another account")]})
    history = (UserMessage.of("a"), AssistantMessage(parts=(thought, *AssistantMessage.of("b").parts)))
    return ask(messages=(*history, UserMessage.of("c")), reasoning=Reasoning(budget_tokens=2000), **fields)


@PLAIN_AND_STREAMED
async def test_refused_thinking_is_dropped_once_and_the_request_repeated(
    server: AnthropicServer, monkeypatch: pytest.MonkeyPatch, stream: bool
) -> None:
    server.reply(failure(BAD_SIGNATURE), reply_of(stream))
    async with claude_at(server, monkeypatch) as provider:
        response = await response_to(provider, with_thinking(stream=stream))
    assert response.text == "hello"
    assert response.warnings == (
        "Anthropic refused the signature of an earlier turn's reasoning; the request was repeated without it",
    )
    first, second = server.bodies()
    assert first["messages"][1]["content"][0]["type"] == "thinking"
    assert second["messages"][1]["content"] == [{"type": "text", "text": "b"}]
    assert second["thinking"] == first["thinking"]


@PLAIN_AND_STREAMED
async def test_it_is_repeated_once_and_for_that_reason_only(
    server: AnthropicServer, monkeypatch: pytest.MonkeyPatch, stream: bool
) -> None:
    async with claude_at(server, monkeypatch) as provider:
        for request, replies, asked in (
            (with_thinking(stream=stream), [failure(BAD_SIGNATURE), failure(BAD_SIGNATURE)], 2),
            (with_thinking(stream=stream), [failure("max_tokens: Field required")], 1),
            (ask(stream=stream), [failure(BAD_SIGNATURE)], 1),
        ):
            server.requests.clear()
            server.reply(*replies)
            with pytest.raises(BadRequestError) as caught:
                await events_of(provider, request)
            assert len(server.requests) == asked
            assert caught.value.__cause__ is None
    await server.until(lambda it: it.connections == 0)


# --- errors -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("word", "kind"),
    [("overloaded_error", UnavailableError), ("api_error", UnavailableError), ("rate_limit_error", RateLimitError)],
)
async def test_an_error_inside_a_stream_ends_it_after_what_came_before(
    server: AnthropicServer, monkeypatch: pytest.MonkeyPatch, word: str, kind: type[ProviderError]
) -> None:
    begun = message_events(message("half"), pieces=1)[:4]
    server.reply(Stream([*begun, {"type": "error", "error": {"type": word, "message": "too busy"}}]))
    seen: list[StreamEvent] = []
    async with claude_at(server, monkeypatch) as provider:
        with pytest.raises(kind, match="too busy") as caught:
            await collect(provider, ask(stream=True), seen)
    assert caught.value.phase == "body"
    assert not any(isinstance(each, Completed) for each in seen)


# --- keys and settings ------------------------------------------------------------------------------


async def test_a_token_of_the_environment_does_not_take_the_keys_place(
    server: AnthropicServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "of-another-tool")
    async with claude_at(server, monkeypatch) as provider:
        await response_to(provider, ask())
    assert "of-another-tool" not in repr(server.last.headers)
