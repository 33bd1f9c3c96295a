"""The provider over the wire, against a real server on the loopback."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from treadle.errors import (
    ModelNotFoundError,
    ResponseError,
    UnavailableError,
)
from treadle.messages import (
    AssistantMessage,
    Completed,
    EmbedRequest,
    ModelRequest,
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
from treadle_ollama.provider import OllamaProvider
from treadle_ollama.settings import OllamaSettings

from wire.exchanges import PLAIN_AND_STREAMED, SPEC, events_of, response_to
from wire.http_server import Json, Text
from wire.ollama_server import MODEL, Lines, OllamaServer, call, done, failure, line, reply_json, text_lines


def ask(text: str = "hi", **fields: Any) -> ModelRequest:
    return ModelRequest(**{"model": MODEL, "messages": (UserMessage.of(text),), **fields})


@asynccontextmanager
async def ollama_at(server: OllamaServer, **settings: Any) -> AsyncIterator[OllamaProvider]:
    async with OllamaProvider("ollama", OllamaSettings(base_url=server.url, **settings)) as provider:
        yield provider


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


async def test_lines_may_end_with_a_carriage_return(server: OllamaServer) -> None:
    whole = "".join(json.dumps(each) + "\r\n" for each in text_lines("y", "es")).encode()
    async with ollama_at(server) as provider:
        for size in (1, len(whole)):
            server.reply(Lines([whole[at : at + size] for at in range(0, len(whole), size)]))
            assert (await response_to(provider, ask(stream=True))).text == "yes"


async def test_a_stream_may_end_without_a_line_end(server: OllamaServer) -> None:
    server.reply(Lines([json.dumps(done(content="whole")).encode()]))
    async with ollama_at(server) as provider:
        assert (await response_to(provider, ask(stream=True))).text == "whole"


async def test_a_plain_reply_may_be_printed_over_many_lines(server: OllamaServer) -> None:
    server.reply(Text(json.dumps(reply_json("pretty"), indent=2)))
    async with ollama_at(server) as provider:
        assert (await response_to(provider, ask())).text == "pretty"


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


# --- errors -----------------------------------------------------------------------------------------


@PLAIN_AND_STREAMED
async def test_a_missing_model_is_told_with_how_to_get_it(server: OllamaServer, stream: bool) -> None:
    says = "model 'llama3.2:1b' not found"
    server.reply(failure(says, status=404), failure(says, status=200))
    async with ollama_at(server) as provider:
        with pytest.raises(ModelNotFoundError) as caught:
            await events_of(provider, ask(stream=stream))
        with pytest.raises(ModelNotFoundError, match=r"ollama pull llama3\.2:1b"):
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


async def test_a_plain_reply_that_is_not_done_is_no_success(server: OllamaServer) -> None:
    server.reply(Json(line("half")))
    async with ollama_at(server) as provider:
        with pytest.raises(ResponseError, match="answered without saying that it is done"):
            await events_of(provider, ask())


async def test_the_key_is_sent_where_it_is_set(server: OllamaServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OLLAMA_API_KEY", "ollama-test-0123456789")
    async with ollama_at(server) as provider:
        await response_to(provider, ask())
    assert server.last.headers["authorization"] == "Bearer ollama-test-0123456789"


async def test_a_line_without_an_end_is_not_waited_for(server: OllamaServer) -> None:
    server.reply(Lines([line("half"), b"x" * (17 * 1024 * 1024)]))
    async with ollama_at(server) as provider:
        with pytest.raises(ResponseError, match="sent too much: a line of the reply is longer than 16 MB") as caught:
            await events_of(provider, ask(stream=True))
    assert (caught.value.transient, caught.value.phase) == (True, "body")
