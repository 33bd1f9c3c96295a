"""The provider over the wire: the real SDK against a real server on the loopback."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from treadle.errors import (
    BadRequestError,
    RateLimitError,
)
from treadle.messages import (
    AssistantMessage,
    Completed,
    EmbedRequest,
    ModelRequest,
    OutputSchema,
    Reasoning,
    ReasoningDelta,
    ReasoningPart,
    StopReason,
    SystemMessage,
    TextDelta,
    TextPart,
    ToolCallPart,
    ToolMessage,
    ToolResultPart,
    Usage,
    UserMessage,
    dump,
    load,
)
from treadle_google.provider import GoogleProvider
from treadle_google.settings import GoogleSettings

from wire.exchanges import PLAIN_AND_STREAMED, SPEC, events_of, response_to
from wire.google_server import MODEL, GoogleServer, Stream, candidate, content, failure, text_chunks
from wire.http_server import Json

KEY = "AIzaTest0123456789abcdef"


def ask(text: str = "hi", **fields: Any) -> ModelRequest:
    return ModelRequest(**{"model": MODEL, "messages": (UserMessage.of(text),), **fields})


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch, no_settings_of_the_machine: None) -> None:
    monkeypatch.setenv("GOOGLE_API_KEY", KEY)


@asynccontextmanager
async def google_at(server: GoogleServer, **settings: Any) -> AsyncIterator[GoogleProvider]:
    async with GoogleProvider("google", GoogleSettings(base_url=server.url, **settings)) as provider:
        yield provider


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


async def test_a_stream_is_asked_for_as_events_and_its_text_is_one_part(server: GoogleServer) -> None:
    async with google_at(server) as provider:
        response = await response_to(provider, ask(stream=True))
    assert response.message.parts == (TextPart(text="hello"),)
    assert server.last.path == f"/v1beta/models/{MODEL}:streamGenerateContent?alt=sse"


async def test_a_stream_may_come_in_a_list(server: GoogleServer) -> None:
    server.reply(Json(text_chunks("in ", "a list")))
    async with google_at(server) as provider:
        assert (await response_to(provider, ask(stream=True))).text == "in a list"


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


# --- errors -----------------------------------------------------------------------------------------

RETRY = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.5s"}


@PLAIN_AND_STREAMED
@pytest.mark.parametrize(("details", "seconds"), [([RETRY], 34.5), ([], None)], ids=["said", "unsaid"])
async def test_the_details_say_when_to_come_back_where_no_header_does(
    server: GoogleServer, stream: bool, details: list[Any], seconds: float | None
) -> None:
    server.reply(failure("quota", status=429, word="RESOURCE_EXHAUSTED", details=details))
    async with google_at(server) as provider:
        with pytest.raises(RateLimitError) as caught:
            await events_of(provider, ask(stream=stream))
    assert caught.value.retry_after == seconds


@PLAIN_AND_STREAMED
async def test_an_error_in_a_list_is_understood(server: GoogleServer, stream: bool) -> None:
    server.reply(Json([{"error": {"code": 429, "message": "slow", "status": "RESOURCE_EXHAUSTED"}}], 429))
    async with google_at(server) as provider:
        with pytest.raises(RateLimitError, match="answered 429: slow"):
            await events_of(provider, ask(stream=stream))


@PLAIN_AND_STREAMED
async def test_a_name_that_the_sdk_refuses_is_a_bad_request(server: GoogleServer, stream: bool) -> None:
    async with google_at(server) as provider:
        with pytest.raises(BadRequestError, match="the Google SDK refuses the request: ") as caught:
            await events_of(provider, ask(model="gemini?x=1", stream=stream))
    assert (caught.value.request_sent, caught.value.transient, server.requests) == (False, False, [])


# --- keys and settings ------------------------------------------------------------------------------


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
