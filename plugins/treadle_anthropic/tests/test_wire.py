"""The provider over the wire: the real SDK against a real server on the loopback."""

from __future__ import annotations

import gc
import traceback
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from treadle.errors import (
    AuthenticationError,
    BadRequestError,
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
    UnreachableError,
)
from treadle.messages import (
    AssistantMessage,
    Completed,
    HostedTool,
    ModelRequest,
    ModelResponse,
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
    ToolSpec,
    Usage,
    UserMessage,
)
from treadle_anthropic.provider import AnthropicProvider
from treadle_anthropic.settings import AnthropicSettings

from wire.anthropic_server import (
    AnthropicServer,
    Stream,
    events_of,
    failure,
    message,
    redacted,
    search,
    text,
    thinking,
    tool_use,
)
from wire.http_server import Drop, Hang, Json, Recorded, Reply, Text

KEY = "sk-ant-test-0123456789abcdef"
PLAIN_AND_STREAMED = pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])
SPEC = ToolSpec(name="look", description="Look up", parameters={"properties": {"q": {"type": "string"}}})
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


async def collect(provider: AnthropicProvider, request: ModelRequest, seen: list[StreamEvent]) -> None:
    async with provider.exchange(request) as events:
        async for event in events:
            seen.append(event)  # noqa: PERF401 - what came before an error is kept


async def events_from(provider: AnthropicProvider, request: ModelRequest) -> list[StreamEvent]:
    seen: list[StreamEvent] = []
    await collect(provider, request, seen)
    return seen


async def response_to(provider: AnthropicProvider, request: ModelRequest) -> ModelResponse:
    last = (await events_from(provider, request))[-1]
    assert isinstance(last, Completed)
    return last.response


def reply_of(stream: bool, whole: dict[str, Any] | None = None, **headers: str) -> Reply:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    whole = whole or message()
    return Stream(events_of(whole), headers=named) if stream else Json(whole, headers=named)


# --- good replies -----------------------------------------------------------------------------------


async def test_a_plain_reply_is_one_event(server: AnthropicServer, monkeypatch: pytest.MonkeyPatch) -> None:
    server.reply(reply_of(False, request_id="req_7"))
    async with claude_at(server, monkeypatch) as provider:
        (event,) = await events_from(provider, ask(max_tokens=9))
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


