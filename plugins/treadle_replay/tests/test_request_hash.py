"""The request hash: what changes it and what does not."""

import hashlib
from dataclasses import replace
from typing import Any

import pytest

from treadle import (
    AssistantMessage,
    EmbedRequest,
    HostedTool,
    MediaPart,
    ModelRequest,
    OutputSchema,
    Reasoning,
    ReasoningPart,
    SystemMessage,
    TextPart,
    ToolCallPart,
    ToolMessage,
    ToolResultPart,
    ToolSpec,
    UserMessage,
)
from treadle_replay.request_hash import hashed_content, request_hash

PLAIN = ModelRequest(model="m", messages=(SystemMessage(text="Be short"), UserMessage.of("Hi ü")), temperature=0.5)


def test_a_plain_request_is_hashed_as_documented() -> None:
    text = (
        '{"extra": {}, "max_tokens": null, "messages": [{"content": "Be short", "role": "system"}, '
        '{"content": "Hi \\u00fc", "role": "user"}], "model": "m", "temperature": 0.5}'
    )
    assert request_hash(PLAIN) == hashlib.sha256(text.encode("ascii")).hexdigest()


@pytest.mark.parametrize(
    "change",
    [
        {"model": "n"},
        {"temperature": None},
        {"max_tokens": 5},
        {"messages": PLAIN.messages[1:]},
        {"messages": (PLAIN.messages[0], UserMessage.of("Hi ü", name="Ann"))},
        {"messages": (PLAIN.messages[0], UserMessage(parts=(MediaPart(type="image", url="https://x.test/a.png"),)))},
        {"tools": (ToolSpec(name="look"),)},
        {"tool_choice": "none"},
        {"parallel_tool_calls": False},
        {"hosted_tools": (HostedTool(tool="web_search"),)},
        {"output": OutputSchema(name="o")},
        {"reasoning": Reasoning(level="low")},
        {"stop_sequences": ("x",)},
        {"provider_options": {"openai": {"seed": 1}}},
    ],
)
def test_what_bears_on_the_reply_changes_the_hash(change: dict[str, Any]) -> None:
    assert request_hash(replace(PLAIN, **change)) != request_hash(PLAIN)


def test_key_and_streaming_do_not_change_the_hash() -> None:
    assert request_hash(replace(PLAIN, key="step", stream=True)) == request_hash(PLAIN)


def _loop(*parts: Any) -> ModelRequest:
    result = ToolResultPart(call_id="1", tool_name="look", content="seen")
    return replace(PLAIN, messages=(*PLAIN.messages, AssistantMessage(parts=parts), ToolMessage(results=(result,))))


def test_what_a_recording_does_not_give_back_does_not_change_the_hash() -> None:
    call = ToolCallPart(call_id="1", tool_name="look", arguments={"b": {"c": [1]}, "a": 2})
    as_it_came = _loop(
        ReasoningPart(text="hm", provider_data={"anthropic": {"signature": "s"}}),
        TextPart(text="Let me ", provider_data={"x": 1}),
        TextPart(text="look"),
        replace(call, raw_arguments='{"b":{"c":[1]},"a":2}', provider_data={"x": 1}),
    )
    replayed = _loop(TextPart(text="Let me look"), call)
    assert request_hash(as_it_came) == request_hash(replayed)
    assert hashed_content(replayed)["messages"][2:] == [
        {
            "role": "assistant",
            "content": "Let me look",
            "tool_calls": [{"id": "1", "name": "look", "arguments": {"b": {"c": [1]}, "a": 2}}],
        },
        {"role": "tool", "tool_call_id": "1", "content": "seen"},
    ]


def test_arguments_that_did_not_parse_are_hashed_as_text() -> None:
    call = ToolCallPart(call_id="1", tool_name="look", arguments=None, raw_arguments="{", parse_error="not JSON")
    assert hashed_content(_loop(call))["messages"][2]["tool_calls"][0]["arguments"] == "{"


def test_embedding_requests_are_hashed_by_inputs_model_and_dimensions() -> None:
    one = EmbedRequest(model="m", inputs=("a", "b"), key="x")
    assert request_hash(one) == request_hash(replace(one, key="y"))
    for other in (replace(one, inputs=("b", "a")), replace(one, model="n"), replace(one, dimensions=2)):
        assert request_hash(other) != request_hash(one)
