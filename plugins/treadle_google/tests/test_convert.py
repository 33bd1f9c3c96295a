"""Requests as the Gemini API takes them, and what is refused before one is sent."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given

from treadle.errors import UnsupportedError
from treadle.messages import (
    AssistantMessage,
    HostedTool,
    MediaPart,
    Message,
    ModelRequest,
    NamedTool,
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
from treadle_google.convert import ignored, problems, request_body
from treadle_google.provider import GoogleProvider
from treadle_google.settings import GoogleSettings

from wire.message_lists import message_lists

PNG = MediaPart(type="image", media_type="image/png", data=b"\x89PNG")
SPEC = ToolSpec(name="look", parameters={"type": "object", "properties": {"q": {"type": "string"}}})
SHAPE = OutputSchema(name="it", schema={"type": "object", "properties": {"a": {"type": "string"}}})


def ask(**fields: Any) -> ModelRequest:
    return ModelRequest(**{"model": "gemini-2.5-flash", "messages": (UserMessage.of("hi"),), **fields})


def body(**fields: Any) -> dict[str, Any]:
    return request_body(ask(**fields), provider="google")


def turns(*messages: Message, **fields: Any) -> list[Any]:
    found: list[Any] = body(messages=messages, **fields)["contents"]
    return found


def found(**fields: Any) -> list[str]:
    return list(problems(ask(**fields), provider="google"))


@pytest.mark.parametrize(
    ("kind", "media_type"), [("image", "image/webp"), ("pdf", "application/pdf"), ("audio", "audio/ogg")]
)
def test_attachments_are_sent_as_bytes(kind: Any, media_type: str) -> None:
    media = MediaPart(type=kind, media_type=media_type, data=b"\x00\xff")
    request = ask(messages=(UserMessage(parts=(TextPart(text="what"), media)),))
    assert GoogleProvider("google", GoogleSettings()).refusals(request) == []
    assert request_body(request, provider="google")["contents"][0]["parts"] == [
        {"text": "what"},
        {"inlineData": {"mimeType": media_type, "data": base64.b64encode(b"\x00\xff").decode()}},
    ]


def test_attachments_by_url_are_refused() -> None:
    request = ask(messages=(UserMessage(parts=(MediaPart(type="image", url="https://example.com/a.png"),)),))
    assert list(problems(request, provider="google")) == ["Gemini takes image attachments as bytes, not by URL"]
    assert "it has no attachments of type image by URL" in GoogleProvider("g", GoogleSettings()).refusals(request)
    with pytest.raises(UnsupportedError):
        request_body(request, provider="google")


def test_system_messages_are_the_system_instruction_wherever_they_stand() -> None:
    sent = body(
        messages=(SystemMessage(text="a"), UserMessage.of("hi"), SystemMessage(text=""), SystemMessage(text="b"))
    )
    assert sent["systemInstruction"] == {"parts": [{"text": "a"}, {"text": "b"}]}
    assert sent["contents"] == [{"role": "user", "parts": [{"text": "hi"}]}]


def test_speakers_are_named_before_their_words_and_one_role_has_one_turn() -> None:
    assert turns(
        UserMessage.of("hi", name="bob"), AssistantMessage.of("ho", name="alice"), AssistantMessage.of("he", name="eve")
    ) == [
        {"role": "user", "parts": [{"text": "[bob] hi"}]},
        {"role": "model", "parts": [{"text": "[alice] ho"}, {"text": "[eve] he"}]},
    ]


def test_a_conversation_that_a_model_begins_gets_a_users_turn_before_it() -> None:
    assert [turn["role"] for turn in turns(AssistantMessage.of("welcome"), UserMessage.of("hi"))] == [
        "user", "model", "user",
    ]  # fmt: skip
    assert [turn["role"] for turn in turns(SystemMessage(text="only this"))] == ["user"]


def test_results_stand_alone_behind_their_calls() -> None:
    calls = tuple(ToolCallPart(call_id=each, tool_name="look", arguments={}) for each in "ab")
    results = tuple(
        ToolResultPart(call_id=each, tool_name="look", content=each, media=(PNG,) if each == "a" else ())
        for each in "ab"
    )
    said = turns(
        UserMessage.of("hi"), AssistantMessage(parts=calls), ToolMessage(results=results), UserMessage.of("so?")
    )
    assert [(turn["role"], [next(iter(part)) for part in turn["parts"]]) for turn in said] == [
        ("user", ["text"]),
        ("model", ["functionCall", "functionCall"]),
        ("user", ["functionResponse", "functionResponse"]),
        ("user", ["text", "inlineData", "text"]),
    ]


def test_another_models_thoughts_and_ids_are_not_sent() -> None:
    thought = ReasoningPart(text="hm", provider_data={"anthropic": {"signature": "x"}})
    call = ToolCallPart(
        call_id="toolu_1", tool_name="look", arguments={"q": "x"}, provider_data={"anthropic": {"a": 1}}
    )
    result = ToolResultPart(call_id="toolu_1", tool_name="look", content="found")
    said = turns(UserMessage.of("hi"), AssistantMessage(parts=(thought, call)), ToolMessage(results=(result,)))
    assert said[1:] == [
        {"role": "model", "parts": [{"functionCall": {"name": "look", "args": {"q": "x"}}}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "look", "response": {"result": "found"}}}]},
    ]


def test_gemini_3_gets_a_stand_in_for_the_signature_of_another_models_call() -> None:
    calls = tuple(ToolCallPart(call_id=each, tool_name="look", arguments={}) for each in "ab")
    history = (UserMessage.of("hi"), AssistantMessage(parts=calls))
    first, second = turns(*history, model="gemini-3-pro-preview")[1]["parts"]
    assert first["thoughtSignature"] == "skip_thought_signature_validator"
    assert "thoughtSignature" not in second
    assert "thoughtSignature" not in json.dumps(turns(*history, model="gemini-2.5-pro"))


@pytest.mark.parametrize(
    ("choice", "calling"),
    [
        ("auto", None), ("none", {"mode": "NONE"}), ("required", {"mode": "ANY"}),
        (NamedTool(name="look"), {"mode": "ANY", "allowedFunctionNames": ["look"]}),
    ],
)  # fmt: skip
def test_the_choice_of_tools_is_sent(choice: Any, calling: Any) -> None:
    sent = body(tools=(SPEC,), tool_choice=choice)
    assert sent.get("toolConfig") == (None if calling is None else {"functionCallingConfig": calling})


def test_a_tool_without_parameters_is_sent_without() -> None:
    assert body(tools=(ToolSpec(name="now", description="The time"),))["tools"] == [
        {"functionDeclarations": [{"name": "now", "description": "The time"}]}
    ]


def test_parameters_of_several_forms_are_sent_as_one_object() -> None:
    by_name = {"properties": {"name": {"type": "string"}, "n": {"type": "integer"}}, "required": ["name", "n"]}
    by_id = {"properties": {"id": {"type": "integer"}, "n": {"type": "integer"}}, "required": ["id", "n"]}
    tool = ToolSpec(name="find", parameters={"type": "object", "anyOf": [by_name, by_id]})
    assert found(tools=(tool,)) == []
    assert body(tools=(tool,))["tools"][0]["functionDeclarations"][0]["parameters"] == {
        "type": "OBJECT",
        "properties": {"name": {"type": "STRING"}, "n": {"type": "INTEGER"}, "id": {"type": "INTEGER"}},
        "required": ["n"],
    }


@pytest.mark.parametrize(
    ("reasoning", "thinking"),
    [
        (Reasoning(), {"includeThoughts": True}),
        (Reasoning(capture=False), {"includeThoughts": False}),
        (Reasoning(capture=False, level="low"), {"includeThoughts": False, "thinkingLevel": "low"}),
        (Reasoning(budget_tokens=0), {"includeThoughts": True, "thinkingBudget": 0}),
    ],
)
def test_reasoning_is_sent_with_budget_level_and_whether_to_tell(reasoning: Reasoning, thinking: Any) -> None:
    assert body(reasoning=reasoning)["generationConfig"]["thinkingConfig"] == thinking
    assert "generationConfig" not in body()


def test_a_json_object_is_asked_for_without_a_schema() -> None:
    assert body(output=OutputSchema(name="x"))["generationConfig"] == {"responseMimeType": "application/json"}


def test_a_shape_beside_tools_is_told_in_words_before_gemini_3() -> None:
    sent = body(output=SHAPE, tools=(SPEC,), messages=(SystemMessage(text="be brief"), UserMessage.of("hi")))
    assert "generationConfig" not in sent
    brief, told = sent["systemInstruction"]["parts"]
    assert brief == {"text": "be brief"}
    assert told["text"].endswith('and nothing else: {"type": "object", "properties": {"a": {"type": "string"}}}')
    newer = body(output=SHAPE, tools=(SPEC,), model="gemini-3-flash")
    assert "responseSchema" in newer["generationConfig"]
    assert "systemInstruction" not in newer


def test_options_go_to_their_places() -> None:
    options = {
        "topK": 5, "seed": 1, "safetySettings": [{"category": "X", "threshold": "BLOCK_NONE"}],
        "cachedContent": "cachedContents/1", "generationConfig": {"topP": 0.5},
    }  # fmt: skip
    sent = body(provider_options={"google": options}, temperature=0.1)
    assert sent["generationConfig"] == {"temperature": 0.1, "topK": 5, "seed": 1, "topP": 0.5}
    assert (sent["cachedContent"], sent["safetySettings"]) == ("cachedContents/1", options["safetySettings"])
    request = ask(provider_options={"mine": {"seed": 2}})
    assert request_body(request, provider="mine")["generationConfig"] == {"seed": 2}


def test_options_do_not_say_what_the_request_says() -> None:
    options = {"candidateCount": 2, "tools": [{"google_search": {}}], "generationConfig": 7}
    assert found(provider_options={"google": options}) == [
        "the option 'candidateCount' is no option: the request says it",
        "the option 'tools' is no option: the request says it",
        "the option 'generationConfig' is a mapping",
    ]


def test_hosted_search_is_refused_with_or_without_lists_of_domains() -> None:
    for options in ({}, {"allowed_domains": ["example.com"]}):
        request = ask(hosted_tools=(HostedTool(tool="web_search", options=options),))
        assert list(problems(request, provider="google")) == ["provider 'google' has no hosted tool 'web_search'"]
        assert "it has no the hosted tool 'web_search'" in GoogleProvider("google", GoogleSettings()).refusals(request)


def test_other_limits_of_the_api_are_told() -> None:
    assert found(stop_sequences=tuple("abcdef")) == ["Gemini takes at most 5 stop sequences, not 6"]
    assert found(tools=(SPEC,), tool_choice=NamedTool(name="gone")) == [
        "tool_choice names 'gone', which is not among the tools"
    ]
    (bad,) = found(tools=(ToolSpec(name="2 words"),))
    assert bad.startswith("Gemini takes no tool named '2 words'")
    assert found(tools=(ToolSpec(name="ns.look:up-1"),)) == []
    assert ignored(ask(tools=(SPEC,), parallel_tool_calls=False)) == (
        "parallel_tool_calls is ignored: Gemini has none",
    )


@given(message_lists("google"))
def test_the_order_of_turns_is_what_the_api_asks_for_any_message_list(messages: tuple[Message, ...]) -> None:
    """https://ai.google.dev/gemini-api/docs/function-calling: a user begins; calls follow a user's turn or results;
    results follow their calls at once, as many and in their order; no turn and no part is empty."""
    said = turns(*messages)
    json.dumps(said)
    assert said[0]["role"] == "user"
    waiting: list[str] = []
    before, after_results = "", False
    for turn in said:
        results = [part["functionResponse"]["name"] for part in turn["parts"] if "functionResponse" in part]
        calls = [part["functionCall"]["name"] for part in turn["parts"] if "functionCall" in part]
        assert turn["parts"]
        assert all(part.get("text") != "" for part in turn["parts"])
        assert turn["role"] == ("model" if calls else turn["role"])
        assert results == waiting
        if results:
            assert (turn["role"], len(results)) == ("user", len(turn["parts"]))
        if turn["role"] == "model":
            assert before != "model"
        elif before == "user":
            assert not results
            assert after_results
        waiting, before, after_results = calls, turn["role"], bool(results)
    assert waiting == []
