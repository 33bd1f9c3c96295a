"""Requests as the chat API takes them, and what is refused before one is sent."""

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
    TextPart,
    ToolCallPart,
    ToolMessage,
    ToolResultPart,
    ToolSpec,
    UserMessage,
)
from treadle_ollama.convert import ignored, problems, request_body
from treadle_ollama.provider import OllamaProvider
from treadle_ollama.settings import OllamaSettings

from wire.message_lists import message_lists

PNG = MediaPart(type="image", media_type="image/png", data=b"\x89PNG")
SPEC = ToolSpec(name="look")


def ask(**fields: Any) -> ModelRequest:
    return ModelRequest(**{"model": "qwen3:8b", "messages": (UserMessage.of("hi"),), **fields})


def body(**fields: Any) -> dict[str, Any]:
    return request_body(ask(**fields), provider="ollama")


def said(*messages: Message) -> list[Any]:
    found: list[Any] = body(messages=messages)["messages"]
    return found


def test_images_are_sent_as_base64_beside_the_text() -> None:
    parts = (TextPart(text="what"), PNG, TextPart(text="is this"))
    assert said(UserMessage(parts=parts)) == [
        {"role": "user", "content": "what\nis this", "images": [base64.b64encode(b"\x89PNG").decode()]}
    ]


@pytest.mark.parametrize(
    ("media", "says"),
    [
        (MediaPart(type="image", url="https://example.com/a.png"), "Ollama takes images as bytes, not by URL"),
        (MediaPart(type="pdf", media_type="application/pdf", data=b"%PDF"), "Ollama takes no pdf attachments"),
        (MediaPart(type="audio", media_type="audio/wav", data=b"RIFF"), "Ollama takes no audio attachments"),
    ],
)
def test_other_attachments_are_refused(media: MediaPart, says: str) -> None:
    request = ask(messages=(UserMessage(parts=(media,)),))
    assert list(problems(request, provider="ollama")) == [says]
    with pytest.raises(UnsupportedError):
        request_body(request, provider="ollama")
    assert OllamaProvider("ollama", OllamaSettings()).refusals(request)[0].startswith("it has no attachments of type")


def test_speakers_are_named_before_their_words() -> None:
    assert said(UserMessage.of("hi", name="bob"), AssistantMessage.of("ho", name="alice")) == [
        {"role": "user", "content": "[bob] hi"},
        {"role": "assistant", "content": "[alice] ho"},
    ]


def test_what_a_tool_returned_besides_text_follows_all_results() -> None:
    calls = tuple(ToolCallPart(call_id=each, tool_name="look", arguments={}) for each in "ab")
    results = tuple(
        ToolResultPart(call_id=each, tool_name="look", content=each, media=(PNG,) if each == "a" else ())
        for each in "ab"
    )
    roles = [each["role"] for each in said(AssistantMessage(parts=calls), ToolMessage(results=results))]
    assert roles == ["assistant", "tool", "tool", "user"]


def test_another_models_thoughts_are_not_sent() -> None:
    thought = ReasoningPart(text="hm", provider_data={"anthropic": {"signature": "x"}})
    assert said(AssistantMessage(parts=(thought, TextPart(text="yes")))) == [{"role": "assistant", "content": "yes"}]


def test_arguments_that_did_not_parse_are_sent_as_none_at_all() -> None:
    call = ToolCallPart(call_id="a", tool_name="look", arguments=None, raw_arguments="{", parse_error="cut")
    assert said(AssistantMessage(parts=(call,)))[0]["tool_calls"] == [{"function": {"name": "look", "arguments": {}}}]


def test_a_shape_is_sent_as_format() -> None:
    schema = {"type": "object", "properties": {"default": {"type": "string"}}}
    assert body(output=OutputSchema(name="x", schema=schema))["format"] == schema
    assert body(output=OutputSchema(name="x"))["format"] == "json"
    assert "format" not in body()


@pytest.mark.parametrize(
    ("reasoning", "think"),
    [(Reasoning(), True), (Reasoning(level="low"), "low"), (Reasoning(budget_tokens=9), True)],
)
def test_reasoning_is_sent_as_a_level_or_as_true(reasoning: Reasoning, think: Any) -> None:
    assert body(reasoning=reasoning)["think"] == think


