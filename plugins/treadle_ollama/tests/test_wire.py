"""The provider over the wire, against a real server on the loopback."""

from __future__ import annotations

import gc
import json
import traceback
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
    ContextLengthError,
    CredentialError,
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
from treadle_ollama.provider import OllamaProvider
from treadle_ollama.settings import OllamaSettings

from wire.http_server import Drop, Hang, Json, Text
from wire.ollama_server import MODEL, Lines, OllamaServer, call, done, failure, line, reply_json, text_lines

KEY = "ollama-test-0123456789"
PLAIN_AND_STREAMED = pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])
SPEC = ToolSpec(
    name="look", description="Look up", parameters={"type": "object", "properties": {"q": {"type": "string"}}}
)


def ask(text: str = "hi", **fields: Any) -> ModelRequest:
    return ModelRequest(**{"model": MODEL, "messages": (UserMessage.of(text),), **fields})


@asynccontextmanager
async def ollama_at(server: OllamaServer, **settings: Any) -> AsyncIterator[OllamaProvider]:
    async with OllamaProvider("ollama", OllamaSettings(base_url=server.url, **settings)) as provider:
        yield provider


async def collect(provider: OllamaProvider, request: ModelRequest, seen: list[StreamEvent]) -> None:
    async with provider.exchange(request) as events:
        async for event in events:
            seen.append(event)  # noqa: PERF401 - what came before an error is kept


async def events_of(provider: OllamaProvider, request: ModelRequest) -> list[StreamEvent]:
    seen: list[StreamEvent] = []
    await collect(provider, request, seen)
    return seen


async def response_to(provider: OllamaProvider, request: ModelRequest) -> ModelResponse:
    last = (await events_of(provider, request))[-1]
    assert isinstance(last, Completed)
    return last.response


def reply_of(stream: bool, *pieces: str, **last: Any) -> Any:
    if stream:
        return Lines([*(line(piece) for piece in pieces), done(**last)])
    return Json(reply_json("".join(pieces), **last))


# --- good replies -----------------------------------------------------------------------------------


async def test_a_plain_reply_is_one_event(server: OllamaServer) -> None:
    async with ollama_at(server, keep_alive="10m") as provider:
        (event,) = await events_of(provider, ask(max_tokens=9, temperature=0.5, stop_sequences=("END",)))
    assert isinstance(event, Completed)
    response = event.response
    assert (response.text, response.stop_reason, response.finish_reason) == ("hello", StopReason.END_TURN, "stop")
    assert response.usage == Usage(input_tokens=9, output_tokens=3)
    assert (response.model, response.provider, response.warnings) == (MODEL, "ollama", ())
    assert server.last.path == "/api/chat"
    assert server.last.headers["user-agent"].startswith("treadle/")
    assert "authorization" not in server.last.headers
    assert server.last.json == {
        "model": MODEL,
        "messages": [{"role": "user", "content": "hi"}],
        "keep_alive": "10m",
        "options": {"temperature": 0.5, "num_predict": 9, "stop": ["END"]},
        "stream": False,
    }


async def test_a_streamed_reply_gives_its_text_as_it_is_written(server: OllamaServer) -> None:
    async with ollama_at(server) as provider:
        *deltas, last = await events_of(provider, ask(stream=True))
    assert deltas == [TextDelta("hel"), TextDelta("lo")]
    assert isinstance(last, Completed)
    assert (last.response.text, last.response.stop_reason) == ("hello", StopReason.END_TURN)
    assert last.response.usage == Usage(input_tokens=9, output_tokens=3)
    assert server.last.json["stream"] is True


async def test_text_is_passed_on_while_the_server_still_writes(server: OllamaServer) -> None:
    server.reply(Lines([line("first")], then="hang"))
    async with ollama_at(server) as provider:
        with trio.fail_after(10):
            async with provider.exchange(ask(stream=True)) as events:
                assert await anext(events) == TextDelta("first")


