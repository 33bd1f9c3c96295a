"""The provider over the wire: the real SDK against a real server on the loopback."""

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
    ReasoningPart,
    StopReason,
    StreamEvent,
    SystemMessage,
    TextDelta,
    TextPart,
    ToolCallPart,
    ToolMessage,
    ToolResultPart,
    ToolSpec,
    Usage,
    UserMessage,
    dump,
    load,
)
from treadle_google.provider import GoogleProvider
from treadle_google.settings import GoogleSettings

from wire.google_server import MODEL, GoogleServer, Stream, candidate, content, failure, text_chunks
from wire.http_server import Drop, Hang, Json, Text

KEY = "AIzaTest0123456789abcdef"
PLAIN_AND_STREAMED = pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])
SPEC = ToolSpec(
    name="look", description="Look up", parameters={"type": "object", "properties": {"q": {"type": "string"}}}
)


def ask(text: str = "hi", **fields: Any) -> ModelRequest:
    return ModelRequest(**{"model": MODEL, "messages": (UserMessage.of(text),), **fields})


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch, no_settings_of_the_machine: None) -> None:
    monkeypatch.setenv("GOOGLE_API_KEY", KEY)


@asynccontextmanager
async def google_at(server: GoogleServer, **settings: Any) -> AsyncIterator[GoogleProvider]:
    async with GoogleProvider("google", GoogleSettings(base_url=server.url, **settings)) as provider:
        yield provider


async def collect(provider: GoogleProvider, request: ModelRequest, seen: list[StreamEvent]) -> None:
    async with provider.exchange(request) as events:
        async for event in events:
            seen.append(event)  # noqa: PERF401 - what came before an error is kept


async def events_of(provider: GoogleProvider, request: ModelRequest) -> list[StreamEvent]:
    seen: list[StreamEvent] = []
    await collect(provider, request, seen)
    return seen


async def response_to(provider: GoogleProvider, request: ModelRequest) -> ModelResponse:
    last = (await events_of(provider, request))[-1]
    assert isinstance(last, Completed)
    return last.response


def reply_of(stream: bool, data: Any) -> Any:
    return Stream([data]) if stream else Json(data)


# --- good replies -----------------------------------------------------------------------------------


async def test_a_plain_reply_is_one_event(server: GoogleServer) -> None:
    async with google_at(server) as provider:
        (event,) = await events_of(provider, ask(max_tokens=9, temperature=0.5, stop_sequences=("END",)))
    assert isinstance(event, Completed)
    response = event.response
    assert (response.text, response.stop_reason, response.finish_reason) == ("hello", StopReason.END_TURN, "STOP")
    assert response.usage == Usage(input_tokens=9, output_tokens=3)
    assert (response.model, response.provider, response.request_id) == (f"{MODEL}-002", "google", "resp_1")
    assert response.warnings == ()
    assert server.last.path == f"/v1beta/models/{MODEL}:generateContent"
    assert server.last.headers["x-goog-api-key"] == KEY
    assert "google-genai-sdk/" in server.last.headers["user-agent"]
    assert "treadle/" in server.last.headers["user-agent"]
    assert server.last.json == {
        "contents": [{"role": "user", "parts": [{"text": "hi"}]}],
        "generationConfig": {"maxOutputTokens": 9, "temperature": 0.5, "stopSequences": ["END"]},
    }


async def test_a_streamed_reply_gives_its_text_as_it_is_written(server: GoogleServer) -> None:
    async with google_at(server) as provider:
        *deltas, last = await events_of(provider, ask(stream=True))
    assert deltas == [TextDelta("hel"), TextDelta("lo")]
    assert isinstance(last, Completed)
    assert last.response.text == "hello"
    assert last.response.message.parts == (TextPart(text="hello"),)
    assert last.response.usage == Usage(input_tokens=9, output_tokens=3)
    assert (last.response.stop_reason, last.response.request_id) == (StopReason.END_TURN, "resp_1")
    assert server.last.path == f"/v1beta/models/{MODEL}:streamGenerateContent?alt=sse"


async def test_text_is_passed_on_while_the_server_still_writes(server: GoogleServer) -> None:
    server.reply(Stream([candidate("first")], then="hang"))
    async with google_at(server) as provider:
        with trio.fail_after(10):
            async with provider.exchange(ask(stream=True)) as events:
                assert await anext(events) == TextDelta("first")


