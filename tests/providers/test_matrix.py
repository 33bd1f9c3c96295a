"""Every capability on every provider, plain and streamed: it works, is ignored with a warning, or is refused before
any request."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from providers.vendors import EVERY, Call, Vendor, ask
from treadle.errors import (
    UnsupportedError,
)
from treadle.messages import (
    AssistantMessage,
    EmbedRequest,
    HostedTool,
    MediaPart,
    ModelRequest,
    NamedTool,
    OutputSchema,
    Reasoning,
    StopReason,
    SystemMessage,
    TextPart,
    ToolCallPart,
    ToolMessage,
    ToolResultPart,
    UserMessage,
)

from wire.exchanges import PLAIN_AND_STREAMED, SPEC, response_to

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
    "tools": Ask({"tools": (SPEC,)}, '"look"'),
    "tool results": Ask({"tools": (SPEC,), "messages": CALLED}, "found it"),
    "forced tool": Ask(
        {"tools": (SPEC,), "tool_choice": "required"},
        {
            **each((*CHAT, "openai responses"), '"tool_choice": "required"'),
            "anthropic": '{"type": "any"',
            "google": '"ANY"',
        },
        ignored={"ollama": "tool_choice is ignored: Ollama has none"},
    ),
    "named tool": Ask(
        {"tools": (SPEC,), "tool_choice": NamedTool(name="look")},
        {
            **each(CHAT, '"tool_choice": {"type": "function", "function": {"name": "look"}}'),
            "openai responses": '"tool_choice": {"type": "function", "name": "look"}',
            "anthropic": '"tool_choice": {"type": "tool", "name": "look"',
            "google": '"allowedFunctionNames": ["look"]',
        },
        ignored={"ollama": "tool_choice is ignored: Ollama has none"},
    ),
    "no parallel calls": Ask(
        {"tools": (SPEC,), "parallel_tool_calls": False},
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
    return ask(vendor, stream=stream, **fields)


@PLAIN_AND_STREAMED
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
        response = await response_to(provider, request)
    assert response.text == '{"n": 1}'
    assert response.stop_reason is StopReason.END_TURN
    if says := row.ignored.get(vendor.name):
        assert any(says in each for each in response.warnings), response.warnings
        return
    assert response.warnings == ()
    wanted = row.sent if isinstance(row.sent, str) else row.sent[vendor.name]
    assert wanted in json.dumps(server.last.json)


# --- replies ------------------------------------------------------------------------------------------


@PLAIN_AND_STREAMED
@EVERY
async def test_several_calls_in_one_reply(vendor: Vendor, stream: bool) -> None:
    calls = [Call("look", '{"q": "a"}', "c1"), Call("look", '{"q": "b"}', "c2")]
    async with vendor.server.open() as server, vendor.build(server.url) as provider:
        server.reply(vendor.reply(stream, calls=calls))
        response = await response_to(provider, request_of(vendor, stream, {"tools": (SPEC,)}))
    found = response.message.tool_calls
    assert [(each.tool_name, each.arguments) for each in found] == [("look", {"q": "a"}), ("look", {"q": "b"})]
    assert len({each.call_id for each in found}) == 2
    assert response.stop_reason is StopReason.TOOL_USE


@PLAIN_AND_STREAMED
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
        response = await response_to(provider, request_of(vendor, stream, {}))
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


@PLAIN_AND_STREAMED
@EVERY
async def test_tokens_and_request_ids(vendor: Vendor, stream: bool) -> None:
    more, counted = USAGE[vendor.name]
    async with vendor.server.open() as server, vendor.build(server.url) as provider:
        server.reply(vendor.reply(stream, "hello", **more))
        response = await response_to(provider, request_of(vendor, stream, {}))
    usage = response.usage
    assert (usage.input_tokens, usage.output_tokens, usage.cache_read_tokens, usage.reasoning_tokens) == counted
    assert response.request_id == {"google": "resp_1", "ollama": None}.get(vendor.name, "req_1")
    if vendor.name == "anthropic":
        assert (usage.cache_write_tokens, usage.cache_write_1h_tokens) == (0, 0)


@EVERY
async def test_vectors(vendor: Vendor) -> None:
    request = EmbedRequest(model="embedder", inputs=("one", "three"))
    async with vendor.server.open() as server, vendor.build(server.url) as provider:
        if vendor.vectors is None:
            with pytest.raises(UnsupportedError, match="has no embeddings"):
                await provider.embed(request)
            assert server.requests == []
            return
        server.reply(vendor.vectors([[0.0, 1.0], [1.0, 1.0]]))
        response = await provider.embed(request)
    assert len(response.vectors) == 2
    assert response.vectors[0] != response.vectors[1]