@PLAIN_AND_STREAMED
async def test_calls_come_whole_and_every_one_gets_its_own_id(server: OllamaServer, stream: bool) -> None:
    calls = [call("look", {"q": "x"}), call("look", {"q": "y"}), call("now"), call("look", {"q": "x"}, id="a")]
    server.reply(
        # The server's indexes begin anew in every object, and so are no help.
        Lines([line("so"), line(tool_calls=calls[:2]), line(tool_calls=calls[2:3]), line(tool_calls=calls[3:]), done()])
        if stream
        else Json(reply_json("so", tool_calls=calls))
    )
    async with ollama_at(server) as provider:
        response = await response_to(provider, ask(tools=(SPEC,), stream=stream))
    found = response.message.tool_calls
    assert [(each.tool_name, each.arguments) for each in found] == [
        ("look", {"q": "x"}), ("look", {"q": "y"}), ("now", {}), ("look", {"q": "x"}),
    ]  # fmt: skip
    assert len({each.call_id for each in found}) == 4
    assert all(each.call_id for each in found)
    assert found[3].call_id == "a"
    assert (response.text, response.stop_reason) == ("so", StopReason.TOOL_USE)


async def test_a_streamed_call_is_told_as_it_comes(server: OllamaServer) -> None:
    server.reply(Lines([line(tool_calls=[call("look", {"q": "é"}, id="a")]), done()]))
    async with ollama_at(server) as provider:
        first, last = await events_of(provider, ask(tools=(SPEC,), stream=True))
    assert first == ToolCallDelta(index=0, call_id="a", tool_name="look", arguments='{"q": "é"}')
    assert isinstance(last, Completed)


@PLAIN_AND_STREAMED
@pytest.mark.parametrize("arguments", ["not json", ["a", "list"], 7])
async def test_arguments_that_are_no_object_do_not_run(server: OllamaServer, stream: bool, arguments: Any) -> None:
    server.reply(reply_of(stream, tool_calls=[call("look", arguments)]))
    async with ollama_at(server) as provider:
        (found,) = (await response_to(provider, ask(tools=(SPEC,), stream=stream))).message.tool_calls
    assert found.arguments is None
    assert (found.parse_error or "").startswith("the arguments are not")


@PLAIN_AND_STREAMED
async def test_thoughts_are_kept_apart_and_given_back(server: OllamaServer, stream: bool) -> None:
    server.reply(
        Lines([line(thinking="h"), line(thinking="m"), line("yes"), done()])
        if stream
        else Json(reply_json("yes", thinking="hm"))
    )
    async with ollama_at(server) as provider:
        events = await events_of(provider, ask(reasoning=Reasoning(level="high"), stream=stream))
        last = events[-1]
        assert isinstance(last, Completed)
        assert server.last.json["think"] == "high"
        history = (UserMessage.of("hi"), last.response.message, UserMessage.of("sure?"))
        await response_to(provider, ask(messages=history, reasoning=Reasoning(), stream=stream))
    assert (last.response.message.reasoning, last.response.text) == ("hm", "yes")
    if stream:
        assert events[:3] == [ReasoningDelta("h"), ReasoningDelta("m"), TextDelta("yes")]
    assert server.last.json["think"] is True
    assert server.last.json["messages"][1] == {"role": "assistant", "content": "yes", "thinking": "hm"}


@PLAIN_AND_STREAMED
async def test_thoughts_that_are_not_wanted_are_not_kept(server: OllamaServer, stream: bool) -> None:
    server.reply(reply_of(stream, "yes", thinking="hm"))
    async with ollama_at(server) as provider:
        events = await events_of(provider, ask(reasoning=Reasoning(capture=False), stream=stream))
    last = events[-1]
    assert isinstance(last, Completed)
    assert last.response.message.reasoning == ""
    assert not any(isinstance(event, ReasoningDelta) for event in events)
    assert "hm" not in repr(last.response)


@PLAIN_AND_STREAMED
async def test_what_the_api_cannot_say_is_ignored_with_a_warning(server: OllamaServer, stream: bool) -> None:
    async with ollama_at(server) as provider:
        response = await response_to(
            provider,
            ask(tools=(SPEC,), tool_choice="required", reasoning=Reasoning(budget_tokens=100), stream=stream),
        )
    assert response.warnings == (
        "tool_choice is ignored: Ollama has none",
        "thinking.budget_tokens is ignored: Ollama takes a level",
    )
    assert set(server.last.json) == {"model", "messages", "tools", "think", "stream"}


@PLAIN_AND_STREAMED
async def test_a_tool_loop_sends_calls_and_results_back(server: OllamaServer, stream: bool) -> None:
    calling = AssistantMessage(parts=(ToolCallPart(call_id="a", tool_name="look", arguments={"q": "x"}),))
    results = ToolMessage(results=(ToolResultPart(call_id="a", tool_name="look", content="found"),))
    history = (SystemMessage(text="be brief"), UserMessage.of("look"), calling, results)
    async with ollama_at(server) as provider:
        await response_to(provider, ask(messages=history, tools=(SPEC,), stream=stream))
    assert server.last.json["messages"] == [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": "look"},
        {"role": "assistant", "content": "", "tool_calls": [call("look", {"q": "x"})]},
        {"role": "tool", "tool_name": "look", "content": "found"},
    ]
    assert server.last.json["tools"] == [
        {"type": "function", "function": {"name": "look", "description": "Look up", "parameters": SPEC.parameters}}
    ]