@PLAIN_AND_STREAMED
async def test_calls_come_whole_and_every_one_gets_its_own_id(server: GoogleServer, stream: bool) -> None:
    calls: list[dict[str, Any]] = [
        {"functionCall": {"name": "look", "args": {"q": "x"}}},
        {"functionCall": {"name": "look", "args": {"q": "y"}, "id": "a"}},
        {"functionCall": {"name": "now"}},
        {"functionCall": {"name": "look", "args": {"q": "z"}, "id": "a"}},
    ]
    server.reply(
        Stream([candidate("so"), candidate(*calls[:2]), candidate(*calls[2:]), content()])
        if stream
        else Json(content("so", *calls))
    )
    async with google_at(server) as provider:
        response = await response_to(provider, ask(tools=(SPEC,), stream=stream))
    found = response.message.tool_calls
    assert [(each.tool_name, each.arguments) for each in found] == [
        ("look", {"q": "x"}), ("look", {"q": "y"}), ("now", {}), ("look", {"q": "z"}),
    ]  # fmt: skip
    assert len({each.call_id for each in found}) == 4
    assert found[1].call_id == "a"
    assert (response.text, response.stop_reason, response.finish_reason) == ("so", StopReason.TOOL_USE, "STOP")


@PLAIN_AND_STREAMED
async def test_signatures_go_back_byte_for_byte_and_in_their_places(server: GoogleServer, stream: bool) -> None:
    signed = "CiQBjz1rXx+/==_-"  # no canonical base64: nothing may decode and encode it
    parts: list[dict[str, Any]] = [
        {"text": "let me see", "thought": True, "thoughtSignature": signed + "0"},
        {"text": "one "},
        {"text": "two"},
        {"text": "three", "thoughtSignature": signed + "1"},
        {"text": "four"},
        {"functionCall": {"name": "look", "args": {"q": "x"}, "id": "fc_1"}, "thoughtSignature": signed + "2"},
        {"functionCall": {"name": "look", "args": {"q": "y"}}},
        {"text": "", "thoughtSignature": signed + "3"},
    ]
    server.reply(Stream([*(candidate(part) for part in parts), content()]) if stream else Json(content(*parts)))
    async with google_at(server) as provider:
        response = await response_to(provider, ask(tools=(SPEC,), stream=stream))
        turn = load(AssistantMessage, json.loads(json.dumps(dump(response.message))))  # as a journal keeps it
        results = tuple(
            ToolResultPart(call_id=call.call_id, tool_name="look", content="found") for call in turn.tool_calls
        )
        history = (UserMessage.of("hi"), turn, ToolMessage(results=results))
        await response_to(provider, ask(messages=history, tools=(SPEC,), stream=stream))
    assert server.last.json["contents"][1:] == [
        {"role": "model", "parts": [parts[0], {"text": "one two"}, *parts[3:]]},
        {
            "role": "user",
            "parts": [
                {"functionResponse": {"id": "fc_1", "name": "look", "response": {"result": "found"}}},
                {"functionResponse": {"name": "look", "response": {"result": "found"}}},
            ],
        },
    ]


@PLAIN_AND_STREAMED
@pytest.mark.parametrize("says", ["Corrupted thought signature.", "Thought signature is not valid."])
async def test_a_refused_signature_is_dropped_once_and_told(server: GoogleServer, stream: bool, says: str) -> None:
    turn = AssistantMessage(
        parts=(
            ReasoningPart(text="hm", provider_data={"google": {"thoughtSignature": "old"}}),
            TextPart(text="yes", provider_data={"google": {"thoughtSignature": "old"}}),
        )
    )
    history = (UserMessage.of("hi"), turn, UserMessage.of("sure?"))
    server.reply(failure(says), reply_of(stream, content("well")), failure(says), failure(says))
    async with google_at(server) as provider:
        response = await response_to(provider, ask(messages=history, stream=stream))
        assert [body["contents"][1]["parts"] for body in server.bodies()] == [
            [
                {"text": "hm", "thought": True, "thoughtSignature": "old"},
                {"text": "yes", "thoughtSignature": "old"},
            ],
            [{"text": "yes"}],
        ]
        with pytest.raises(BadRequestError, match="signature"):
            await response_to(provider, ask(messages=history, stream=stream))
        assert len(server.requests) == 4
    assert response.text == "well"
    assert response.warnings == (
        "the API refused a signature of an earlier reply; it was asked again without signatures",
    )


@PLAIN_AND_STREAMED
async def test_thoughts_are_kept_apart(server: GoogleServer, stream: bool) -> None:
    chunks = [candidate({"text": "h", "thought": True}), candidate({"text": "m", "thought": True}), content("yes")]
    server.reply(Stream(chunks) if stream else Json(content({"text": "hm", "thought": True}, "yes")))
    wanted = Reasoning(budget_tokens=512, level="high")
    async with google_at(server) as provider:
        events = await events_of(provider, ask(reasoning=wanted, stream=stream))
    last = events[-1]
    assert isinstance(last, Completed)
    assert (last.response.message.reasoning, last.response.text) == ("hm", "yes")
    if stream:
        assert events[:3] == [ReasoningDelta("h"), ReasoningDelta("m"), TextDelta("yes")]
    assert server.last.json["generationConfig"]["thinkingConfig"] == {
        "includeThoughts": True, "thinkingBudget": 512, "thinkingLevel": "high",
    }  # fmt: skip