def test_the_budget_is_ignored_with_a_warning() -> None:
    assert ignored(ask(reasoning=Reasoning(budget_tokens=9))) == (
        "thinking.budget_tokens is ignored: Ollama takes a level",
    )


@pytest.mark.parametrize("choice", ["none", "required", NamedTool(name="look")])
def test_a_tool_choice_is_let_through_and_ignored_with_a_warning(choice: Any) -> None:
    request = ask(tools=(SPEC,), tool_choice=choice)
    assert OllamaProvider("ollama", OllamaSettings()).refusals(request) == []
    (warning,) = ignored(request)
    assert warning.startswith("tool_choice is ignored: Ollama has none")
    sent = request_body(request, provider="ollama")
    assert "tool_choice" not in sent
    assert ("tools" in sent) is (choice != "none")  # what is not sent cannot be called


def test_one_call_at_a_time_cannot_be_asked_for() -> None:
    assert ignored(ask(tools=(SPEC,), parallel_tool_calls=False)) == (
        "parallel_tool_calls is ignored: Ollama has none",
    )
    assert ignored(ask(tools=(SPEC,), parallel_tool_calls=True)) == ()


def test_options_go_to_their_places() -> None:
    options = {"num_ctx": 8192, "top_k": 5, "options": {"seed": 1}, "keep_alive": "1h", "think": False}
    sent = body(provider_options={"ollama": options}, temperature=0.1)
    assert sent["options"] == {"temperature": 0.1, "num_ctx": 8192, "top_k": 5, "seed": 1}
    assert (sent["keep_alive"], sent["think"]) == ("1h", False)
    assert request_body(ask(provider_options={"gpu": {"num_ctx": 1}}), provider="gpu")["options"] == {"num_ctx": 1}


def test_options_do_not_say_what_the_request_says() -> None:
    request = ask(provider_options={"ollama": {"stream": True, "model": "other", "options": 7}})
    assert list(problems(request, provider="ollama")) == [
        "the option 'model' is no option: the request says it",
        "the option 'stream' is no option: the request says it",
        "the option 'options' is a mapping of the model's options",
    ]
    sent = request_body(request, provider="ollama")
    assert (sent["stream"], sent["model"]) == (False, "qwen3:8b")


def test_hosted_tools_are_refused() -> None:
    request = ask(hosted_tools=(HostedTool(tool="web_search"),))
    assert list(problems(request, provider="ollama")) == ["Ollama has no hosted tool 'web_search'"]


def test_one_bad_tool_schema_names_the_tool_and_the_path() -> None:
    good = ToolSpec(name="good")
    bad = ToolSpec(
        name="bad",
        parameters={
            "type": "object",
            "properties": {
                "q": {"type": "strnig"},
                "title": {"type": "string"},
                "list": {"type": "array", "items": {"anyOf": [{"type": "null"}, 7]}},
            },
            "required": "q",
        },
    )
    found = list(problems(ask(tools=(good, bad)), provider="ollama"))
    assert found == [
        "tool 'bad': parameters.required: it is a list of names, not 'q'",
        (
            "tool 'bad': parameters.properties.q.type: there is no type 'strnig'; "
            "the types are array, boolean, integer, null, number, object, string"
        ),
        "tool 'bad': parameters.properties.list.items.anyOf.1: a schema is an object, not 7",
    ]


def test_a_choice_of_a_tool_that_is_not_there_is_refused() -> None:
    request = ask(tools=(SPEC,), tool_choice=NamedTool(name="gone"))
    assert list(problems(request, provider="ollama")) == ["tool_choice names 'gone', which is not among the tools"]


@given(message_lists("ollama"))
def test_results_follow_their_calls_in_any_message_list(messages: tuple[Message, ...]) -> None:
    sent = request_body(ask(messages=messages), provider="ollama")["messages"]
    json.dumps(sent)
    waiting: list[str] = []
    for message in sent:
        assert isinstance(message["content"], str)
        if message["role"] == "tool":
            assert waiting.pop(0) == message["tool_name"]
            continue
        assert waiting == []
        waiting = [call["function"]["name"] for call in message.get("tool_calls", ())]
    assert waiting == []
