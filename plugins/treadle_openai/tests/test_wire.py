"""The providers over the wire: the real SDK against a real server on the loopback."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from treadle.contracts.secrets import SecretRef
from treadle.errors import (
    AuthenticationError,
    BadRequestError,
    ConfigurationError,
    ContextLengthError,
    CredentialError,
    InsufficientCreditsError,
    ModelNotFoundError,
    ProviderError,
    ProviderTimeoutError,
    RateLimitError,
    RedirectError,
    ResponseError,
    UnavailableError,
)
from treadle.messages import (
    AssistantMessage,
    Completed,
    EmbedRequest,
    ModelRequest,
    ModelResponse,
    OutputSchema,
    Reasoning,
    ReasoningDelta,
    StopReason,
    StreamEvent,
    SystemMessage,
    TextDelta,
    ToolCallDelta,
    ToolCallPart,
    ToolMessage,
    ToolResultPart,
    ToolSpec,
    Usage,
    UserMessage,
)
from treadle_openai.provider import GenericOpenAIProvider, OpenAIProvider
from treadle_openai.settings import GenericOpenAISettings, OpenAISettings

from wire.http_server import Drop, Hang, Json, Recorded, Text
from wire.openai_server import OpenAIServer, Stream, call, chunk, completion, failure, text_chunks

KEY = "sk-test-0123456789abcdef"
PLAIN_AND_STREAMED = pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])
SPEC = ToolSpec(
    name="look", description="Look up", parameters={"type": "object", "properties": {"q": {"type": "string"}}}
)


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


async def collect(
    provider: OpenAIProvider | GenericOpenAIProvider, request: ModelRequest, seen: list[StreamEvent]
) -> None:
    async with provider.exchange(request) as events:
        async for event in events:
            seen.append(event)  # noqa: PERF401 - what came before an error is kept


async def events_of(provider: OpenAIProvider | GenericOpenAIProvider, request: ModelRequest) -> list[StreamEvent]:
    seen: list[StreamEvent] = []
    await collect(provider, request, seen)
    return seen


async def response_to(provider: OpenAIProvider | GenericOpenAIProvider, request: ModelRequest) -> ModelResponse:
    last = (await events_of(provider, request))[-1]
    assert isinstance(last, Completed)
    return last.response


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


async def test_a_streamed_reply_gives_its_text_as_it_is_written(
    server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.reply(Stream(text_chunks("hel", "lo"), headers={"x-request-id": "req_8"}))
    async with openai_at(server, monkeypatch) as provider:
        events = await events_of(provider, ask(stream=True))
    *deltas, last = events
    assert deltas == [TextDelta("hel"), TextDelta("lo")]
    assert isinstance(last, Completed)
    assert last.response.text == "hello"
    assert last.response.usage == Usage(input_tokens=9, output_tokens=2)
    assert (last.response.stop_reason, last.response.request_id) == (StopReason.END_TURN, "req_8")
    assert server.last.json["stream"] is True
    assert server.last.json["stream_options"] == {"include_usage": True}


async def test_text_is_passed_on_while_the_server_still_writes(
    server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.reply(Stream([chunk(content="first")], done=False, then="hang"))
    async with openai_at(server, monkeypatch) as provider:
        with trio.fail_after(10):
            async with provider.exchange(ask(stream=True)) as events:
                assert await anext(events) == TextDelta("first")


@PLAIN_AND_STREAMED
async def test_a_plain_and_a_streamed_reply_are_the_same_response(
    server: OpenAIServer, monkeypatch: pytest.MonkeyPatch, stream: bool
) -> None:
    parts = [call("look", '{"q": "x"}', "a"), call("look", '{"q": "y"}', "b")]
    server.reply(
        Stream([chunk(content="so"), chunk(tool_calls=[{"index": i, **part} for i, part in enumerate(parts)]),
                chunk(finish_reason="tool_calls"), chunk(usage={"prompt_tokens": 1, "completion_tokens": 2})])
        if stream
        else Json(completion("so", tool_calls=parts, usage={"prompt_tokens": 1, "completion_tokens": 2}))
    )  # fmt: skip
    async with openai_at(server, monkeypatch) as provider:
        response = await response_to(provider, ask(tools=(SPEC,), stream=stream))
    assert [(c.call_id, c.tool_name, c.arguments) for c in response.message.tool_calls] == [
        ("a", "look", {"q": "x"}),
        ("b", "look", {"q": "y"}),
    ]
    assert (response.text, response.stop_reason) == ("so", StopReason.TOOL_USE)
    assert response.usage == Usage(input_tokens=1, output_tokens=2)


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


async def test_a_server_that_cannot_stream_is_understood(server: OpenAIServer) -> None:
    server.reply(Json(completion("all at once")))
    async with generic_at(server) as provider:
        first, last = await events_of(provider, ask(stream=True))
    assert first == TextDelta("all at once")
    assert isinstance(last, Completed)


async def test_a_connection_is_used_again(server: OpenAIServer, monkeypatch: pytest.MonkeyPatch) -> None:
    async with openai_at(server, monkeypatch) as provider:
        for stream in (False, True, True, False):
            await response_to(provider, ask(stream=stream))
        assert server.accepted == 1
    await server.until(lambda it: it.connections == 0)


async def test_fifty_exchanges_at_once_use_one_client(server: OpenAIServer, monkeypatch: pytest.MonkeyPatch) -> None:
    answered: list[str] = []
    async with openai_at(server, monkeypatch) as provider, trio.open_nursery() as nursery:

        async def one(stream: bool) -> None:
            answered.append((await response_to(provider, ask(stream=stream))).text)

        for number in range(50):
            nursery.start_soon(one, bool(number % 2))
    assert answered == ["hello"] * 50
    await server.until(lambda it: it.connections == 0)


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

ERRORS: list[tuple[int, dict[str, Any], type[ProviderError], bool]] = [
    (400, {}, BadRequestError, False),
    (400, {"code": "context_length_exceeded"}, ContextLengthError, False),
    (401, {"code": "invalid_api_key"}, AuthenticationError, False),
    (402, {}, InsufficientCreditsError, False),
    (403, {}, AuthenticationError, False),
    (404, {"code": "model_not_found"}, ModelNotFoundError, False),
    (408, {}, ProviderTimeoutError, True),
    (409, {}, UnavailableError, True),
    (413, {}, BadRequestError, False),
    (418, {}, BadRequestError, False),
    (422, {}, BadRequestError, False),
    (429, {"code": "rate_limit_exceeded"}, RateLimitError, True),
    (429, {"code": "insufficient_quota"}, InsufficientCreditsError, False),
    (500, {}, UnavailableError, True),
    (502, {}, UnavailableError, True),
    (503, {}, UnavailableError, True),
    (529, {}, UnavailableError, True),
]


@PLAIN_AND_STREAMED
@pytest.mark.parametrize(("status", "words", "kind", "transient"), ERRORS)
async def test_an_error_status_becomes_its_error(
    server: OpenAIServer,
    monkeypatch: pytest.MonkeyPatch,
    stream: bool,
    status: int,
    words: dict[str, Any],
    kind: type[ProviderError],
    transient: bool,
) -> None:
    server.reply(failure(f"no, not with {KEY}", status=status, retry_after="7", x_request_id="req_9", **words))
    async with openai_at(server, monkeypatch) as provider:
        with pytest.raises(ProviderError) as caught:
            await events_of(provider, ask(stream=stream))
    error = caught.value
    assert type(error) is kind
    assert error.message == f"provider 'openai' answered {status}: no, not with ***"
    assert (error.transient, error.status_code, error.retry_after) == (transient, status, 7.0)
    assert (error.request_id, error.phase, error.request_sent) == ("req_9", "status", True)
    assert len(server.requests) == 1  # the SDK's own retries are off


@PLAIN_AND_STREAMED
async def test_a_redirect_is_not_followed(server: OpenAIServer, monkeypatch: pytest.MonkeyPatch, stream: bool) -> None:
    server.reply(Text("", 302, {"location": f"{server.url}/elsewhere?key=secret-in-query"}))
    async with openai_at(server, monkeypatch) as provider:
        with pytest.raises(RedirectError) as caught:
            await events_of(provider, ask(stream=stream))
    assert str(caught.value) == (
        f"provider 'openai' answered 302: to {server.url}/elsewhere; "
        "set the base URL to where the server really is; a key is not carried along a redirect"
    )
    assert len(server.requests) == 1


@PLAIN_AND_STREAMED
async def test_an_error_inside_a_good_status_is_classified_by_its_code(
    server: OpenAIServer, monkeypatch: pytest.MonkeyPatch, stream: bool
) -> None:
    server.reply(
        failure("slow down", code=429, status=200, retry_after_ms="1500"),
        failure("broken", code="server_error", status=200),
        failure("something", status=200),
    )
    async with openai_at(server, monkeypatch) as provider:
        with pytest.raises(RateLimitError, match="answered 200 with an error of kind 429: slow down") as limited:
            await events_of(provider, ask(stream=stream))
        with pytest.raises(UnavailableError, match="error of kind 500: broken"):
            await events_of(provider, ask(stream=stream))
        with pytest.raises(ResponseError, match="answered 200 with an error: something"):
            await events_of(provider, ask(stream=stream))
    assert limited.value.retry_after == 1.5


@PLAIN_AND_STREAMED
@pytest.mark.parametrize("body", ["<html>hello</html>", '"text"', "{}", '{"choices": []}', '{"choices": [{}]}', "[1]"])
async def test_a_reply_that_is_no_completion_is_unreadable(
    server: OpenAIServer, monkeypatch: pytest.MonkeyPatch, stream: bool, body: str
) -> None:
    server.reply(Text(body, content_type="application/json"))
    async with openai_at(server, monkeypatch) as provider:
        with pytest.raises(ResponseError) as caught:
            await events_of(provider, ask(stream=stream))
    assert caught.value.message in (
        "provider 'openai' answered without a message",
        "provider 'openai' answered with something that is not JSON",
    )


@pytest.mark.parametrize(
    ("reply", "says"),
    [
        (Stream([chunk(content="half")], done=False), "ended its stream before the reply was complete"),
        (Stream([chunk(content="half")], done=False, then="cut"), "dropped the connection in the middle of its reply"),
        (
            Stream([chunk(content="half")], done=False, then="reset"),
            "dropped the connection in the middle of its reply",
        ),
        (Stream([]), "ended its stream without a reply"),
        (Stream([chunk(content="half"), "{not json"]), "sent a chunk that is not JSON"),
        (Text("not a stream at all"), "ended its stream before the reply was complete"),
    ],
    ids=["ended", "cut", "reset", "empty", "not-json", "not-sse"],
)
async def test_a_stream_that_is_not_whole_is_no_success(
    server: OpenAIServer, monkeypatch: pytest.MonkeyPatch, reply: Any, says: str
) -> None:
    server.reply(reply)
    seen: list[StreamEvent] = []
    async with openai_at(server, monkeypatch) as provider:
        with pytest.raises(ResponseError, match=says) as caught:
            await collect(provider, ask(stream=True), seen)
    assert (caught.value.transient, caught.value.phase) == (True, "body")
    assert not any(isinstance(event, Completed) for event in seen)


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


@PLAIN_AND_STREAMED
async def test_a_connection_dropped_before_the_reply_is_a_passing_failure(
    server: OpenAIServer, monkeypatch: pytest.MonkeyPatch, stream: bool
) -> None:
    server.reply(Drop(), Drop(reset=True))
    async with openai_at(server, monkeypatch) as provider:
        for _ in range(2):
            with pytest.raises(UnavailableError) as caught:
                await events_of(provider, ask(stream=stream))
            assert caught.value.message == f"127.0.0.1:{server.port} dropped the connection before it replied"
            assert (caught.value.phase, caught.value.transient) == ("read", True)


@PLAIN_AND_STREAMED
async def test_a_plain_body_cut_short_is_unreadable(
    server: OpenAIServer, monkeypatch: pytest.MonkeyPatch, stream: bool
) -> None:
    server.reply(Json(completion("hello"), cut=20))
    async with openai_at(server, monkeypatch) as provider:
        with pytest.raises(ResponseError, match="dropped the connection in the middle of its reply"):
            await events_of(provider, ask(stream=stream))


@PLAIN_AND_STREAMED
async def test_a_silent_server_times_out(server: OpenAIServer, monkeypatch: pytest.MonkeyPatch, stream: bool) -> None:
    server.reply(Hang())
    async with openai_at(server, monkeypatch, timeout=0.1) as provider:
        with pytest.raises(
            ProviderTimeoutError, match=r"waiting for a reply of 127\.0\.0\.1:\d+ took too long"
        ) as caught:
            await events_of(provider, ask(stream=stream))
    assert (caught.value.phase, caught.value.request_sent) == ("read", True)


async def test_a_stream_that_falls_silent_times_out(server: OpenAIServer, monkeypatch: pytest.MonkeyPatch) -> None:
    server.reply(Stream([chunk(content="half")], done=False, then="hang"))
    async with openai_at(server, monkeypatch, timeout=0.1) as provider:
        with pytest.raises(ProviderTimeoutError, match="fell silent in the middle of its reply"):
            await events_of(provider, ask(stream=True))


@PLAIN_AND_STREAMED
async def test_nobody_listening_is_told_by_address(monkeypatch: pytest.MonkeyPatch, stream: bool) -> None:
    settings = GenericOpenAISettings(base_url="http://127.0.0.1:9")
    async with GenericOpenAIProvider("local", settings) as provider:
        with pytest.raises(UnavailableError) as caught:
            await events_of(provider, ask(stream=stream))
    assert str(caught.value) == "could not connect to 127.0.0.1:9 (connection refused)"
    assert (caught.value.phase, caught.value.request_sent) == ("connect", False)


async def test_the_key_is_in_no_error_text(server: OpenAIServer, monkeypatch: pytest.MonkeyPatch) -> None:
    import traceback

    secret = "a-gateway-token"
    for reply in (
        failure(f"Incorrect API key provided: {KEY}.", status=401),
        Text(f"bad token {secret} Bearer {KEY}", 500),
        failure(f"{KEY}", status=200, code=500),
        Stream([{"error": {"message": f"{KEY} {secret}"}}]),
    ):
        server.reply(reply)
        async with openai_at(server, monkeypatch, headers={"X-Token": secret}) as provider:
            with pytest.raises(ProviderError) as caught:
                await events_of(provider, ask(stream=isinstance(reply, Stream)))
        shown = "".join(traceback.format_exception(caught.value)) + repr(caught.value) + repr(caught.value.__dict__)
        assert KEY not in shown
        assert secret not in shown
        assert "***" in shown


# --- leaving early ----------------------------------------------------------------------------------


def slow() -> Stream:
    return Stream([chunk(content=f"{n} ") for n in range(1000)], pause=0.01)


async def test_leaving_a_stream_early_ends_it_at_the_server(
    server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with openai_at(server, monkeypatch) as provider:
        await response_to(provider, ask())  # the SDK is loaded, one idle connection is there
        await wait_all_tasks_blocked()
        tasks = trio.lowlevel.current_statistics().tasks_living
        server.reply(*(slow() for _ in range(10)))
        for turn in range(10):
            async with provider.exchange(ask(stream=True)) as events:
                assert [await anext(events) for _ in range(3)] == [TextDelta("0 "), TextDelta("1 "), TextDelta("2 ")]
            await server.until(lambda it, turn=turn: it.disconnects == turn + 1 and it.connections == 0)
        await wait_all_tasks_blocked()
        # One less than before: the server's task of the connection that was idle.
        assert trio.lowlevel.current_statistics().tasks_living == tasks - 1


@pytest.mark.parametrize("received", [0, 1, 3])
async def test_cancelling_a_stream_ends_it_at_the_server(
    server: OpenAIServer, monkeypatch: pytest.MonkeyPatch, received: int
) -> None:
    server.reply(slow() if received else Hang())
    async with openai_at(server, monkeypatch) as provider:
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:

                async def consume() -> None:
                    async with provider.exchange(ask(stream=True)) as events:
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


async def test_cancelling_a_plain_exchange_ends_it_at_the_server(
    server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.reply(Hang())
    async with openai_at(server, monkeypatch) as provider:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(response_to, provider, ask())
            await server.until(lambda it: len(it.requests) == 1)
            nursery.cancel_scope.cancel()
        await server.until(lambda it: it.disconnects == 1 and it.connections == 0)


async def test_a_cancelled_session_closes_every_connection(
    server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with trio.CancelScope() as scope:
        async with openai_at(server, monkeypatch) as provider:
            async with trio.open_nursery() as nursery:
                for number in range(5):
                    server.reply(Json(completion(), delay=0.05))
                    nursery.start_soon(response_to, provider, ask(str(number)))
            assert server.connections == 5
            scope.cancel()
            await trio.lowlevel.checkpoint()
    await server.until(lambda it: it.connections == 0)


@PLAIN_AND_STREAMED
async def test_an_exception_of_the_body_leaves_as_itself(
    server: OpenAIServer, monkeypatch: pytest.MonkeyPatch, stream: bool
) -> None:
    server.reply(slow() if stream else reply_of(False))
    cause = KeyError("cause")

    async def fail(provider: OpenAIProvider) -> None:
        async with provider.exchange(ask(stream=stream)) as events:
            await anext(events)
            raise ValueError("mine") from cause

    async with openai_at(server, monkeypatch) as provider:
        with pytest.raises(ValueError, match="mine") as caught:
            await fail(provider)
    assert caught.value.__cause__ is cause
    assert caught.value.__context__ is None or not isinstance(caught.value.__context__, BaseExceptionGroup)
    await server.until(lambda it: it.connections == 0)


async def test_a_stream_left_at_its_first_event_leaves_no_generator_behind(
    server: OpenAIServer, monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder
) -> None:
    import gc

    server.reply(*(slow() for _ in range(5)))
    async with openai_at(server, monkeypatch) as provider:
        for _ in range(5):
            async with provider.exchange(ask(stream=True)) as events:
                async for _event in events:
                    break
    gc.collect()
    await trio.lowlevel.checkpoint()
    assert [str(each.message) for each in recwarn] == []


async def test_a_stream_that_never_ends_its_body_does_not_hold_the_reply_up(
    server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.reply(Stream(text_chunks("hi"), then="hang"))
    async with openai_at(server, monkeypatch) as provider:
        with trio.fail_after(5):
            assert (await response_to(provider, ask(stream=True))).text == "hi"
        await server.until(lambda it: it.connections == 0)


# --- keys and settings ------------------------------------------------------------------------------


@PLAIN_AND_STREAMED
async def test_a_missing_key_is_told_before_any_request(server: OpenAIServer, stream: bool) -> None:
    async with OpenAIProvider("openai", OpenAISettings(base_url=server.url)) as provider:
        with pytest.raises(CredentialError) as caught:
            await events_of(provider, ask(stream=stream))
    assert str(caught.value) == "the environment variable OPENAI_API_KEY is not set; export OPENAI_API_KEY=..."
    assert server.accepted == 0


async def test_a_key_that_no_header_can_carry_is_refused_unseen(
    server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-one\nsk-two")
    async with OpenAIProvider("openai", OpenAISettings(base_url=server.url)) as provider:
        with pytest.raises(CredentialError) as caught:
            await provider.embed(EmbedRequest(model="m", inputs=("x",)))
    assert str(caught.value) == "the key in env:OPENAI_API_KEY holds white space or characters that no key has"


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
        problem = "no base_url says where the server is; set the provider's base_url, or GENERIC_OPENAI_BASE_URL"
        assert str(caught.value) == f"provider 'generic_openai': {problem}"
        # Where a document is checked the variable may not be set: that is the deployment's, not the document's.
        assert list(provider.check(ask())) == []


async def test_a_provider_that_was_not_entered_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    provider = OpenAIProvider("openai", OpenAISettings())
    with pytest.raises(RuntimeError, match="used before it is entered"):
        await response_to(provider, ask())


async def test_text_that_utf8_cannot_hold_does_not_break_the_request(server: OpenAIServer) -> None:
    async with generic_at(server) as provider:
        await response_to(provider, ask("half \ud83d of a pair, é"))
    assert server.last.json["messages"][0]["content"] == "half ? of a pair, é"
    assert json.loads(server.last.body.decode("utf-8"))