@PLAIN_AND_STREAMED
async def test_thoughts_that_are_not_wanted_are_not_kept(server: GoogleServer, stream: bool) -> None:
    server.reply(reply_of(stream, content({"text": "hm", "thought": True}, "yes")))
    async with google_at(server) as provider:
        events = await events_of(provider, ask(reasoning=Reasoning(capture=False), stream=stream))
    assert server.last.json["generationConfig"]["thinkingConfig"] == {"includeThoughts": False}
    assert "hm" not in repr(events)


@PLAIN_AND_STREAMED
async def test_what_it_does_not_know_goes_back_as_it_came(server: GoogleServer, stream: bool) -> None:
    parts = [{"executableCode": {"language": "PYTHON", "code": "1"}, "thoughtSignature": "s"}, {"text": "done"}]
    server.reply(reply_of(stream, content(*parts)))
    async with google_at(server) as provider:
        response = await response_to(provider, ask(stream=stream))
        await response_to(provider, ask(messages=(UserMessage.of("hi"), response.message), stream=stream))
    assert response.text == "done"
    assert server.last.json["contents"][1]["parts"] == parts


@PLAIN_AND_STREAMED
@pytest.mark.parametrize(
    ("finish", "stop"),
    [
        ("STOP", StopReason.END_TURN), ("MAX_TOKENS", StopReason.MAX_TOKENS), ("SAFETY", StopReason.REFUSAL),
        ("RECITATION", StopReason.REFUSAL), ("PROHIBITED_CONTENT", StopReason.REFUSAL), ("SPII", StopReason.REFUSAL),
        ("MALFORMED_FUNCTION_CALL", StopReason.ERROR), ("UNEXPECTED_TOOL_CALL", StopReason.ERROR),
        ("OTHER", StopReason.UNKNOWN), ("BRAND_NEW", StopReason.UNKNOWN),
    ],
)  # fmt: skip
async def test_why_it_stopped_is_told(server: GoogleServer, stream: bool, finish: str, stop: StopReason) -> None:
    server.reply(reply_of(stream, content("x", finish=finish)))
    async with google_at(server) as provider:
        response = await response_to(provider, ask(stream=stream))
    assert (response.stop_reason, response.finish_reason) == (stop, finish)


@PLAIN_AND_STREAMED
async def test_an_empty_reply_is_a_reply(server: GoogleServer, stream: bool) -> None:
    server.reply(
        reply_of(stream, content()), reply_of(stream, content(content={"role": "model"})),
        reply_of(stream, content(content={"parts": [{"text": ""}]})),
    )  # fmt: skip
    async with google_at(server) as provider:
        for _ in range(3):
            response = await response_to(provider, ask(stream=stream))
            assert (response.message.parts, response.stop_reason) == ((), StopReason.END_TURN)