@pytest.mark.parametrize(
    ("reason", "stop"),
    [
        ("stop", StopReason.END_TURN), ("length", StopReason.MAX_TOKENS), ("load", StopReason.END_TURN),
        ("unload", StopReason.END_TURN), ("brand_new", StopReason.UNKNOWN), (None, StopReason.UNKNOWN),
    ],
)  # fmt: skip
@PLAIN_AND_STREAMED
async def test_why_it_stopped_is_told(server: OllamaServer, stream: bool, reason: str | None, stop: StopReason) -> None:
    server.reply(reply_of(stream, "x", reason=reason))
    async with ollama_at(server) as provider:
        response = await response_to(provider, ask(stream=stream))
    assert (response.stop_reason, response.finish_reason) == (stop, reason)


@PLAIN_AND_STREAMED
async def test_a_call_in_a_reply_that_was_cut_stays_cut(server: OllamaServer, stream: bool) -> None:
    server.reply(reply_of(stream, reason="length", tool_calls=[call("look")]))
    async with ollama_at(server) as provider:
        assert (await response_to(provider, ask(stream=stream))).stop_reason is StopReason.MAX_TOKENS


@PLAIN_AND_STREAMED
async def test_counts_that_the_server_does_not_give_are_unknown(server: OllamaServer, stream: bool) -> None:
    last = done(counts={"eval_count": 4})
    server.reply(Lines([last]) if stream else Json(last))
    async with ollama_at(server) as provider:
        assert (await response_to(provider, ask(stream=stream))).usage == Usage(output_tokens=4)


async def test_any_cut_of_a_stream_into_pieces_gives_one_reply(server: OllamaServer) -> None:
    whole = "".join(json.dumps(each, ensure_ascii=False) + "\r\n" for each in text_lines("é", "😀", "z")).encode()
    async with ollama_at(server) as provider:
        for size in (1, 2, 3, 7, len(whole)):
            server.reply(Lines([whole[at : at + size] for at in range(0, len(whole), size)]))
            assert (await response_to(provider, ask(stream=True))).text == "é😀z"


async def test_a_stream_may_end_without_a_line_end(server: OllamaServer) -> None:
    server.reply(Lines([json.dumps(done(content="whole")).encode()]))
    async with ollama_at(server) as provider:
        assert (await response_to(provider, ask(stream=True))).text == "whole"


async def test_a_plain_reply_may_be_printed_over_many_lines(server: OllamaServer) -> None:
    server.reply(Text(json.dumps(reply_json("pretty"), indent=2)))
    async with ollama_at(server) as provider:
        assert (await response_to(provider, ask())).text == "pretty"


async def test_a_connection_is_used_again(server: OllamaServer) -> None:
    async with ollama_at(server) as provider:
        for stream in (False, True, True, False):
            await response_to(provider, ask(stream=stream))
        assert server.accepted == 1
    await server.until(lambda it: it.connections == 0)


async def test_vectors_come_in_the_order_of_their_inputs(server: OllamaServer) -> None:
    texts = tuple("x" * (n % 7) for n in range(1030))
    async with ollama_at(server, keep_alive=0) as provider:
        answer = await provider.embed(EmbedRequest(model="nomic-embed-text", inputs=texts, dimensions=2))
        nothing = await provider.embed(EmbedRequest(model="nomic-embed-text", inputs=()))
    assert answer.vectors == tuple((float(n % 7), 1.0) for n in range(1030))
    assert answer.usage == Usage(input_tokens=1030, output_tokens=0)
    assert (nothing.vectors, nothing.usage) == ((), Usage.ZERO)
    assert [len(body["input"]) for body in server.bodies()] == [512, 512, 6]
    assert server.last.path == "/api/embed"
    assert (server.last.json["dimensions"], server.last.json["keep_alive"]) == (2, 0)