async def test_a_streamed_reply_gives_its_text_as_it_is_written(
    server: AnthropicServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.reply(reply_of(True, request_id="req_8"))
    async with claude_at(server, monkeypatch) as provider:
        *deltas, last = await events_from(provider, ask(stream=True))
    assert deltas == [TextDelta("hel"), TextDelta("lo")]
    assert isinstance(last, Completed)
    assert (last.response.text, last.response.request_id) == ("hello", "req_8")
    assert last.response.usage == Usage(input_tokens=9, output_tokens=3)
    assert server.last.json["stream"] is True


async def test_text_is_passed_on_while_the_server_still_writes(
    server: AnthropicServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.reply(Stream(events_of(message("first"), pieces=1)[:4], then="hang"))
    async with claude_at(server, monkeypatch) as provider:
        with trio.fail_after(10):
            async with provider.exchange(ask(stream=True)) as events:
                assert await anext(events) == TextDelta("first")


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
        *deltas, last = await events_from(provider, request)
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
        *deltas, last = await events_from(provider, request)
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


async def test_a_server_that_cannot_stream_is_understood(
    server: AnthropicServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.reply(Json(message("all at once")))
    async with claude_at(server, monkeypatch) as provider:
        first, last = await events_from(provider, ask(stream=True))
    assert first == TextDelta("all at once")
    assert isinstance(last, Completed)


async def test_a_connection_is_used_again(server: AnthropicServer, monkeypatch: pytest.MonkeyPatch) -> None:
    async with claude_at(server, monkeypatch) as provider:
        for stream in (False, True, True, False):
            await response_to(provider, ask(stream=stream))
        assert server.accepted == 1
    await server.until(lambda it: it.connections == 0)


async def test_fifty_exchanges_at_once_use_one_client(server: AnthropicServer, monkeypatch: pytest.MonkeyPatch) -> None:
    answered: list[str] = []
    async with claude_at(server, monkeypatch) as provider, trio.open_nursery() as nursery:

        async def one(stream: bool) -> None:
            answered.append((await response_to(provider, ask(stream=stream))).text)

        for number in range(50):
            nursery.start_soon(one, bool(number % 2))
    assert answered == ["hello"] * 50
    await server.until(lambda it: it.connections == 0)


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
                await events_from(provider, request)
            assert len(server.requests) == asked
            assert caught.value.__cause__ is None
    await server.until(lambda it: it.connections == 0)


# --- errors -----------------------------------------------------------------------------------------

ERRORS: list[tuple[int, str, str, type[ProviderError], bool]] = [
    (400, "invalid_request_error", "no", BadRequestError, False),
    (400, "invalid_request_error", "prompt is too long: 2 tokens > 1 maximum", ContextLengthError, False),
    (400, "invalid_request_error", "Your credit balance is too low", InsufficientCreditsError, False),
    (401, "authentication_error", "no", AuthenticationError, False),
    (402, "billing_error", "no", InsufficientCreditsError, False),
    (403, "permission_error", "no", AuthenticationError, False),
    (404, "not_found_error", "no", ModelNotFoundError, False),
    (408, "timeout_error", "no", ProviderTimeoutError, True),
    (409, "conflict_error", "no", UnavailableError, True),
    (412, "precondition", "no", BadRequestError, False),
    (413, "request_too_large", "no", BadRequestError, False),
    (418, "teapot", "no", BadRequestError, False),
    (422, "invalid_request_error", "no", BadRequestError, False),
    (429, "rate_limit_error", "no", RateLimitError, True),
    (431, "headers", "no", BadRequestError, False),
    (499, "closed", "no", BadRequestError, False),
    (500, "api_error", "no", UnavailableError, True),
    (501, "api_error", "no", UnavailableError, True),
    (503, "api_error", "no", UnavailableError, True),
    (504, "timeout_error", "no", UnavailableError, True),
    (529, "overloaded_error", "no", UnavailableError, True),
]


@PLAIN_AND_STREAMED
@pytest.mark.parametrize(("status", "word", "said", "kind", "transient"), ERRORS)
async def test_an_error_status_becomes_its_error(
    server: AnthropicServer,
    monkeypatch: pytest.MonkeyPatch,
    stream: bool,
    status: int,
    word: str,
    said: str,
    kind: type[ProviderError],
    transient: bool,
) -> None:
    server.reply(failure(f"{said} {KEY}", kind=word, status=status, retry_after="7", request_id="req_9"))
    async with claude_at(server, monkeypatch) as provider:
        with pytest.raises(ProviderError) as caught:
            await events_from(provider, ask(stream=stream))
    error = caught.value
    assert type(error) is kind
    assert error.message == f"provider 'anthropic' answered {status}: {said} ***"
    assert (error.transient, error.status_code, error.retry_after) == (transient, status, 7.0)
    assert (error.request_id, error.phase, error.request_sent) == ("req_9", "status", True)
    assert len(server.requests) == 1  # the SDK's own retries are off


@PLAIN_AND_STREAMED
async def test_a_redirect_is_not_followed(
    server: AnthropicServer, monkeypatch: pytest.MonkeyPatch, stream: bool
) -> None:
    server.reply(Text("", 302, {"location": f"{server.url}/elsewhere?key=secret-in-query"}))
    async with claude_at(server, monkeypatch) as provider:
        with pytest.raises(RedirectError, match=f"answered 302: to {server.url}/elsewhere;"):
            await events_from(provider, ask(stream=stream))
    assert len(server.requests) == 1


@PLAIN_AND_STREAMED
async def test_an_error_inside_a_good_status_is_classified_by_its_type(
    server: AnthropicServer, monkeypatch: pytest.MonkeyPatch, stream: bool
) -> None:
    server.reply(
        failure("slow down", kind="rate_limit_error", status=200, retry_after_ms="1500"),
        failure("Overloaded", kind="overloaded_error", status=200),
        failure("something", kind="something_new", status=200),
    )
    async with claude_at(server, monkeypatch) as provider:
        with pytest.raises(RateLimitError, match="answered 200 with an error of kind 429: slow down") as limited:
            await events_from(provider, ask(stream=stream))
        with pytest.raises(UnavailableError, match="error of kind 529: Overloaded"):
            await events_from(provider, ask(stream=stream))
        with pytest.raises(ResponseError, match="answered 200 with an error: something"):
            await events_from(provider, ask(stream=stream))
    assert (limited.value.retry_after, limited.value.request_id) == (1.5, "req_body")


@pytest.mark.parametrize(
    ("word", "kind"),
    [("overloaded_error", UnavailableError), ("api_error", UnavailableError), ("rate_limit_error", RateLimitError)],
)
async def test_an_error_inside_a_stream_ends_it_after_what_came_before(
    server: AnthropicServer, monkeypatch: pytest.MonkeyPatch, word: str, kind: type[ProviderError]
) -> None:
    begun = events_of(message("half"), pieces=1)[:4]
    server.reply(Stream([*begun, {"type": "error", "error": {"type": word, "message": "too busy"}}]))
    seen: list[StreamEvent] = []
    async with claude_at(server, monkeypatch) as provider:
        with pytest.raises(kind, match="too busy") as caught:
            await collect(provider, ask(stream=True), seen)
    assert caught.value.phase == "body"
    assert not any(isinstance(each, Completed) for each in seen)


@PLAIN_AND_STREAMED
@pytest.mark.parametrize("body", ["<html>hello</html>", '"text"', "{}", '{"content": null}', "[1]"])
async def test_a_reply_that_is_no_message_is_unreadable(
    server: AnthropicServer, monkeypatch: pytest.MonkeyPatch, stream: bool, body: str
) -> None:
    server.reply(Text(body, content_type="application/json"))
    async with claude_at(server, monkeypatch) as provider:
        with pytest.raises(ResponseError) as caught:
            await events_from(provider, ask(stream=stream))
    assert caught.value.message in (
        "provider 'anthropic' answered without a message",
        "provider 'anthropic' answered with something that is not JSON",
    )


HALF = events_of(message("half"))[:4]


@pytest.mark.parametrize(
    ("reply", "says"),
    [
        (Stream(HALF), "ended its stream before the reply was complete"),
        (Stream(HALF, then="cut"), "dropped the connection in the middle of its reply"),
        (Stream(HALF, then="reset"), "dropped the connection in the middle of its reply"),
        (Stream([]), "ended its stream before the reply was complete"),
        (Stream([*HALF, b"data: {not json\n\n"]), "sent an event that is not JSON"),
        (Text("not a stream at all"), "ended its stream before the reply was complete"),
    ],
    ids=["ended", "cut", "reset", "empty", "not-json", "not-sse"],
)
async def test_a_stream_that_is_not_whole_is_no_success(
    server: AnthropicServer, monkeypatch: pytest.MonkeyPatch, reply: Any, says: str
) -> None:
    server.reply(reply)
    seen: list[StreamEvent] = []
    async with claude_at(server, monkeypatch) as provider:
        with pytest.raises(ResponseError, match=says) as caught:
            await collect(provider, ask(stream=True), seen)
    assert (caught.value.transient, caught.value.phase) == (True, "body")
    assert not any(isinstance(event, Completed) for event in seen)


@PLAIN_AND_STREAMED
async def test_a_connection_dropped_before_the_reply_is_a_passing_failure(
    server: AnthropicServer, monkeypatch: pytest.MonkeyPatch, stream: bool
) -> None:
    server.reply(Drop(), Drop(reset=True))
    async with claude_at(server, monkeypatch) as provider:
        for _ in range(2):
            with pytest.raises(UnavailableError, match="dropped the connection before it replied") as caught:
                await events_from(provider, ask(stream=stream))
            assert (caught.value.phase, caught.value.transient) == ("read", True)


@PLAIN_AND_STREAMED
async def test_a_plain_body_cut_short_is_unreadable(
    server: AnthropicServer, monkeypatch: pytest.MonkeyPatch, stream: bool
) -> None:
    server.reply(Json(message(), cut=20))
    async with claude_at(server, monkeypatch) as provider:
        with pytest.raises(ResponseError, match="dropped the connection in the middle of its reply"):
            await events_from(provider, ask(stream=stream))


@PLAIN_AND_STREAMED
async def test_a_silent_server_times_out(
    server: AnthropicServer, monkeypatch: pytest.MonkeyPatch, stream: bool
) -> None:
    server.reply(Hang())
    async with claude_at(server, monkeypatch, timeout=0.1) as provider:
        with pytest.raises(ProviderTimeoutError, match=r"waiting for a reply of 127\.0\.0\.1:\d+ took too long"):
            await events_from(provider, ask(stream=stream))


async def test_a_stream_that_falls_silent_times_out(server: AnthropicServer, monkeypatch: pytest.MonkeyPatch) -> None:
    server.reply(Stream(HALF, then="hang"))
    async with claude_at(server, monkeypatch, timeout=0.1) as provider:
        with pytest.raises(ProviderTimeoutError, match="fell silent in the middle of its reply"):
            await events_from(provider, ask(stream=True))


@PLAIN_AND_STREAMED
@pytest.mark.parametrize(
    ("url", "kind", "says"),
    [
        ("http://127.0.0.1:9", UnavailableError, "could not connect to 127.0.0.1:9 (connection refused)"),
        ("http://no-such-host.invalid", UnreachableError, "could not find the host of no-such-host.invalid:80"),
    ],
    ids=["nobody", "dns"],
)
async def test_a_server_that_is_not_there_is_told_by_address(
    monkeypatch: pytest.MonkeyPatch, stream: bool, url: str, kind: type[ProviderError], says: str
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)

    async def unknown(*_: Any, **__: Any) -> Any:
        import socket

        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(trio.socket, "getaddrinfo", unknown if "invalid" in url else trio.socket.getaddrinfo)
    async with AnthropicProvider("anthropic", AnthropicSettings(base_url=url)) as provider:
        with pytest.raises(kind) as caught:
            await events_from(provider, ask(stream=stream))
    assert str(caught.value).startswith(says)
    assert (caught.value.phase, caught.value.request_sent) == ("connect", False)


async def test_the_key_is_in_no_error_text(server: AnthropicServer, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "a-gateway-token"
    for reply in (
        failure(f"invalid key: {KEY}.", status=401),
        Text(f"bad token {secret} Bearer {KEY}", 500),
        failure(f"{KEY}", kind="api_error", status=200),
        Stream([{"type": "error", "error": {"type": "api_error", "message": f"{KEY} {secret}"}}]),
    ):
        server.reply(reply)
        async with claude_at(server, monkeypatch, headers={"X-Token": secret}) as provider:
            with pytest.raises(ProviderError) as caught:
                await events_from(provider, ask(stream=isinstance(reply, Stream)))
        shown = "".join(traceback.format_exception(caught.value)) + repr(caught.value) + repr(caught.value.__dict__)
        assert KEY not in shown
        assert secret not in shown
        assert "***" in shown


# --- leaving early ----------------------------------------------------------------------------------


def slow() -> Stream:
    first, ping, start, *_ = events_of(message("x"))
    deltas = (
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": f"{n} "}}
        for n in range(1000)
    )
    return Stream([first, ping, start, *deltas], pause=0.01)


async def test_leaving_a_stream_early_ends_it_at_the_server(
    server: AnthropicServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with claude_at(server, monkeypatch) as provider:
        await response_to(provider, ask())  # the SDK is loaded, one idle connection is there
        await wait_all_tasks_blocked()
        tasks = trio.lowlevel.current_statistics().tasks_living
        server.reply(*(slow() for _ in range(10)))
        for turn in range(10):
            async with provider.exchange(ask(stream=True)) as events:
                assert [await anext(events) for _ in range(turn % 4)] == [TextDelta(f"{n} ") for n in range(turn % 4)]
                await server.until(lambda it: len(it.requests) == turn + 2)  # noqa: B023 - called at once
            await server.until(lambda it: (it.disconnects, it.connections) == (turn + 1, 0))  # noqa: B023
        await wait_all_tasks_blocked()
        # One less than before: the server's task of the connection that was idle.
        assert trio.lowlevel.current_statistics().tasks_living == tasks - 1


async def _cancelled_after(rounds: int, provider: AnthropicProvider, request: ModelRequest) -> bool:
    """Cancel an exchange after so many rounds of the scheduler; whether it was still under way."""
    finished = False

    async def consume() -> None:
        nonlocal finished
        await events_from(provider, request)
        finished = True

    async with trio.open_nursery() as nursery:
        nursery.start_soon(consume)
        for _ in range(rounds):
            await trio.lowlevel.checkpoint()
            if finished:
                break
        nursery.cancel_scope.cancel()
    return not finished


def _rounds() -> Iterable[int]:
    return [*range(40), *range(40, 400, 12)]


@PLAIN_AND_STREAMED
async def test_a_cancellation_at_any_moment_leaves_nothing_behind(
    server: AnthropicServer, monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder, stream: bool
) -> None:
    """In connecting, sending, waiting, reading, between two events, and in the second request of a refused one."""
    monkeypatch.setattr(AnthropicServer, "default_reply", lambda *_: Hang())
    async with claude_at(server, monkeypatch) as provider:
        server.reply(reply_of(False))
        await response_to(provider, ask())  # the SDK is loaded
        cancelled = 0
        for rounds in _rounds():
            for request, replies in (
                (ask(stream=stream), [slow() if stream else Hang()]),
                (with_thinking(stream=stream), [failure(BAD_SIGNATURE), slow() if stream else Hang()]),
            ):
                server.replies.clear()
                server.reply(*replies)
                cancelled += await _cancelled_after(rounds, provider, request)
        assert cancelled == 2 * len(list(_rounds()))
        server.replies.clear()
        server.reply(reply_of(stream))
        assert (await response_to(provider, ask(stream=stream))).text == "hello"  # the pool is as good as new
    await server.until(lambda it: it.connections == 0)
    gc.collect()
    await trio.lowlevel.checkpoint()
    assert [str(each.message) for each in recwarn] == []


@PLAIN_AND_STREAMED
async def test_the_server_sees_a_cancellation_at_once(
    server: AnthropicServer, monkeypatch: pytest.MonkeyPatch, stream: bool
) -> None:
    server.reply(Hang())
    async with claude_at(server, monkeypatch) as provider:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(response_to, provider, ask(stream=stream))
            await server.until(lambda it: len(it.requests) == 1)
            nursery.cancel_scope.cancel()
        await server.until(lambda it: it.disconnects == 1 and it.connections == 0)


async def test_a_cancelled_session_closes_every_connection(
    server: AnthropicServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with trio.CancelScope() as scope:
        async with claude_at(server, monkeypatch) as provider:
            async with trio.open_nursery() as nursery:
                for number in range(5):
                    server.reply(Json(message(), delay=0.05))
                    nursery.start_soon(response_to, provider, ask(str(number)))
            assert server.connections == 5
            scope.cancel()
            await trio.lowlevel.checkpoint()
    await server.until(lambda it: it.connections == 0)


@PLAIN_AND_STREAMED
async def test_an_exception_of_the_body_leaves_as_itself(
    server: AnthropicServer, monkeypatch: pytest.MonkeyPatch, stream: bool
) -> None:
    server.reply(slow() if stream else reply_of(False))
    cause = KeyError("cause")

    async def fail(provider: AnthropicProvider) -> None:
        async with provider.exchange(ask(stream=stream)) as events:
            await anext(events)
            raise ValueError("mine") from cause

    async with claude_at(server, monkeypatch) as provider:
        with pytest.raises(ValueError, match="mine") as caught:
            await fail(provider)
    assert caught.value.__cause__ is cause
    assert not isinstance(caught.value.__context__, BaseExceptionGroup)
    await server.until(lambda it: it.connections == 0)


async def test_a_stream_that_never_ends_its_body_does_not_hold_the_reply_up(
    server: AnthropicServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.reply(Stream(events_of(message("hi")), then="hang"))
    async with claude_at(server, monkeypatch) as provider:
        with trio.fail_after(5):
            assert (await response_to(provider, ask(stream=True))).text == "hi"
        await server.until(lambda it: it.connections == 0)


# --- keys and settings ------------------------------------------------------------------------------


@PLAIN_AND_STREAMED
async def test_a_missing_key_is_told_before_any_request(
    server: AnthropicServer, monkeypatch: pytest.MonkeyPatch, stream: bool
) -> None:
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "of-another-tool")  # the SDK would take it
    async with AnthropicProvider("anthropic", AnthropicSettings(base_url=server.url)) as provider:
        with pytest.raises(CredentialError) as caught:
            await events_from(provider, ask(stream=stream))
    assert str(caught.value) == "the environment variable ANTHROPIC_API_KEY is not set; export ANTHROPIC_API_KEY=..."
    assert server.accepted == 0


async def test_a_key_that_no_header_can_carry_is_refused_unseen(
    server: AnthropicServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-one\nsk-two")
    async with AnthropicProvider("anthropic", AnthropicSettings(base_url=server.url)) as provider:
        with pytest.raises(CredentialError) as caught:
            await response_to(provider, ask())
    assert str(caught.value) == "the key in env:ANTHROPIC_API_KEY holds white space or characters that no key has"


async def test_a_token_of_the_environment_does_not_take_the_keys_place(
    server: AnthropicServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "of-another-tool")
    async with claude_at(server, monkeypatch) as provider:
        await response_to(provider, ask())
    assert "of-another-tool" not in repr(server.last.headers)


async def test_a_provider_that_was_not_entered_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    provider = AnthropicProvider("anthropic", AnthropicSettings())
    with pytest.raises(RuntimeError, match="used before it is entered"):
        await response_to(provider, ask())