@PLAIN_AND_STREAMED
async def test_a_blocked_prompt_is_a_refusal(server: GoogleServer, stream: bool) -> None:
    blocked = {"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}, "usageMetadata": {"promptTokenCount": 7}}
    server.reply(reply_of(stream, blocked))
    async with google_at(server) as provider:
        response = await response_to(provider, ask(stream=stream))
    assert (response.stop_reason, response.finish_reason) == (StopReason.REFUSAL, "PROHIBITED_CONTENT")
    assert (response.message.parts, response.usage) == ((), Usage(input_tokens=7))


@PLAIN_AND_STREAMED
async def test_what_the_api_says_of_a_bad_end_is_a_warning(server: GoogleServer, stream: bool) -> None:
    server.reply(
        reply_of(stream, content(finish="MALFORMED_FUNCTION_CALL", finishMessage="Malformed function call: look("))
    )
    async with google_at(server) as provider:
        response = await response_to(provider, ask(stream=stream))
    assert response.warnings == ("the model stopped with MALFORMED_FUNCTION_CALL: Malformed function call: look(",)


@PLAIN_AND_STREAMED
async def test_a_call_in_a_reply_that_was_cut_stays_cut(server: GoogleServer, stream: bool) -> None:
    server.reply(reply_of(stream, content({"functionCall": {"name": "look"}}, finish="MAX_TOKENS")))
    async with google_at(server) as provider:
        assert (await response_to(provider, ask(stream=stream))).stop_reason is StopReason.MAX_TOKENS


@PLAIN_AND_STREAMED
@pytest.mark.parametrize(
    ("counts", "usage"),
    [
        (
            {"promptTokenCount": 100, "cachedContentTokenCount": 40, "candidatesTokenCount": 10,
             "thoughtsTokenCount": 30, "toolUsePromptTokenCount": 5, "totalTokenCount": 145},
            Usage(input_tokens=105, output_tokens=40, cache_read_tokens=40, reasoning_tokens=30),
        ),
        # All of the limit was spent on thoughts: a count of zero is not written.
        ({"promptTokenCount": 9, "thoughtsTokenCount": 50, "totalTokenCount": 59},
         Usage(input_tokens=9, output_tokens=50, reasoning_tokens=50)),
        ({"promptTokenCount": 9, "totalTokenCount": 9}, Usage(input_tokens=9, output_tokens=0)),
        ({"promptTokenCount": 9}, Usage(input_tokens=9)),
        ({}, Usage()),
    ],
)  # fmt: skip
async def test_tokens_are_counted_as_everywhere(
    server: GoogleServer, stream: bool, counts: dict[str, int], usage: Usage
) -> None:
    server.reply(reply_of(stream, content("x", counts=counts)))
    async with google_at(server) as provider:
        assert (await response_to(provider, ask(stream=stream))).usage == usage


async def test_counts_of_a_stream_are_those_of_the_whole(server: GoogleServer) -> None:
    first = candidate("a", counts={"promptTokenCount": 9, "cachedContentTokenCount": 4, "totalTokenCount": 9})
    second = candidate("b", finish="STOP", counts={"promptTokenCount": 9, "candidatesTokenCount": 2})
    server.reply(Stream([first, second]))
    async with google_at(server) as provider:
        response = await response_to(provider, ask(stream=True))
    assert response.usage == Usage(input_tokens=9, output_tokens=2, cache_read_tokens=4)


@PLAIN_AND_STREAMED
async def test_a_tool_loop_sends_calls_and_results_back(server: GoogleServer, stream: bool) -> None:
    calling = AssistantMessage(parts=(ToolCallPart(call_id="a", tool_name="look", arguments={"q": "x"}),))
    results = ToolMessage(results=(ToolResultPart(call_id="a", tool_name="look", content="gone", is_error=True),))
    history = (SystemMessage(text="be brief"), UserMessage.of("look"), calling, results)
    async with google_at(server) as provider:
        await response_to(provider, ask(messages=history, tools=(SPEC,), tool_choice="required", stream=stream))
    assert server.last.json == {
        "systemInstruction": {"parts": [{"text": "be brief"}]},
        "contents": [
            {"role": "user", "parts": [{"text": "look"}]},
            {"role": "model", "parts": [{"functionCall": {"name": "look", "args": {"q": "x"}}}]},
            {"role": "user", "parts": [{"functionResponse": {"name": "look", "response": {"error": "gone"}}}]},
        ],
        "tools": [
            {
                "functionDeclarations": [
                    {
                        "name": "look",
                        "description": "Look up",
                        "parameters": {"type": "OBJECT", "properties": {"q": {"type": "STRING"}}},
                    }
                ]
            }
        ],
        "toolConfig": {"functionCallingConfig": {"mode": "ANY"}},
        "generationConfig": {},  # the SDK's
    }


@PLAIN_AND_STREAMED
async def test_a_shape_is_sent_in_the_dialect(server: GoogleServer, stream: bool) -> None:
    server.reply(reply_of(stream, content('{"title": null}')))
    schema = {
        "type": "object",
        "properties": {"title": {"type": ["string", "null"], "title": "Title", "default": None}},
        "required": ["title"],
        "additionalProperties": False,
    }
    async with google_at(server) as provider:
        response = await response_to(provider, ask(output=OutputSchema(name="it", schema=schema), stream=stream))
    assert response.text == '{"title": null}'
    assert server.last.json["generationConfig"] == {
        "responseMimeType": "application/json",
        "responseSchema": {
            "type": "OBJECT",
            "properties": {"title": {"type": "STRING", "nullable": True}},
            "required": ["title"],
        },
    }


async def test_any_cut_of_a_stream_into_pieces_gives_one_reply(server: GoogleServer) -> None:
    whole = "".join(
        f"data: {json.dumps(each, ensure_ascii=False)}\r\n\r\n" for each in text_chunks("é", "😀", "z")
    ).encode()
    async with google_at(server) as provider:
        for size in (1, 2, 3, 7, len(whole)):
            server.reply(Stream([whole[at : at + size] for at in range(0, len(whole), size)]))
            assert (await response_to(provider, ask(stream=True))).text == "é😀z"


async def test_a_server_that_cannot_stream_is_understood(server: GoogleServer) -> None:
    server.reply(Json(content("all at once")), Json(text_chunks("in ", "a list")))
    async with google_at(server) as provider:
        assert (await response_to(provider, ask(stream=True))).text == "all at once"
        assert (await response_to(provider, ask(stream=True))).text == "in a list"


async def test_a_connection_is_used_again(server: GoogleServer) -> None:
    async with google_at(server) as provider:
        for stream in (False, True, True, False):
            await response_to(provider, ask(stream=stream))
        assert server.accepted == 1
    await server.until(lambda it: it.connections == 0)


async def test_fifty_exchanges_at_once_get_their_own_answers(server: GoogleServer) -> None:
    answered: dict[int, str] = {}

    def echo(request: Any) -> Any:
        said = content(request.json["contents"][0]["parts"][0]["text"])
        return Stream([said], pause=0.001) if "stream" in request.path else Json(said)

    server.reply(*(echo for _ in range(50)))
    async with google_at(server) as provider, trio.open_nursery() as nursery:

        async def one(number: int) -> None:
            answered[number] = (await response_to(provider, ask(str(number), stream=bool(number % 2)))).text

        for number in range(50):
            nursery.start_soon(one, number)
    assert answered == {number: str(number) for number in range(50)}
    await server.until(lambda it: it.connections == 0)


async def test_vectors_come_in_the_order_of_their_inputs(server: GoogleServer) -> None:
    texts = tuple("x" * (n % 7) for n in range(230))
    async with google_at(server) as provider:
        answer = await provider.embed(EmbedRequest(model="gemini-embedding-001", inputs=texts, dimensions=2))
        server.reply(Json({"embeddings": [{"values": [1]}], "usageMetadata": {"promptTokenCount": 4}}))
        counted = await provider.embed(EmbedRequest(model="models/gemini-embedding-001", inputs=("x",)))
        nothing = await provider.embed(EmbedRequest(model="gemini-embedding-001", inputs=()))
    assert answer.vectors == tuple((float(n % 7), 1.0) for n in range(230))
    assert answer.usage == Usage()  # the API did not say
    assert counted.usage == Usage(input_tokens=4, output_tokens=0)
    assert (nothing.vectors, nothing.usage) == ((), Usage.ZERO)
    assert [len(body["requests"]) for body in server.bodies()] == [100, 100, 30, 1]
    assert server.last.path == "/v1beta/models/gemini-embedding-001:batchEmbedContents"
    assert server.bodies()[2]["requests"][0] == {
        "model": "models/gemini-embedding-001", "content": {"parts": [{"text": "x" * 4}]}, "outputDimensionality": 2,
    }  # fmt: skip


@pytest.mark.parametrize("rows", [[], [{"values": [1.0]}], [{"values": [1.0]}, {"values": ["x"]}], None])
async def test_vectors_that_are_not_one_for_each_input_are_unreadable(server: GoogleServer, rows: Any) -> None:
    server.reply(Json({"embeddings": rows}))
    async with google_at(server) as provider:
        with pytest.raises(ResponseError, match=r"answered with \d vectors for 2 inputs"):
            await provider.embed(EmbedRequest(model="gemini-embedding-001", inputs=("a", "b")))


# --- errors -----------------------------------------------------------------------------------------

INVALID_KEY = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}
RETRY = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.5s"}
TOO_LONG = "The input token count (1048577) exceeds the maximum number of tokens allowed (1048576)."

