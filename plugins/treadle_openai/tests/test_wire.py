"""The providers over the wire: the real SDK against a real server on the loopback."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from treadle.contracts.secrets import SecretRef
from treadle.errors import (
    ConfigurationError,
    CredentialError,
    ProviderError,
    RateLimitError,
    ResponseError,
    UnavailableError,
)
from treadle.messages import (
    AssistantMessage,
    Completed,
    EmbedRequest,
    ModelRequest,
    OutputSchema,
    Reasoning,
    ReasoningDelta,
    StopReason,
    SystemMessage,
    TextDelta,
    ToolCallDelta,
    ToolCallPart,
    ToolMessage,
    ToolResultPart,
    Usage,
    UserMessage,
)
from treadle_openai.provider import GenericOpenAIProvider, OpenAIProvider
from treadle_openai.settings import GenericOpenAISettings, OpenAISettings

from wire.exchanges import PLAIN_AND_STREAMED, SPEC, events_of, response_to
from wire.http_server import Json, Recorded
from wire.openai_server import OpenAIServer, Stream, call, chunk, completion, text_chunks

KEY = "sk-test-0123456789abcdef"


def ask(text: str = "hi", **fields: Any) -> ModelRequest:
    return ModelRequest(**{"model": "gpt-4o-mini", "messages": (UserMessage.of(text),), **fields})


@asynccontextmanager
async def openai_at(
    server: OpenAIServer, monkeypatch: pytest.MonkeyPatch, **settings: Any
) -> AsyncIterator[OpenAIProvider]:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    async with OpenAIProvider("openai", OpenAISettings(base_url=server.url, **settings)) as provider:
        yield provider


@asynccontextmanager
async def generic_at(server: OpenAIServer, **settings: Any) -> AsyncIterator[GenericOpenAIProvider]:
    async with GenericOpenAIProvider("local", GenericOpenAISettings(base_url=server.url, **settings)) as provider:
        yield provider


def reply_of(stream: bool, *, text: str = "hello", request_id: str = "req_7") -> Any:
    headers = {"x-request-id": request_id}
    return Stream(text_chunks(text), headers=headers) if stream else Json(completion(text), headers=headers)


# --- good replies -----------------------------------------------------------------------------------


async def test_a_plain_reply_is_one_event(server: OpenAIServer, monkeypatch: pytest.MonkeyPatch) -> None:
    server.reply(reply_of(False))
    async with openai_at(server, monkeypatch) as provider:
        events = await events_of(provider, ask(max_tokens=9, temperature=0.5))
    (event,) = events
    assert isinstance(event, Completed)
    response = event.response
    assert response.text == "hello"
    assert response.stop_reason is StopReason.END_TURN
    assert response.finish_reason == "stop"
    assert response.usage == Usage(input_tokens=9, output_tokens=3)
    assert (response.model, response.provider, response.request_id) == ("gpt-4o-mini-2024-07-18", "openai", "req_7")
    assert server.last.path == "/v1/chat/completions"
    assert server.last.headers["authorization"] == f"Bearer {KEY}"
    assert server.last.headers["user-agent"].startswith("treadle/")
    assert server.last.json == {
        "model": "gpt-4o-mini",
        "messages": [{"role": "user", "content": "hi"}],
        "max_tokens": 9,
        "temperature": 0.5,
    }


async def test_a_stream_is_asked_for_with_its_usage(server: OpenAIServer, monkeypatch: pytest.MonkeyPatch) -> None:
    async with openai_at(server, monkeypatch) as provider:
        await response_to(provider, ask(stream=True))
    assert server.last.json["stream"] is True
    assert server.last.json["stream_options"] == {"include_usage": True}


@PLAIN_AND_STREAMED
async def test_a_tool_loop_sends_calls_and_results_back(
    server: OpenAIServer, monkeypatch: pytest.MonkeyPatch, stream: bool
) -> None:
    server.reply(reply_of(stream))
    calling = AssistantMessage(parts=(ToolCallPart(call_id="a", tool_name="look", arguments={"q": "x"}),))
    results = ToolMessage(results=(ToolResultPart(call_id="a", tool_name="look", content="found"),))
    history = (SystemMessage(text="be brief"), UserMessage.of("look"), calling, results)
    async with openai_at(server, monkeypatch) as provider:
        await response_to(provider, ask(messages=history, tools=(SPEC,), tool_choice="required", stream=stream))
    body = server.last.json
    assert body["messages"] == [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": "look"},
        {"role": "assistant", "content": None, "tool_calls": [call("look", '{"q": "x"}', "a")]},
        {"role": "tool", "tool_call_id": "a", "content": "found"},
    ]
    assert body["tools"] == [
        {
            "type": "function",
            "function": {"name": "look", "description": "Look up", "parameters": dict(SPEC.parameters)},
        }
    ]
    assert body["tool_choice"] == "required"


async def test_a_streamed_tool_call_is_put_together(server: OpenAIServer, monkeypatch: pytest.MonkeyPatch) -> None:
    def piece(arguments: str) -> dict[str, Any]:
        return chunk(tool_calls=[{"index": 0, "function": {"arguments": arguments}}])

    server.reply(
        Stream([
            chunk(tool_calls=[{"index": 0, **call("look", "", "a")}]),
            piece('{"q": '), piece('"x"}'), chunk(finish_reason="tool_calls"),
        ])
    )  # fmt: skip
    async with openai_at(server, monkeypatch) as provider:
        *deltas, last = await events_of(provider, ask(tools=(SPEC,), stream=True))
    assert deltas == [
        ToolCallDelta(index=0, call_id="a", tool_name="look"),
        ToolCallDelta(index=0, call_id="a", arguments='{"q": '),
        ToolCallDelta(index=0, call_id="a", arguments='"x"}'),
    ]
    assert isinstance(last, Completed)
    assert last.response.message.tool_calls[0].arguments == {"q": "x"}


@PLAIN_AND_STREAMED
async def test_a_schema_is_sent_in_strict_form(
    server: OpenAIServer, monkeypatch: pytest.MonkeyPatch, stream: bool
) -> None:
    server.reply(reply_of(stream, text='{"a": 1}'))
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    async with openai_at(server, monkeypatch) as provider:
        response = await response_to(provider, ask(output=OutputSchema(name="the shape", schema=schema), stream=stream))
    assert response.text == '{"a": 1}'
    assert server.last.json["response_format"] == {
        "type": "json_schema",
        "json_schema": {
            "name": "the_shape",
            "strict": True,
            "schema": {**schema, "additionalProperties": False},
        },
    }


async def test_reasoning_of_a_compatible_server_is_kept_apart(server: OpenAIServer) -> None:
    server.reply(
        Stream([chunk(reasoning_content="hm"), chunk(content="yes"), chunk(finish_reason="stop")]),
        Stream([chunk(reasoning_content="hm"), chunk(content="yes"), chunk(finish_reason="stop")]),
        Json(completion("yes", reasoning="hm")),
    )
    async with generic_at(server) as provider:
        *deltas, last = await events_of(provider, ask(stream=True))
        silent = await events_of(provider, ask(stream=True, reasoning=Reasoning(capture=False)))
        plain = await response_to(provider, ask())
    assert deltas == [ReasoningDelta("hm"), TextDelta("yes")]
    assert isinstance(last, Completed)
    assert last.response == replace(plain, usage=last.response.usage)
    assert (last.response.message.reasoning, last.response.text) == ("hm", "yes")
    assert [type(event) for event in silent] == [TextDelta, Completed]


async def test_a_stream_may_end_without_done(server: OpenAIServer) -> None:
    server.reply(Stream(text_chunks("whole"), done=False))
    async with generic_at(server) as provider:
        assert (await response_to(provider, ask(stream=True))).text == "whole"


async def test_vectors_come_back_in_the_order_of_their_inputs(
    server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def vectors(request: Recorded) -> Any:
        inputs = request.json["input"]
        rows = [{"index": i, "embedding": [float(len(text)), 1]} for i, text in enumerate(inputs)]
        return Json({"data": rows[::-1], "model": "te-3", "usage": {"prompt_tokens": len(inputs), "total_tokens": 0}})

    server.reply(vectors, vectors)
    texts = tuple("x" * (n % 7) for n in range(2050))
    async with openai_at(server, monkeypatch) as provider:
        answer = await provider.embed(EmbedRequest(model="text-embedding-3-small", inputs=texts, dimensions=2))
    assert answer.vectors == tuple((float(n % 7), 1.0) for n in range(2050))
    assert answer.usage == Usage(input_tokens=2050, output_tokens=0)
    assert [len(body["input"]) for body in server.bodies()] == [2048, 2]
    assert server.last.path == "/v1/embeddings"
    assert server.last.json["dimensions"] == 2


# --- errors -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("event", "kind"),
    [
        (b'data: {"error": {"message": "too busy", "code": "rate_limit_exceeded"}}\n\n', RateLimitError),
        (b'event: error\ndata: {"message": "too busy", "type": "overloaded_error"}\n\n', UnavailableError),
        (b'event: error\ndata: {"message": "too busy"}\n\n', ResponseError),
        (b'data: {"error": {"message": "too busy", "code": 503}, "choices": []}\n\n', UnavailableError),
    ],
)
async def test_an_error_inside_a_stream_ends_it(
    server: OpenAIServer, monkeypatch: pytest.MonkeyPatch, event: bytes, kind: type[ProviderError]
) -> None:
    server.reply(Stream([chunk(content="half"), event]))
    async with openai_at(server, monkeypatch) as provider:
        with pytest.raises(kind, match="too busy"):
            await events_of(provider, ask(stream=True))


async def test_a_stream_that_says_that_it_is_done_and_nothing_else_is_no_success(
    server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.reply(Stream([]))
    async with openai_at(server, monkeypatch) as provider:
        with pytest.raises(ResponseError, match="ended its stream without a reply"):
            await events_of(provider, ask(stream=True))


# --- keys and settings ------------------------------------------------------------------------------


async def test_a_local_server_gets_no_key_and_nothing_of_openais_environment(
    server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_ADMIN_KEY", "sk-admin-0123456789")
    monkeypatch.setenv("OPENAI_ORG_ID", "org-1")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "proj-1")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-Ours: yes")
    async with generic_at(server, headers={"X-Title": "mine"}) as provider:
        await response_to(provider, ask())
        await response_to(provider, ask(stream=True))
    for request in server.requests:
        sent = {name for name in request.headers if not name.startswith("x-stainless-")}
        assert sent == {
            "host", "accept", "accept-encoding", "connection",
            "content-type", "content-length", "user-agent", "x-title",
        }  # fmt: skip
        assert request.headers["x-title"] == "mine"


async def test_the_key_of_a_compatible_server_is_sent_where_it_is_set(
    server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GENERIC_OPENAI_API_KEY", "theirs")
    async with generic_at(server) as provider:
        await response_to(provider, ask())
    assert server.last.headers["authorization"] == "Bearer theirs"
    async with generic_at(server, api_key=SecretRef("env:NOT_SET_HERE")) as provider:
        with pytest.raises(CredentialError, match="NOT_SET_HERE is not set"):
            await response_to(provider, ask())
    async with generic_at(server, headers={"Authorization": "Basic abc"}, api_key=None) as provider:
        await response_to(provider, ask())
    assert server.last.headers["authorization"] == "Basic abc"


async def test_organization_and_project_are_sent_to_openai(
    server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with openai_at(server, monkeypatch, organization="org-1", project="proj-1") as provider:
        await response_to(provider, ask())
    assert server.last.headers["openai-organization"] == "org-1"
    assert server.last.headers["openai-project"] == "proj-1"


async def test_without_a_base_url_the_remedy_is_named() -> None:
    async with GenericOpenAIProvider("generic_openai", GenericOpenAISettings()) as provider:
        with pytest.raises(ConfigurationError) as caught:
            await response_to(provider, ask())
        problem = (
            "no base_url says where the server is; "
            "set providers.generic_openai.base_url in treadle.yaml, or GENERIC_OPENAI_BASE_URL"
        )
        assert str(caught.value) == f"provider 'generic_openai': {problem}"
        # Where a document is checked the variable may not be set: that is the deployment's, not the document's.
        assert list(provider.check(ask())) == []
        assert list(provider.check_steps(["a"])) == [("base_url", problem)], "so it is a doubt and no error"
    own = GenericOpenAIProvider("ours", GenericOpenAISettings())
    ((_, doubt),) = own.check_steps(["a"])
    assert doubt.endswith("; set providers.ours.base_url in treadle.yaml"), "the environment speaks to no other name"
    there = GenericOpenAIProvider("ours", GenericOpenAISettings(base_url="http://localhost:8000"))
    assert list(there.check_steps(["a"])) == []