@pytest.mark.parametrize("rows", [[], [[1.0]], [[1.0], ["x"]], None])
async def test_vectors_that_are_not_one_for_each_input_are_unreadable(server: OllamaServer, rows: Any) -> None:
    server.reply(Json({"model": MODEL, "embeddings": rows}))
    async with ollama_at(server) as provider:
        with pytest.raises(ResponseError, match=r"answered with \d vectors for 2 inputs"):
            await provider.embed(EmbedRequest(model="m", inputs=("a", "b")))


# --- errors -----------------------------------------------------------------------------------------

ERRORS: list[tuple[int, str, type[ProviderError], bool]] = [
    (400, "invalid options", BadRequestError, False),
    (400, '"gemma" does not support thinking', BadRequestError, False),
    (400, "the input length exceeds the context length", ContextLengthError, False),
    (401, "unauthorized", AuthenticationError, False),
    (403, "no", AuthenticationError, False),
    (404, "model 'x:1b' not found", ModelNotFoundError, False),
    (429, "too many", RateLimitError, True),
    (500, "llama runner process has terminated", UnavailableError, True),
    (502, "bad gateway", UnavailableError, True),
    (503, "server busy, please try again", UnavailableError, True),
]


@PLAIN_AND_STREAMED
@pytest.mark.parametrize(("status", "says", "kind", "transient"), ERRORS)
async def test_an_error_status_becomes_its_error(
    server: OllamaServer, stream: bool, status: int, says: str, kind: type[ProviderError], transient: bool
) -> None:
    server.reply(failure(says, status=status, retry_after="7"))
    async with ollama_at(server) as provider:
        with pytest.raises(ProviderError) as caught:
            await events_of(provider, ask(stream=stream))
    error = caught.value
    assert type(error) is kind
    assert error.message == f"provider 'ollama' answered {status}: {says}"
    assert (error.transient, error.status_code, error.retry_after) == (transient, status, 7.0)
    assert (error.phase, error.request_sent) == ("status", True)
    assert len(server.requests) == 1


@PLAIN_AND_STREAMED
async def test_a_missing_model_is_told_with_how_to_get_it(server: OllamaServer, stream: bool) -> None:
    server.reply(failure("model 'llama3.2:1b' not found", status=404))
    async with ollama_at(server) as provider:
        with pytest.raises(ModelNotFoundError) as caught:
            await events_of(provider, ask(stream=stream))
    assert str(caught.value) == (
        "provider 'ollama' answered 404: model 'llama3.2:1b' not found; ollama pull llama3.2:1b"
    )


@PLAIN_AND_STREAMED
async def test_a_server_that_is_not_running_is_told_with_its_address(stream: bool) -> None:
    async with OllamaProvider("ollama", OllamaSettings(base_url="http://user:pass@127.0.0.1:9/api")) as provider:
        with pytest.raises(UnavailableError) as caught:
            await events_of(provider, ask(stream=stream))
    assert str(caught.value) == (
        "could not connect to 127.0.0.1:9 (connection refused); "
        "is Ollama running at http://127.0.0.1:9? Start it with: ollama serve"
    )
    assert (caught.value.phase, caught.value.request_sent) == ("connect", False)


@PLAIN_AND_STREAMED
async def test_a_redirect_is_not_followed(server: OllamaServer, stream: bool) -> None:
    server.reply(Text("", 302, {"location": f"{server.url}/elsewhere"}))
    async with ollama_at(server) as provider:
        with pytest.raises(RedirectError, match="answered 302"):
            await events_of(provider, ask(stream=stream))
    assert len(server.requests) == 1


@PLAIN_AND_STREAMED
async def test_an_error_inside_a_good_status_is_an_error(server: OllamaServer, stream: bool) -> None:
    server.reply(failure("an error was encountered", status=200), failure("model 'y' not found", status=200))
    async with ollama_at(server) as provider:
        with pytest.raises(ResponseError, match="answered 200 with an error: an error was encountered") as caught:
            await events_of(provider, ask(stream=stream))
        with pytest.raises(ModelNotFoundError, match="ollama pull llama3"):
            await events_of(provider, ask(stream=stream))
    assert (caught.value.transient, caught.value.phase) == (True, "body")


async def test_an_error_inside_a_stream_ends_it(server: OllamaServer) -> None:
    server.reply(Lines([line("half"), {"error": "out of memory"}, line("more"), done()]))
    seen: list[StreamEvent] = []
    async with ollama_at(server) as provider:
        with pytest.raises(ResponseError, match="out of memory"):
            await collect(provider, ask(stream=True), seen)
    assert not any(isinstance(event, Completed) for event in seen)