ERRORS: list[tuple[int, str, str, list[Any], type[ProviderError], bool]] = [
    (400, "INVALID_ARGUMENT", "bad field", [], BadRequestError, False),
    (400, "INVALID_ARGUMENT", "no", [INVALID_KEY], AuthenticationError, False),
    (400, "INVALID_ARGUMENT", "API key not valid. Please pass a valid API key.", [], AuthenticationError, False),
    (400, "INVALID_ARGUMENT", TOO_LONG, [], ContextLengthError, False),
    (400, "FAILED_PRECONDITION", "User location is not supported for the API use.", [], BadRequestError, False),
    (401, "UNAUTHENTICATED", "who", [], AuthenticationError, False),
    (403, "PERMISSION_DENIED", "no", [], AuthenticationError, False),
    (403, "PERMISSION_DENIED", "no", [{"reason": "BILLING_DISABLED"}], InsufficientCreditsError, False),
    (404, "NOT_FOUND", "models/x is not found for API version v1beta", [], ModelNotFoundError, False),
    (429, "RESOURCE_EXHAUSTED", "quota", [RETRY], RateLimitError, True),
    (429, "RESOURCE_EXHAUSTED", "Your prepayment credits are depleted.", [], InsufficientCreditsError, False),
    (500, "INTERNAL", "oh", [], UnavailableError, True),
    (503, "UNAVAILABLE", "The model is overloaded.", [], UnavailableError, True),
    (504, "DEADLINE_EXCEEDED", "late", [], UnavailableError, True),
]


