"""Every capability on every provider, plain and streamed: it works, is ignored with a warning, or is refused before
any request."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from providers.vendors import VENDORS, Call, Vendor
from treadle.contracts.provider import Provider
from treadle.errors import (
    AuthenticationError,
    BadRequestError,
    ModelNotFoundError,
    ProviderError,
    RateLimitError,
    ResponseError,
    UnavailableError,
    UnsupportedError,
)
from treadle.messages import (
    AssistantMessage,
    Completed,
    EmbedRequest,
    HostedTool,
    MediaPart,
    ModelRequest,
    ModelResponse,
    NamedTool,
    OutputSchema,
    Reasoning,
    StopReason,
    SystemMessage,
    TextPart,
    ToolCallPart,
    ToolMessage,
    ToolResultPart,
    ToolSpec,
    UserMessage,
)

from wire import openai_server
from wire.http_server import Drop, Json

BOTH = pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])
EVERY = pytest.mark.parametrize("vendor", VENDORS.values(), ids=VENDORS)

LOOK = ToolSpec(
    name="look", description="Look up", parameters={"type": "object", "properties": {"q": {"type": "string"}}}
)
SHAPE = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
CALLED = (
    UserMessage.of("hi"),
    AssistantMessage(parts=(ToolCallPart(call_id="c1", tool_name="look", arguments={"q": "x"}),)),
    ToolMessage(results=(ToolResultPart(call_id="c1", tool_name="look", content="found it"),)),
)


def media(kind: str, media_type: str, **source: Any) -> Mapping[str, Any]:
    part = MediaPart(type=kind, media_type=media_type, **source)  # type: ignore[arg-type]
    return {"messages": (UserMessage(parts=(TextPart(text="see"), part)),)}


@dataclass(frozen=True, slots=True)
class Ask:
    """One row of the matrix.

    :param fields: of the request.
    :param sent: what the body must hold where it works; by vendor, or for all.
    :param ignored: the vendors that leave it out, with what they warn of.
    :param refused: those that refuse it, with what they say.
    """

    fields: Mapping[str, Any]
    sent: str | Mapping[str, str] = ""
    ignored: Mapping[str, str] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)


CHAT = ("openai", "generic_openai")


def each(names: tuple[str, ...], says: str) -> dict[str, str]:
    return dict.fromkeys(names, says)


ASKS: Mapping[str, Ask] = {
    "text": Ask({}, "hi"),
    "system prompt": Ask({"messages": (SystemMessage(text="be brief"), UserMessage.of("hi"))}, "be brief"),
    "speakers": Ask(
        {"messages": (UserMessage.of("hi", name="ann"), AssistantMessage.of("ho", name="bob"), UserMessage.of("so?"))},
        {**each(CHAT, '"name": "bob"'), **each(("openai responses", "anthropic", "google", "ollama"), "[bob] ho")},
    ),
    "tools": Ask({"tools": (LOOK,)}, '"look"'),
    "tool results": Ask({"tools": (LOOK,), "messages": CALLED}, "found it"),
    "forced tool": Ask(
        {"tools": (LOOK,), "tool_choice": "required"},
        {
            **each((*CHAT, "openai responses"), '"tool_choice": "required"'),
            "anthropic": '{"type": "any"',
            "google": '"ANY"',
        },
        ignored={"ollama": "tool_choice is ignored: Ollama has none"},
    ),
    "named tool": Ask(
        {"tools": (LOOK,), "tool_choice": NamedTool(name="look")},
        {
            **each(CHAT, '"tool_choice": {"type": "function", "function": {"name": "look"}}'),
            "openai responses": '"tool_choice": {"type": "function", "name": "look"}',
            "anthropic": '"tool_choice": {"type": "tool", "name": "look"',
            "google": '"allowedFunctionNames": ["look"]',
        },
        ignored={"ollama": "tool_choice is ignored: Ollama has none"},
    ),
    "no parallel calls": Ask(
        {"tools": (LOOK,), "parallel_tool_calls": False},
        {
            **each(CHAT, '"parallel_tool_calls": false'),
            "openai responses": '"parallel_tool_calls": false',
            "anthropic": '"disable_parallel_tool_use": true',
        },
        ignored={
            "google": "parallel_tool_calls is ignored: Gemini has none",
            "ollama": "parallel_tool_calls is ignored: Ollama has none",
        },
    ),
    "json_schema": Ask({"output": OutputSchema(name="shape", schema=SHAPE)}, '"n": {"type": "'),
    "json_object": Ask(
        {"output": OutputSchema(name="shape")},
        {
            **each((*CHAT, "openai responses"), '"type": "json_object"'),
            "anthropic": "one JSON object",
            "google": "application/json",
            "ollama": '"format": "json"',
        },
    ),
    "image": Ask(media("image", "image/png", data=b"\x89PNG"), "iVBORw=="),
    "image by URL": Ask(
        media("image", "image/png", url="https://a.test/x.png"),
        "https://a.test/x.png",
        refused={"google": "attachments of type image by URL", "ollama": "attachments of type image by URL"},
    ),
    "pdf": Ask(
        media("pdf", "application/pdf", data=b"%PDF"),
        "JVBERg==",
        refused=each((*CHAT, "ollama"), "attachments of type pdf"),
    ),
    "audio": Ask(
        media("audio", "audio/wav", data=b"RIFF"),
        "UklGRg==",
        refused=each(("openai responses", "anthropic", "ollama"), "attachments of type audio"),
    ),
    "reasoning": Ask(
        {"reasoning": Reasoning(level="low", budget_tokens=2000)},
        {"google": '"thinkingBudget": 2000'},
        ignored={
            "openai": "thinking.level is ignored: gpt-4o-mini takes none",
            "generic_openai": "thinking.budget_tokens is ignored",
            "openai responses": "thinking.budget_tokens is ignored: OpenAI takes a level",
            "anthropic": "'low' is ignored",
            "ollama": "thinking.budget_tokens is ignored: Ollama takes a level",
        },
    ),
    "stop sequences": Ask(
        {"stop_sequences": ("END",)},
        '["END"]',
        ignored={"openai responses": "stop_sequences are ignored: the Responses API takes none"},
    ),
    "max_tokens": Ask(
        {"max_tokens": 77},
        {
            **each((*CHAT, "anthropic"), '"max_tokens": 77'),
            "openai responses": '"max_output_tokens": 77',
            "google": '"maxOutputTokens": 77',
            "ollama": '"num_predict": 77',
        },
    ),
    "temperature": Ask(
        {"temperature": 0.25},
        '"temperature": 0.25',
        ignored={"openai responses": "temperature is ignored: gpt-5-mini takes none"},
    ),
    "web search": Ask(
        {"hosted_tools": (HostedTool(tool="web_search", options={"allowed_domains": ["a.test"]}),)},
        '"allowed_domains": ["a.test"]',
        refused=each((*CHAT, "google", "ollama"), "the hosted tool 'web_search'"),
    ),
}


def request_of(vendor: Vendor, stream: bool, fields: Mapping[str, Any]) -> ModelRequest:
    return ModelRequest(**{"model": vendor.model, "messages": (UserMessage.of("hi"),), "stream": stream, **fields})


async def answered(provider: Provider, request: ModelRequest) -> ModelResponse:
    last: Any = None
    async with provider.exchange(request) as events:
        async for event in events:
            last = event
    assert isinstance(last, Completed)
    return last.response


@BOTH
@EVERY
@pytest.mark.parametrize("capability", ASKS)
async def test_a_request(vendor: Vendor, capability: str, stream: bool) -> None:
    row = ASKS[capability]
    request = request_of(vendor, stream, row.fields)
    async with vendor.server.open() as server, vendor.build(server.url) as provider:
        refusals = provider.refusals(request)
        if says := row.refused.get(vendor.name):
            assert any(says in each for each in refusals), refusals
            assert server.requests == []
            return
        assert refusals == []
        server.reply(vendor.reply(stream, '{"n": 1}'))
        response = await answered(provider, request)
    assert response.text == '{"n": 1}'
    assert response.stop_reason is StopReason.END_TURN
    if says := row.ignored.get(vendor.name):
        assert any(says in each for each in response.warnings), response.warnings
        return
    assert response.warnings == ()
    wanted = row.sent if isinstance(row.sent, str) else row.sent[vendor.name]
    assert wanted in json.dumps(server.last.json)


# --- replies ------------------------------------------------------------------------------------------


@BOTH
@EVERY
async def test_several_calls_in_one_reply(vendor: Vendor, stream: bool) -> None:
    calls = [Call("look", '{"q": "a"}', "c1"), Call("look", '{"q": "b"}', "c2")]
    async with vendor.server.open() as server, vendor.build(server.url) as provider:
        server.reply(vendor.reply(stream, calls=calls))
        response = await answered(provider, request_of(vendor, stream, {"tools": (LOOK,)}))
    found = response.message.tool_calls
    assert [(each.tool_name, each.arguments) for each in found] == [("look", {"q": "a"}), ("look", {"q": "b"})]
    assert len({each.call_id for each in found}) == 2
    assert response.stop_reason is StopReason.TOOL_USE


@BOTH
@EVERY
@pytest.mark.parametrize(
    ("stop", "reason"),
    [("length", StopReason.MAX_TOKENS), ("refusal", StopReason.REFUSAL), ("unknown", StopReason.UNKNOWN)],
)
async def test_why_a_reply_ended(vendor: Vendor, stream: bool, stop: str, reason: StopReason) -> None:
    if stop not in vendor.stops:
        pytest.skip(f"{vendor.name} has no such end")
    async with vendor.server.open() as server, vendor.build(server.url) as provider:
        server.reply(vendor.reply(stream, "hel", stop=vendor.stops[stop]))
        response = await answered(provider, request_of(vendor, stream, {}))
    assert (response.stop_reason, response.text) == (reason, "hel")


_CHAT_USAGE = {
    "prompt_tokens": 9,
    "completion_tokens": 7,
    "prompt_tokens_details": {"cached_tokens": 4},
    "completion_tokens_details": {"reasoning_tokens": 3},
}
USAGE: Mapping[str, tuple[Mapping[str, Any], tuple[Any, ...]]] = {
    "openai": ({"usage": _CHAT_USAGE}, (9, 7, 4, 3)),
    "generic_openai": ({"usage": _CHAT_USAGE}, (9, 7, 4, 3)),
    "openai responses": ({}, (9, 7, 4, 3)),
    "anthropic": (
        {
            "usage": {
                "input_tokens": 5,
                "output_tokens": 7,
                "cache_read_input_tokens": 4,
                "cache_creation_input_tokens": 0,
            }
        },
        (9, 7, 4, None),
    ),
    "google": (
        {
            "counts": {
                "promptTokenCount": 9,
                "candidatesTokenCount": 4,
                "thoughtsTokenCount": 3,
                "cachedContentTokenCount": 4,
                "totalTokenCount": 16,
            }
        },
        (9, 7, 4, 3),
    ),
    "ollama": ({}, (9, 3, None, None)),
}


@BOTH
@EVERY
async def test_tokens_and_request_ids(vendor: Vendor, stream: bool) -> None:
    more, counted = USAGE[vendor.name]
    async with vendor.server.open() as server, vendor.build(server.url) as provider:
        server.reply(vendor.reply(stream, "hello", **more))
        response = await answered(provider, request_of(vendor, stream, {}))
    usage = response.usage
    assert (usage.input_tokens, usage.output_tokens, usage.cache_read_tokens, usage.reasoning_tokens) == counted
    assert response.request_id == {"google": "resp_1", "ollama": None}.get(vendor.name, "req_1")
    if vendor.name == "anthropic":
        assert (usage.cache_write_tokens, usage.cache_write_1h_tokens) == (0, 0)


# --- failures -----------------------------------------------------------------------------------------


@BOTH
@EVERY
@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, BadRequestError),
        (401, AuthenticationError),
        (404, ModelNotFoundError),
        (429, RateLimitError),
        (503, UnavailableError),
    ],
)
async def test_an_error_status(vendor: Vendor, stream: bool, status: int, error: type[ProviderError]) -> None:
    said = "model 'x' not found" if status == 404 else "it failed"
    async with vendor.server.open() as server, vendor.build(server.url) as provider:
        server.reply(vendor.failure(said, status=status, retry_after="3"))
        with pytest.raises(ProviderError) as caught:
            await answered(provider, request_of(vendor, stream, {}))
        assert len(server.requests) == 1, "the SDK does not ask again by itself"
    assert isinstance(caught.value, error) or (status == 404 and isinstance(caught.value, BadRequestError))
    assert caught.value.status_code == status
    assert caught.value.provider == provider.name
    if status in (429, 503):
        assert caught.value.retry_after == 3.0


@BOTH
@EVERY
async def test_an_error_inside_a_good_answer(vendor: Vendor, stream: bool) -> None:
    async with vendor.server.open() as server, vendor.build(server.url) as provider:
        server.reply(Json({"error": {"message": "it broke", "code": 503, "type": "overloaded_error"}}))
        with pytest.raises(ProviderError, match="it broke"):
            await answered(provider, request_of(vendor, stream, {}))


@EVERY
async def test_a_connection_that_is_cut(vendor: Vendor) -> None:
    async with vendor.server.open() as server, vendor.build(server.url) as provider:
        server.reply(Drop(), Drop(reset=True))
        for stream in (False, True):
            with pytest.raises(ProviderError) as caught:
                await answered(provider, request_of(vendor, stream, {}))
            assert caught.value.status_code is None


@EVERY
async def test_a_stream_without_an_end(vendor: Vendor) -> None:
    async with vendor.server.open() as server, vendor.build(server.url) as provider:
        whole = vendor.reply(True, "hello")
        key = "lines" if hasattr(whole, "lines") else "events" if hasattr(whole, "events") else "chunks"
        pieces = list(getattr(whole, key))
        cut = pieces[: len(pieces) // 2] or [b""]
        changes: dict[str, Any] = {key: cut, "then": "cut", **({"done": False} if hasattr(whole, "done") else {})}
        server.reply(replace(whole, **changes))  # type: ignore[type-var]
        with pytest.raises((ResponseError, UnavailableError)):
            await answered(provider, request_of(vendor, True, {}))


@EVERY
async def test_vectors(vendor: Vendor) -> None:
    request = EmbedRequest(model="embedder", inputs=("one", "three"))
    async with vendor.server.open() as server, vendor.build(server.url) as provider:
        if vendor.name == "anthropic":
            with pytest.raises(UnsupportedError, match="has no embeddings"):
                await provider.embed(request)
            assert server.requests == []
            return
        if vendor.server is openai_server.OpenAIServer:
            rows = [{"index": n, "embedding": [float(n), 1.0]} for n in range(2)]
            server.reply(Json({"data": rows, "model": "embedder", "usage": {"prompt_tokens": 2}}))
        response = await provider.embed(request)
    assert len(response.vectors) == 2
    assert response.vectors[0] != response.vectors[1]