async def test_an_error_instead_of_vectors_is_an_error(server: OllamaServer) -> None:
    server.reply(failure("this model does not support embeddings", status=501), failure("no", status=200), Text("<p>"))
    async with ollama_at(server) as provider:
        for kind in (UnavailableError, ResponseError, ResponseError):
            with pytest.raises(kind):
                await provider.embed(EmbedRequest(model="m", inputs=("x",)))


@PLAIN_AND_STREAMED
@pytest.mark.parametrize("body", ["<html>hello</html>", '"text"', "{}", "[1]", '{"message": 7}'])
async def test_a_reply_that_is_none_is_unreadable(server: OllamaServer, stream: bool, body: str) -> None:
    server.reply(Text(body, content_type="application/json"))
    async with ollama_at(server) as provider:
        with pytest.raises(ResponseError, match=r"provider 'ollama' (answered with|sent a line|answered without)"):
            await events_of(provider, ask(stream=stream))


@pytest.mark.parametrize(
    ("reply", "says"),
    [
        (Lines([line("half")]), "ended its stream before the reply was complete"),
        (Lines([line("half"), b'{"model": "x", "mess']), "sent a line that is not JSON"),
        (Lines([line("half")], then="cut"), "dropped the connection in the middle of its reply"),
        (Lines([line("half")], then="reset"), "dropped the connection in the middle of its reply"),
        (Lines([]), "ended its stream before the reply was complete"),
        (Lines([line("half"), "{not json"]), "sent a line that is not JSON"),
        (Lines([line("half"), b"x" * (17 * 1024 * 1024)]), "sent too much: a line of the reply is longer than 16 MB"),
    ],
    ids=["ended", "half-a-line", "cut", "reset", "empty", "not-json", "endless-line"],
)
async def test_a_stream_that_is_not_whole_is_no_success(server: OllamaServer, reply: Any, says: str) -> None:
    server.reply(reply)
    seen: list[StreamEvent] = []
    async with ollama_at(server) as provider:
        with pytest.raises(ResponseError, match=says) as caught:
            await collect(provider, ask(stream=True), seen)
    assert (caught.value.transient, caught.value.phase) == (True, "body")
    assert not any(isinstance(event, Completed) for event in seen)


async def test_a_plain_reply_that_is_not_done_is_no_success(server: OllamaServer) -> None:
    server.reply(Json(line("half")))
    async with ollama_at(server) as provider:
        with pytest.raises(ResponseError, match="answered without saying that it is done"):
            await events_of(provider, ask())


@PLAIN_AND_STREAMED
async def test_a_connection_dropped_before_the_reply_is_a_passing_failure(server: OllamaServer, stream: bool) -> None:
    server.reply(Drop(), Drop(reset=True))
    async with ollama_at(server) as provider:
        for _ in range(2):
            with pytest.raises(UnavailableError, match="dropped the connection before it replied") as caught:
                await events_of(provider, ask(stream=stream))
            assert (caught.value.phase, caught.value.transient) == ("read", True)


async def test_a_plain_body_cut_short_is_unreadable(server: OllamaServer) -> None:
    server.reply(Json(reply_json("hello"), cut=20))
    async with ollama_at(server) as provider:
        with pytest.raises(ResponseError, match="dropped the connection in the middle of its reply"):
            await events_of(provider, ask())


@PLAIN_AND_STREAMED
async def test_a_silent_server_times_out(server: OllamaServer, stream: bool) -> None:
    server.reply(Hang())
    async with ollama_at(server, timeout=0.1) as provider:
        with pytest.raises(ProviderTimeoutError, match="waiting for a reply of 127"):
            await events_of(provider, ask(stream=stream))