@PLAIN_AND_STREAMED
@pytest.mark.parametrize(("status", "word", "says", "details", "kind", "transient"), ERRORS)
async def test_an_error_status_becomes_its_error(
    server: GoogleServer,
    stream: bool,
    status: int,
    word: str,
    says: str,
    details: list[Any],
    kind: type[ProviderError],
    transient: bool,
) -> None:
    server.reply(failure(says, status=status, word=word, details=details))
    async with google_at(server) as provider:
        with pytest.raises(ProviderError) as caught:
            await events_of(provider, ask(stream=stream))
    error = caught.value
    assert type(error) is kind
    assert error.message == f"provider 'google' answered {status}: {says}"
    assert (error.transient, error.status_code) == (transient, status)
    assert error.retry_after == (34.5 if RETRY in details else None)
    assert (error.phase, error.request_sent) == ("status", True)
    assert len(server.requests) == 1  # the SDK's own retries are off


@PLAIN_AND_STREAMED
async def test_a_header_says_when_to_come_back_before_the_details_do(server: GoogleServer, stream: bool) -> None:
    server.reply(failure("quota", status=429, word="RESOURCE_EXHAUSTED", details=[RETRY], retry_after="7"))
    async with google_at(server) as provider:
        with pytest.raises(RateLimitError) as caught:
            await events_of(provider, ask(stream=stream))
    assert caught.value.retry_after == 7.0


@PLAIN_AND_STREAMED
@pytest.mark.parametrize("body", [b"<html>bad gateway</html>", b"\xff\xfe", b"[]", b'[{"a": 1}, 2]', b"null", b""])
async def test_an_error_that_is_no_json_is_an_error_of_its_status(
    server: GoogleServer, stream: bool, body: bytes
) -> None:
    server.reply(Text(body.decode("latin-1"), 502))
    async with google_at(server) as provider:
        with pytest.raises(UnavailableError, match="provider 'google' answered 502"):
            await events_of(provider, ask(stream=stream))


@PLAIN_AND_STREAMED
async def test_an_error_in_a_list_is_understood(server: GoogleServer, stream: bool) -> None:
    server.reply(Json([{"error": {"code": 429, "message": "slow", "status": "RESOURCE_EXHAUSTED"}}], 429))
    async with google_at(server) as provider:
        with pytest.raises(RateLimitError, match="answered 429: slow"):
            await events_of(provider, ask(stream=stream))


@PLAIN_AND_STREAMED
async def test_a_redirect_is_not_followed(server: GoogleServer, stream: bool) -> None:
    server.reply(Text("", 302, {"location": f"{server.url}/elsewhere?key=secret-in-query"}))
    async with google_at(server) as provider:
        with pytest.raises(RedirectError) as caught:
            await events_of(provider, ask(stream=stream))
    assert caught.value.message == f"provider 'google' answered 302: to {server.url}/elsewhere"
    assert len(server.requests) == 1


@PLAIN_AND_STREAMED
async def test_an_error_inside_a_good_status_is_classified_by_its_code(server: GoogleServer, stream: bool) -> None:
    server.reply(
        failure("slow down", code=429, word="RESOURCE_EXHAUSTED", status=200, details=[RETRY]),
        failure("broken", code=500, word="INTERNAL", status=200),
        Json({"error": {"message": "something"}}),
    )
    async with google_at(server) as provider:
        with pytest.raises(RateLimitError, match="answered 200 with an error of kind 429: slow down") as limited:
            await events_of(provider, ask(stream=stream))
        with pytest.raises(UnavailableError, match="error of kind 500: broken"):
            await events_of(provider, ask(stream=stream))
        with pytest.raises(ResponseError, match="answered 200 with an error: something"):
            await events_of(provider, ask(stream=stream))
    assert limited.value.retry_after == 34.5


async def test_an_error_inside_a_stream_ends_it(server: GoogleServer) -> None:
    error = {"error": {"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"}}
    server.reply(Stream([candidate("half"), error, content("more")]))
    seen: list[StreamEvent] = []
    async with google_at(server) as provider:
        with pytest.raises(UnavailableError, match="error of kind 503: The model is overloaded"):
            await collect(provider, ask(stream=True), seen)
    assert not any(isinstance(event, Completed) for event in seen)


async def test_an_error_instead_of_vectors_is_an_error(server: GoogleServer) -> None:
    server.reply(failure("API key not valid.", details=[INVALID_KEY]), failure("no", status=200, code=500), Text("<p>"))
    async with google_at(server) as provider:
        for kind in (AuthenticationError, UnavailableError, ResponseError):
            with pytest.raises(kind):
                await provider.embed(EmbedRequest(model="gemini-embedding-001", inputs=("x",)))


@PLAIN_AND_STREAMED
@pytest.mark.parametrize("body", ["<html>hello</html>", '"text"', "{}", "[1]", '{"candidates": []}', ""])
async def test_a_reply_that_is_none_is_unreadable(server: GoogleServer, stream: bool, body: str) -> None:
    server.reply(Text(body, content_type="application/json"))
    async with google_at(server) as provider:
        with pytest.raises(ResponseError, match="provider 'google' answered with"):
            await events_of(provider, ask(stream=stream))


