"""The Responses API over the wire: the real SDK against a real server on the loopback."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from treadle.errors import (
    BadRequestError,
    ProviderError,
    RateLimitError,
    ResponseError,
    UnavailableError,
)
from treadle.messages import (
    AssistantMessage,
    Citation,
    Completed,
    EmbedRequest,
    HostedTool,
    HostedToolPart,
    ModelRequest,
    Reasoning,
    ReasoningDelta,
    ReasoningPart,
    Source,
    StopReason,
    TextDelta,
    TextPart,
    ToolCallDelta,
    ToolCallPart,
    ToolMessage,
    ToolResultPart,
    ToolSpec,
    Usage,
    UserMessage,
)
from treadle_openai.provider import OpenAIProvider
from treadle_openai.settings import OpenAISettings

from wire.exchanges import PLAIN_AND_STREAMED, events_of, response_to
from wire.http_server import Json, Reply
from wire.openai_responses import event, function_call, message, reasoning, response, response_events, web_search
from wire.openai_server import OpenAIServer, Stream, failure, response_stream

USAGE = Usage(input_tokens=9, output_tokens=7, cache_read_tokens=4, reasoning_tokens=3)
CITED = {"type": "url_citation", "url": "https://a.test/", "title": "A", "start_index": 0, "end_index": 3}


def ask(*messages: Any, **fields: Any) -> ModelRequest:
    return ModelRequest(**{"model": "gpt-5-mini", "messages": messages or (UserMessage.of("hi"),), **fields})


@pytest.fixture
async def provider(server: OpenAIServer, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[OpenAIProvider]:
    async with opened(server, monkeypatch) as entered:
        yield entered


@asynccontextmanager
async def opened(
    server: OpenAIServer, monkeypatch: pytest.MonkeyPatch, **settings: Any
) -> AsyncIterator[OpenAIProvider]:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789abcdef")
    async with OpenAIProvider("openai", OpenAISettings(base_url=server.url, api="responses", **settings)) as entered:
        yield entered


def sent(whole: dict[str, Any], stream: bool, **headers: str) -> Reply:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return response_stream(whole, headers=named) if stream else Json(whole, headers=named)


# --- good replies -----------------------------------------------------------------------------------


@PLAIN_AND_STREAMED
async def test_a_reply_and_what_was_sent_for_it(server: OpenAIServer, provider: OpenAIProvider, stream: bool) -> None:
    server.reply(sent(response(message("hello")), stream, x_request_id="req_1"))
    answer = await response_to(provider, ask(stream=stream, max_tokens=9))
    assert answer.message == AssistantMessage(parts=(TextPart(text="hello"),))
    assert (answer.stop_reason, answer.finish_reason) == (StopReason.END_TURN, "completed")
    assert (answer.usage, answer.model, answer.request_id) == (USAGE, "gpt-5-mini-2025-08-07", "req_1")
    assert answer.warnings == ()
    assert server.last.path == "/v1/responses"
    assert server.last.json == {
        "model": "gpt-5-mini",
        "input": [{"role": "user", "content": "hi"}],
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "max_output_tokens": 9,
        **({"stream": True} if stream else {}),
    }


async def test_a_stream_gives_text_reasoning_and_calls_as_they_are_written(
    server: OpenAIServer, provider: OpenAIProvider
) -> None:
    whole = response(reasoning("ab", "c"), message("word"), function_call("look", '{"q":1}'))
    server.reply(response_stream(whole))
    *events, last = await events_of(provider, ask(stream=True, tools=(ToolSpec(name="look"),)))
    assert events == [
        ReasoningDelta("a"),
        ReasoningDelta("b"),
        ReasoningDelta("\n\n"),
        ReasoningDelta("c"),
        TextDelta("wo"),
        TextDelta("rd"),
        ToolCallDelta(index=0, call_id="call_1", tool_name="look"),
        ToolCallDelta(index=0, call_id="call_1", arguments='{"q"'),
        ToolCallDelta(index=0, call_id="call_1", arguments=":1}"),
    ]
    assert isinstance(last, Completed)
    assert last.response.message.reasoning == "ab\n\nc"


EVERYTHING = response(
    reasoning("hm"),
    web_search("news", "https://a.test/", "https://b.test/"),
    message("cited text", annotations=[CITED]),
    function_call("look", '{"q":1}'),
    function_call("look", "not json", call_id="call_2"),
)


async def test_a_plain_and_a_streamed_reply_are_the_same_response(
    server: OpenAIServer, provider: OpenAIProvider
) -> None:
    server.reply(sent(EVERYTHING, False), sent(EVERYTHING, True))
    plain = await response_to(provider, ask())
    assert await response_to(provider, ask(stream=True)) == plain
    thought, search, text, call, broken = plain.message.parts
    assert isinstance(thought, ReasoningPart)
    assert thought.provider_data["openai"]["encrypted_content"] == "gAAAA-opaque=="
    assert isinstance(search, HostedToolPart)
    assert (search.tool, search.query, search.error) == ("web_search", "news", None)
    assert search.sources == (Source(url="https://a.test/"), Source(url="https://b.test/"))
    assert text == TextPart(text="cited text", citations=(Citation(url="https://a.test/", title="A", start=0, end=3),))
    assert isinstance(call, ToolCallPart)
    assert isinstance(broken, ToolCallPart)
    assert (call.arguments, broken.arguments) == ({"q": 1}, None)
    assert plain.stop_reason is StopReason.TOOL_USE


@PLAIN_AND_STREAMED
@pytest.mark.parametrize(
    ("whole", "stop", "finish"),
    [
        (response(message(refusal="no")), StopReason.REFUSAL, "completed"),
        (
            response(message("cut"), status="incomplete", incomplete_details={"reason": "max_output_tokens"}),
            StopReason.MAX_TOKENS,
            "max_output_tokens",
        ),
        (
            response(status="incomplete", incomplete_details={"reason": "content_filter"}),
            StopReason.REFUSAL,
            "content_filter",
        ),
        (response(status="incomplete", incomplete_details={"reason": "moon"}), StopReason.UNKNOWN, "moon"),
        (response(message("?"), status="cancelled"), StopReason.UNKNOWN, "cancelled"),
    ],
)
async def test_why_it_stopped(
    server: OpenAIServer,
    provider: OpenAIProvider,
    whole: dict[str, Any],
    stop: StopReason,
    finish: str,
    stream: bool,
) -> None:
    server.reply(sent(whole, stream))
    answer = await response_to(provider, ask(stream=stream))
    assert (answer.stop_reason, answer.finish_reason) == (stop, finish)


@PLAIN_AND_STREAMED
async def test_reasoning_goes_back_as_it_came_between_call_and_result(
    server: OpenAIServer, provider: OpenAIProvider, stream: bool
) -> None:
    server.reply(sent(response(reasoning("hm"), function_call("look", '{ "q": 1 }')), stream))
    first = await response_to(provider, ask(stream=stream, tools=(ToolSpec(name="look"),)))
    result = ToolMessage(results=(ToolResultPart(call_id="call_1", tool_name="look", content="found"),))
    await response_to(provider, ask(UserMessage.of("hi"), first.message, result, stream=stream))
    assert server.last.json["input"] == [
        {"role": "user", "content": "hi"},
        {
            "type": "reasoning",
            "summary": [{"type": "summary_text", "text": "hm"}],
            "encrypted_content": "gAAAA-opaque==",
        },
        {"type": "function_call", "call_id": "call_1", "name": "look", "arguments": '{ "q": 1 }'},
        {"type": "function_call_output", "call_id": "call_1", "output": "found"},
    ]


@PLAIN_AND_STREAMED
async def test_reasoning_that_is_not_to_be_captured_goes_back_all_the_same(
    server: OpenAIServer, provider: OpenAIProvider, stream: bool
) -> None:
    server.reply(sent(response(reasoning("secret thought"), message("so")), stream))
    request = ask(stream=stream, reasoning=Reasoning(level="high", capture=False))
    events = await events_of(provider, request)
    assert not any(isinstance(each, ReasoningDelta) for each in events)
    last = events[-1]
    assert isinstance(last, Completed)
    assert last.response.message.reasoning == ""
    assert server.last.json["reasoning"] == {"effort": "high"}
    await response_to(provider, ask(last.response.message, UserMessage.of("go on")))
    assert server.last.json["input"][0]["encrypted_content"] == "gAAAA-opaque=="


STALE = {"code": "invalid_encrypted_content", "kind": "invalid_request_error", "status": 400}
THOUGHT = ReasoningPart(provider_data={"openai": {"summary": [], "encrypted_content": "old"}})
EARLIER = AssistantMessage(parts=(THOUGHT, TextPart(text="so")))


@PLAIN_AND_STREAMED
async def test_reasoning_that_the_server_cannot_read_is_dropped_once_with_a_warning(
    server: OpenAIServer, provider: OpenAIProvider, stream: bool
) -> None:
    server.reply(failure("could not be verified", **STALE), sent(response(message("hello")), stream))
    answer = await response_to(provider, ask(EARLIER, UserMessage.of("go on"), stream=stream))
    assert answer.text == "hello"
    (warning,) = answer.warnings
    assert "encrypted reasoning of earlier turns" in warning
    with_it, without_it = server.bodies()
    assert with_it["input"][0] == {"type": "reasoning", "summary": [], "encrypted_content": "old"}
    assert without_it["input"] == with_it["input"][1:]


@PLAIN_AND_STREAMED
async def test_it_is_dropped_only_once_and_only_where_there_is_some(
    server: OpenAIServer, provider: OpenAIProvider, stream: bool
) -> None:
    server.reply(*[failure("could not be verified", **STALE)] * 3)
    with pytest.raises(BadRequestError, match="could not be verified"):
        await response_to(provider, ask(EARLIER, UserMessage.of("go on"), stream=stream))
    assert len(server.requests) == 2
    with pytest.raises(BadRequestError):
        await response_to(provider, ask(stream=stream))
    assert len(server.requests) == 3


async def test_web_search_is_sent_with_its_limits(server: OpenAIServer, provider: OpenAIProvider) -> None:
    options = {
        "allowed_domains": ["a.test", "b.test"],
        "max_uses": 3,
        "search_context_size": "low",
        "user_location": {"country": "DE"},
        "dynamic_filtering": True,
    }
    answer = await response_to(provider, ask(hosted_tools=(HostedTool(tool="web_search", options=options),)))
    body = server.last.json
    assert body["tools"] == [
        {
            "type": "web_search",
            "filters": {"allowed_domains": ["a.test", "b.test"]},
            "user_location": {"type": "approximate", "country": "DE"},
            "search_context_size": "low",
        }
    ]
    assert body["max_tool_calls"] == 3
    assert "web_search_call.action.sources" in body["include"]
    assert answer.warnings == ("web_search: dynamic_filtering is ignored: the Responses API has none",)
    await response_to(
        provider, ask(hosted_tools=(HostedTool(tool="web_search", options={"blocked_domains": ["x.test"]}),))
    )
    assert server.last.json["tools"][0]["filters"] == {"blocked_domains": ["x.test"]}


@PLAIN_AND_STREAMED
async def test_what_the_model_ignores_is_told(server: OpenAIServer, provider: OpenAIProvider, stream: bool) -> None:
    answer = await response_to(
        provider,
        ask(
            stream=stream,
            temperature=0.5,
            stop_sequences=("END",),
            reasoning=Reasoning(budget_tokens=1000, level="low"),
        ),
    )
    assert answer.warnings == (
        "temperature is ignored: gpt-5-mini takes none",
        "thinking.budget_tokens is ignored: OpenAI takes a level",
        "stop_sequences are ignored: the Responses API takes none",
    )
    assert server.last.json["reasoning"] == {"effort": "low", "summary": "auto"}
    assert not {"temperature", "stop"} & set(server.last.json)


async def test_embeddings_are_the_same_as_with_the_other_api(server: OpenAIServer, provider: OpenAIProvider) -> None:
    server.reply(Json({"model": "e", "data": [{"index": 0, "embedding": [1, 2]}], "usage": {"prompt_tokens": 2}}))
    found = await provider.embed(EmbedRequest(model="e", inputs=("a",)))
    assert found.vectors == ((1.0, 2.0),)
    assert server.last.path == "/v1/embeddings"


# --- odd streams ------------------------------------------------------------------------------------


async def test_fragments_without_whole_items_are_enough(server: OpenAIServer, provider: OpenAIProvider) -> None:
    call = function_call("look", '{"q":1}')
    whole = {**response(), "output": []}
    server.reply(
        Stream(
            [
                event("response.output_text.delta", output_index=0, delta="hel"),
                event("response.output_text.delta", output_index=0, delta="lo"),
                event("response.output_item.added", output_index=1, item={**call, "arguments": ""}),
                event("response.output_item.added", output_index=2, item={**call, "arguments": "", "call_id": "b"}),
                event("response.function_call_arguments.delta", output_index=2, delta='{"q"'),
                event("response.function_call_arguments.delta", output_index=1, delta='{"q":1'),
                event("response.function_call_arguments.delta", output_index=2, delta=":2}"),
                event("response.function_call_arguments.delta", output_index=1, delta="}"),
                event("something.new", output_index=1),
                event("response.completed", response=whole),
            ],
            done=False,
        )
    )
    answer = await response_to(provider, ask(stream=True))
    assert answer.text == "hello"
    assert [(call.call_id, call.arguments) for call in answer.message.tool_calls] == [
        ("call_1", {"q": 1}),
        ("b", {"q": 2}),
    ]


async def test_the_whole_item_wins_over_what_the_last_event_lists(
    server: OpenAIServer, provider: OpenAIProvider
) -> None:
    whole = response(reasoning(encrypted=None), message("hello"))
    server.reply(
        Stream(
            [
                event("response.output_item.done", output_index=0, item=reasoning(encrypted="whole")),
                event("response.completed", response=whole),
            ],
            done=False,
        )
    )
    answer = await response_to(provider, ask(stream=True))
    thought = answer.message.parts[0]
    assert isinstance(thought, ReasoningPart)
    assert thought.provider_data["openai"]["encrypted_content"] == "whole"
    assert answer.text == "hello"


async def test_ids_that_are_repeated_are_made_unique(server: OpenAIServer, provider: OpenAIProvider) -> None:
    server.reply(Json(response(function_call("f"), function_call("g"))))
    answer = await response_to(provider, ask())
    assert [call.call_id for call in answer.message.tool_calls] == ["call_1", "call_1_2"]


# --- errors -----------------------------------------------------------------------------------------


@PLAIN_AND_STREAMED
@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("server_error", UnavailableError),
        ("rate_limit_exceeded", RateLimitError),
        ("invalid_prompt", BadRequestError),
        ("image_too_large", BadRequestError),
        ("moon", ResponseError),
    ],
)
async def test_a_response_that_failed_is_its_error(
    server: OpenAIServer, provider: OpenAIProvider, code: str, kind: type[ProviderError], stream: bool
) -> None:
    whole = response(status="failed", error={"code": code, "message": "it broke"})
    server.reply(sent({**whole, "error": whole["error"]}, stream) if stream else Json(whole))
    with pytest.raises(ProviderError, match="it broke") as caught:
        await response_to(provider, ask(stream=stream))
    assert type(caught.value) is kind


async def test_an_error_event_ends_a_stream(server: OpenAIServer, provider: OpenAIProvider) -> None:
    server.reply(
        Stream([event("error", code="rate_limit_exceeded", message="slow down", param=None)], done=False),
    )
    with pytest.raises(RateLimitError, match="slow down"):
        await response_to(provider, ask(stream=True))


async def test_a_stream_without_its_last_event_is_no_success(server: OpenAIServer, provider: OpenAIProvider) -> None:
    server.reply(Stream(response_events(response(message("hello")))[:-1], done=False))
    with pytest.raises(ResponseError) as caught:
        await response_to(provider, ask(stream=True))
    assert (caught.value.phase, caught.value.request_sent, caught.value.transient) == ("body", True, True)