async def test_the_key_is_sent_where_it_is_set_and_is_in_no_error_text(
    server: OllamaServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OLLAMA_API_KEY", KEY)
    server.reply(failure(f"bad key {KEY} and {'a-gateway-token'}", status=401))
    async with ollama_at(server, headers={"X-Token": "a-gateway-token"}) as provider:
        with pytest.raises(AuthenticationError) as caught:
            await events_of(provider, ask())
    assert server.last.headers["authorization"] == f"Bearer {KEY}"
    assert server.last.headers["x-token"] == "a-gateway-token"
    shown = "".join(traceback.format_exception(caught.value)) + repr(caught.value.__dict__)
    assert KEY not in shown
    assert "a-gateway-token" not in shown
    async with ollama_at(server, api_key=SecretRef("env:NOT_SET_HERE")) as provider:
        with pytest.raises(CredentialError, match="NOT_SET_HERE is not set"):
            await events_of(provider, ask())
    monkeypatch.setenv("OLLAMA_API_KEY", "one\ntwo")
    async with ollama_at(server) as provider:
        with pytest.raises(CredentialError, match="holds white space or characters that no key has"):
            await events_of(provider, ask())


# --- leaving early ----------------------------------------------------------------------------------


def slow() -> Lines:
    return Lines([line(f"{n} ") for n in range(1000)], pause=0.01)


async def test_leaving_a_stream_early_ends_it_at_the_server(
    server: OllamaServer, recwarn: pytest.WarningsRecorder
) -> None:
    async with ollama_at(server) as provider:
        await response_to(provider, ask())
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
    gc.collect()
    await trio.lowlevel.checkpoint()
    assert [str(each.message) for each in recwarn] == []


@pytest.mark.parametrize("received", [0, 1, 3])
async def test_cancelling_a_stream_ends_it_at_the_server(server: OllamaServer, received: int) -> None:
    server.reply(slow() if received else Hang())
    async with ollama_at(server) as provider:
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


async def test_cancelling_a_plain_exchange_or_an_embedding_ends_it_at_the_server(server: OllamaServer) -> None:
    server.reply(Hang(), Hang())
    async with ollama_at(server) as provider:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(response_to, provider, ask())
            nursery.start_soon(provider.embed, EmbedRequest(model="m", inputs=("x",)))
            await server.until(lambda it: len(it.requests) == 2)
            nursery.cancel_scope.cancel()
        await server.until(lambda it: it.disconnects == 2 and it.connections == 0)


@PLAIN_AND_STREAMED
async def test_a_cancellation_at_any_step_leaves_nothing(server: OllamaServer, stream: bool) -> None:
    """Cancelled at its first, second, ... checkpoint, until it is fast enough to end."""
    async with ollama_at(server) as provider:
        await wait_all_tasks_blocked()
        tasks = trio.lowlevel.current_statistics().tasks_living
        steps, ended = 1, False
        while not ended:
            with trio.CancelScope() as scope:
                async with trio.open_nursery() as nursery:

                    async def count(steps: int = steps, scope: trio.CancelScope = scope) -> None:
                        for _ in range(steps):
                            await trio.lowlevel.checkpoint()
                        scope.cancel()

                    nursery.start_soon(count)
                    await response_to(provider, ask(stream=stream))
                    nursery.cancel_scope.cancel()
            ended = not scope.cancelled_caught
            steps += 1 + steps // 20
        assert steps > 4
    await server.until(lambda it: it.connections == 0)
    await wait_all_tasks_blocked()
    assert trio.lowlevel.current_statistics().tasks_living <= tasks


@PLAIN_AND_STREAMED
async def test_an_exception_of_the_body_leaves_as_itself(server: OllamaServer, stream: bool) -> None:
    server.reply(slow() if stream else reply_of(False, "x"))

    async def fail(provider: OllamaProvider) -> None:
        async with provider.exchange(ask(stream=stream)) as events:
            await anext(events)
            raise ValueError("mine")

    async with ollama_at(server) as provider:
        with pytest.raises(ValueError, match="mine"):
            await fail(provider)
    await server.until(lambda it: it.connections == 0)


async def test_a_stream_that_never_ends_its_body_does_not_hold_the_reply_up(server: OllamaServer) -> None:
    server.reply(Lines(text_lines("hi"), then="hang"))
    async with ollama_at(server) as provider:
        with trio.fail_after(5):
            assert (await response_to(provider, ask(stream=True))).text == "hi"
        await server.until(lambda it: it.connections == 0)


async def test_a_plain_and_a_streamed_reply_are_the_same_response(server: OllamaServer) -> None:
    calls = [call("look", {"q": "x"}, id="a"), call("look", {"q": "y"}, id="b")]
    server.reply(
        Json(reply_json("so", thinking="hm", tool_calls=calls)),
        Lines([line(thinking="hm"), line("s"), line("o", tool_calls=calls), done()]),
    )
    async with ollama_at(server) as provider:
        plain = await response_to(provider, ask(tools=(SPEC,)))
        streamed = await response_to(provider, ask(tools=(SPEC,), stream=True))
    assert replace(plain, request_id=None) == replace(streamed, request_id=None)


async def test_a_provider_that_was_not_entered_says_so() -> None:
    with pytest.raises(RuntimeError, match="used before it is entered"):
        await response_to(OllamaProvider("ollama", OllamaSettings()), ask())