@pytest.mark.parametrize(
    ("reply", "says"),
    [
        (Stream([candidate("half")]), "ended its stream before the reply was complete"),
        (Stream([candidate("half"), b'data: {"candidates": ']), "ended its stream before the reply was complete"),
        (Stream([candidate("half")], then="cut"), "dropped the connection in the middle of its reply"),
        (Stream([candidate("half")], then="reset"), "dropped the connection in the middle of its reply"),
        (Stream([]), "ended its stream before the reply was complete"),
        (Stream([candidate("half"), "{not json"]), "answered with something that is not JSON"),
        (Text("not a stream at all"), "ended its stream before the reply was complete"),
    ],
    ids=["ended", "half-an-event", "cut", "reset", "empty", "not-json", "not-sse"],
)
async def test_a_stream_that_is_not_whole_is_no_success(server: GoogleServer, reply: Any, says: str) -> None:
    server.reply(reply)
    seen: list[StreamEvent] = []
    async with google_at(server) as provider:
        with pytest.raises(ResponseError, match=says) as caught:
            await collect(provider, ask(stream=True), seen)
    assert (caught.value.transient, caught.value.phase) == (True, "body")
    assert not any(isinstance(event, Completed) for event in seen)


@PLAIN_AND_STREAMED
async def test_a_connection_dropped_before_the_reply_is_a_passing_failure(server: GoogleServer, stream: bool) -> None:
    server.reply(Drop(), Drop(reset=True))
    async with google_at(server) as provider:
        for _ in range(2):
            with pytest.raises(UnavailableError, match="dropped the connection before it replied") as caught:
                await events_of(provider, ask(stream=stream))
            assert (caught.value.phase, caught.value.transient) == ("read", True)


@PLAIN_AND_STREAMED
async def test_a_body_cut_short_is_unreadable(server: GoogleServer, stream: bool) -> None:
    server.reply(Json(content("hello"), cut=20))
    async with google_at(server) as provider:
        with pytest.raises(ResponseError, match="dropped the connection in the middle of its reply"):
            await events_of(provider, ask(stream=stream))


@PLAIN_AND_STREAMED
async def test_a_silent_server_times_out(server: GoogleServer, stream: bool) -> None:
    async with google_at(server, timeout=0.2) as provider:
        await response_to(provider, ask())  # the SDK is loaded
        server.reply(Hang())
        with pytest.raises(ProviderTimeoutError, match="waiting for a reply of 127"):
            await events_of(provider, ask(stream=stream))


async def test_a_stream_that_falls_silent_times_out(server: GoogleServer) -> None:
    server.reply(Stream([candidate("half")], then="hang"))
    async with google_at(server, timeout=0.2) as provider:
        with pytest.raises(ProviderTimeoutError, match="fell silent in the middle of its reply"):
            await events_of(provider, ask(stream=True))


@PLAIN_AND_STREAMED
async def test_nobody_listening_is_told_by_address(stream: bool) -> None:
    async with GoogleProvider("google", GoogleSettings(base_url="http://127.0.0.1:9")) as provider:
        with pytest.raises(UnavailableError) as caught:
            await events_of(provider, ask(stream=stream))
    assert str(caught.value) == "could not connect to 127.0.0.1:9 (connection refused)"
    assert (caught.value.phase, caught.value.request_sent) == ("connect", False)


@PLAIN_AND_STREAMED
async def test_the_key_is_in_no_error_text(server: GoogleServer, stream: bool) -> None:
    secret = "a-gateway-token"
    for reply in (
        failure(f"API key {KEY} not valid", details=[INVALID_KEY]),
        Text(f"bad token {secret} {KEY}", 500),
        failure(f"{KEY} {secret}", status=200, code=500),
    ):
        server.reply(reply)
        async with google_at(server, headers={"X-Token": secret}) as provider:
            with pytest.raises(ProviderError) as caught:
                await events_of(provider, ask(stream=stream))
        shown = "".join(traceback.format_exception(caught.value)) + repr(caught.value.__dict__)
        assert KEY not in shown
        assert secret not in shown
        assert "***" in shown
    assert server.last.headers["x-token"] == secret


@PLAIN_AND_STREAMED
async def test_a_name_that_the_sdk_refuses_is_a_bad_request(server: GoogleServer, stream: bool) -> None:
    async with google_at(server) as provider:
        with pytest.raises(BadRequestError, match="the Google SDK refuses the request: ") as caught:
            await events_of(provider, ask(model="gemini?x=1", stream=stream))
    assert (caught.value.request_sent, caught.value.transient, server.requests) == (False, False, [])


# --- leaving early ----------------------------------------------------------------------------------


def slow() -> Stream:
    return Stream([candidate(f"{n} ") for n in range(1000)], pause=0.01)


async def test_leaving_a_stream_early_ends_it_at_the_server(
    server: GoogleServer, recwarn: pytest.WarningsRecorder
) -> None:
    async with google_at(server) as provider:
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
    gc.collect()
    await trio.lowlevel.checkpoint()
    assert [str(each.message) for each in recwarn] == []


@pytest.mark.parametrize("received", [0, 1, 3])
async def test_cancelling_a_stream_ends_it_at_the_server(server: GoogleServer, received: int) -> None:
    server.reply(slow() if received else Hang())
    async with google_at(server) as provider:
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


async def test_cancelling_a_plain_exchange_or_an_embedding_ends_it_at_the_server(server: GoogleServer) -> None:
    server.reply(Hang(), Hang())
    async with google_at(server) as provider:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(response_to, provider, ask())
            nursery.start_soon(provider.embed, EmbedRequest(model="gemini-embedding-001", inputs=("x",)))
            await server.until(lambda it: len(it.requests) == 2)
            nursery.cancel_scope.cancel()
        await server.until(lambda it: it.disconnects == 2 and it.connections == 0)


@PLAIN_AND_STREAMED
async def test_a_cancellation_at_any_step_leaves_nothing(
    server: GoogleServer, stream: bool, recwarn: pytest.WarningsRecorder
) -> None:
    """Cancelled at its first, second, ... checkpoint, until it is fast enough to end."""
    async with google_at(server) as provider:
        await response_to(provider, ask())
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
    gc.collect()
    assert [str(each.message) for each in recwarn] == []


@PLAIN_AND_STREAMED
async def test_an_exception_of_the_body_leaves_as_itself(server: GoogleServer, stream: bool) -> None:
    server.reply(slow() if stream else Json(content("x")))

    async def fail(provider: GoogleProvider) -> None:
        async with provider.exchange(ask(stream=stream)) as events:
            await anext(events)
            raise ValueError("mine")

    async with google_at(server) as provider:
        with pytest.raises(ValueError, match="mine"):
            await fail(provider)
    await server.until(lambda it: it.connections == 0)


async def test_a_plain_and_a_streamed_reply_are_the_same_response(server: GoogleServer) -> None:
    parts: list[dict[str, Any]] = [
        {"text": "hm", "thought": True},
        {"text": "so"},
        {"functionCall": {"name": "look", "args": {"q": "x"}, "id": "a"}, "thoughtSignature": "s"},
    ]
    server.reply(Json(content(*parts)), Stream([*(candidate(part) for part in parts), content()]))
    async with google_at(server) as provider:
        plain = await response_to(provider, ask(tools=(SPEC,)))
        streamed = await response_to(provider, ask(tools=(SPEC,), stream=True))
    assert plain == replace(streamed, request_id=plain.request_id)


# --- keys and settings ------------------------------------------------------------------------------


@PLAIN_AND_STREAMED
async def test_a_missing_key_is_told_before_any_request(
    server: GoogleServer, stream: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GOOGLE_API_KEY")
    monkeypatch.setenv("GEMINI_API_KEY", KEY)  # of the SDK's, and not ours
    async with google_at(server) as provider:
        with pytest.raises(CredentialError) as caught:
            await events_of(provider, ask(stream=stream))
    assert str(caught.value) == "the environment variable GOOGLE_API_KEY is not set; export GOOGLE_API_KEY=..."
    assert server.accepted == 0


async def test_what_the_environment_says_to_the_sdk_changes_nothing(
    server: GoogleServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("GOOGLE_GENAI_USE_VERTEXAI", "true")
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "p")
    monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("GOOGLE_GENAI_API_VERSION", "v7")
    monkeypatch.setenv("GEMINI_API_KEY", "another")
    async with google_at(server) as provider:
        await response_to(provider, ask())
    assert caplog.messages == []  # not even of the two keys
    assert server.last.path == f"/v1beta/models/{MODEL}:generateContent"
    assert server.last.headers["x-goog-api-key"] == KEY


@pytest.mark.parametrize(
    ("path", "asked"),
    [
        ("/v1", "/v1/models"),
        ("/v1alpha/", "/v1alpha/models"),
        ("/gateway", "/gateway/v1beta/models"),
        ("", "/v1beta/models"),
    ],
)  # fmt: skip
async def test_the_base_url_may_name_the_version(server: GoogleServer, path: str, asked: str) -> None:
    async with GoogleProvider("google", GoogleSettings(base_url=server.url + path)) as provider:
        await response_to(provider, ask(model="gemini-2.5-pro"))
        assert server.last.path == f"{asked}/gemini-2.5-pro:generateContent"
        await response_to(provider, ask(model="models/gemini-2.5-pro"))
        assert server.last.path == f"{asked}/gemini-2.5-pro:generateContent"


async def test_a_provider_that_was_not_entered_says_so() -> None:
    with pytest.raises(RuntimeError, match="used before it is entered"):
        await response_to(GoogleProvider("google", GoogleSettings()), ask())
