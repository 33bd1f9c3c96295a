"""Messages to the Responses API's JSON and back, without a network."""

from __future__ import annotations

from typing import Any

import pytest

from treadle.errors import UnsupportedError
from treadle.messages import (
    AssistantMessage,
    HostedTool,
    HostedToolPart,
    MediaPart,
    Message,
    ModelRequest,
    NamedTool,
    OutputSchema,
    Reasoning,
    ReasoningPart,
    Source,
    SystemMessage,
    TextPart,
    ToolCallPart,
    ToolMessage,
    ToolResultPart,
    ToolSpec,
    UserMessage,
)
from treadle_openai.checks import responses_problems
from treadle_openai.responses import request_body, response_of, without_reasoning

PNG = MediaPart(type="image", media_type="image/png", data=b"\x89PNG")
PDF = MediaPart(type="pdf", media_type="application/pdf", data=b"%PDF")
IMAGE_URL = MediaPart(type="image", url="https://a.test/x.png")
PDF_URL = MediaPart(type="pdf", url="https://a.test/x.pdf")
SOUND = MediaPart(type="audio", media_type="audio/wav", data=b"RIFF")


def body(*messages: Message, **fields: Any) -> dict[str, Any]:
    fields.setdefault("model", "gpt-4o-mini")
    return request_body(ModelRequest(messages=messages, **fields), provider="openai")


def sent(*messages: Message, **fields: Any) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = body(*messages, **fields)["input"]
    return items


def test_system_and_user_turns() -> None:
    assert sent(SystemMessage(text="be brief"), UserMessage.of("hi"), UserMessage.of("ho", name="bob")) == [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": "hi"},
        {"role": "user", "content": "[bob] ho"},
    ]


@pytest.mark.parametrize(
    ("media", "part"),
    [
        (PNG, {"type": "input_image", "image_url": "data:image/png;base64,iVBORw==", "detail": "auto"}),
        (IMAGE_URL, {"type": "input_image", "image_url": "https://a.test/x.png", "detail": "auto"}),
        (
            PDF,
            {"type": "input_file", "filename": "attachment.pdf", "file_data": "data:application/pdf;base64,JVBERg=="},
        ),
        (PDF_URL, {"type": "input_file", "file_url": "https://a.test/x.pdf"}),
    ],
)
def test_attachments_of_a_user_turn_and_of_a_tools_result(media: MediaPart, part: dict[str, Any]) -> None:
    assert sent(UserMessage(parts=(TextPart(text="see"), media), name="bob")) == [
        {"role": "user", "content": [{"type": "input_text", "text": "[bob] see"}, part]}
    ]
    result = ToolResultPart(call_id="a", tool_name="f", content="here", media=(media,))
    assert sent(ToolMessage(results=(result,))) == [
        {"type": "function_call_output", "call_id": "a", "output": [{"type": "input_text", "text": "here"}, part]}
    ]


def test_audio_is_refused_before_any_request() -> None:
    request = ModelRequest(model="gpt-4o-mini", messages=(UserMessage(parts=(SOUND,)),))
    assert list(responses_problems(request, is_openai=True)) == ["the Responses API takes no audio attachments"]
    with pytest.raises(UnsupportedError, match="takes no audio attachments"):
        request_body(request, provider="openai")


OPAQUE = {"summary": [], "encrypted_content": "x"}
TURN = AssistantMessage(
    parts=(
        ReasoningPart(text="hm", provider_data={"openai": OPAQUE}),
        HostedToolPart(tool="web_search", provider_data={"openai": {"type": "web_search_call"}}),
        TextPart(text="so", provider_data={"openai": {"phase": "commentary"}}),
        ToolCallPart(call_id="c" * 50, tool_name="f", arguments={"x": 1}),
    )
)


def test_an_assistant_turn_goes_back_in_its_order_without_what_only_a_server_that_stores_knows() -> None:
    thought, text, call = sent(TURN, model="o3")
    assert thought == {"type": "reasoning", **OPAQUE}
    assert text == {
        "role": "assistant",
        "content": [{"type": "output_text", "text": "so"}],
        "phase": "commentary",
    }
    assert (call["type"], call["name"], call["arguments"]) == ("function_call", "f", '{"x": 1}')
    assert len(call["call_id"]) == 40


def test_reasoning_goes_back_only_to_its_provider_and_to_a_model_that_reasons() -> None:
    assert [item.get("type") for item in sent(TURN, model="gpt-4o")] == [None, "function_call"]
    other = request_body(ModelRequest(model="o3", messages=(TURN,)), provider="other")
    assert [item.get("type") for item in other["input"]] == [None, "function_call"]
    assert "phase" not in other["input"][0]
    unencrypted = AssistantMessage(parts=(ReasoningPart(text="hm", provider_data={"openai": {"summary": []}}),))
    assert sent(unencrypted, model="o3") == []


def test_without_reasoning_gives_nothing_where_there_is_none() -> None:
    with_it = body(TURN, model="o3")
    shorter = without_reasoning(with_it)
    assert shorter is not None
    assert shorter["input"] == with_it["input"][1:]
    assert len(with_it["input"]) == 3
    assert without_reasoning(shorter) is None


def test_tools_and_their_choice() -> None:
    tool = ToolSpec(name="look", description="Look", parameters={"type": "object", "properties": {}})
    made = body(tools=(tool,), tool_choice=NamedTool(name="look"), parallel_tool_calls=False)
    assert made["tools"] == [
        {
            "type": "function",
            "name": "look",
            "description": "Look",
            "parameters": {"type": "object", "properties": {}},
            "strict": False,
        }
    ]
    assert made["tool_choice"] == {"type": "function", "name": "look"}
    assert made["parallel_tool_calls"] is False
    assert body(tools=(tool,), tool_choice="required")["tool_choice"] == "required"
    assert "tool_choice" not in body(tools=(tool,))
    assert "parallel_tool_calls" not in body(tools=(tool,), parallel_tool_calls=True, model="o3")


def test_the_shape_of_the_reply() -> None:
    assert body(output=OutputSchema(name="x"))["text"] == {"format": {"type": "json_object"}}
    schema = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    assert body(output=OutputSchema(name="my shape", schema=schema))["text"] == {
        "format": {
            "type": "json_schema",
            "name": "my_shape",
            "schema": {**schema, "additionalProperties": False},
            "strict": True,
        }
    }


@pytest.mark.parametrize(
    ("model", "reasoning", "sends"),
    [
        ("gpt-5", Reasoning(level="high"), {"effort": "high", "summary": "auto"}),
        ("gpt-5", Reasoning(), {"summary": "auto"}),
        ("gpt-5", Reasoning(capture=False), None),
        ("gpt-5", None, None),
        ("o1-mini", Reasoning(level="high"), None),
        ("gpt-5-chat", Reasoning(level="high"), None),
        ("gpt-4o", Reasoning(level="high"), None),
    ],
)
def test_reasoning_settings(model: str, reasoning: Reasoning | None, sends: dict[str, str] | None) -> None:
    assert body(model=model, reasoning=reasoning).get("reasoning") == sends


def test_a_model_that_does_not_reason_is_not_asked_for_encrypted_reasoning_and_takes_a_temperature() -> None:
    made = body(temperature=0.3)
    assert "include" not in made
    assert made["temperature"] == 0.3
    assert "temperature" not in body(temperature=0.3, model="gpt-5")


def test_options_of_the_provider_go_in_as_they_are() -> None:
    assert body(provider_options={"openai": {"metadata": {"a": "b"}}, "x": {"y": 1}})["metadata"] == {"a": "b"}


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (
            {"allowed_domains": ["a.test"], "blocked_domains": ["b.test"]},
            "allowed_domains or blocked_domains, not both",
        ),
        ({"domains": ["a.test"]}, "web_search has no option 'domains'"),
        ({"allowed_domains": "a.test"}, "allowed_domains is a list of domains"),
        ({"allowed_domains": ["https://a.test/"]}, "'https://a.test/', which is no domain"),
        ({"blocked_domains": [f"{n}.test" for n in range(101)]}, "at most 100 domains, not 101"),
    ],
)
def test_a_search_that_cannot_be_limited_as_asked_is_refused(options: dict[str, Any], says: str) -> None:
    request = ModelRequest(model="m", messages=(), hosted_tools=(HostedTool(tool="web_search", options=options),))
    (problem,) = responses_problems(request, is_openai=True)
    assert says in problem


def test_another_hosted_tool_is_refused() -> None:
    request = ModelRequest(model="m", messages=(), hosted_tools=(HostedTool(tool="code"),))
    assert list(responses_problems(request, is_openai=True)) == [
        "the Responses API is used without the hosted tool 'code'"
    ]


def test_what_the_server_did_by_itself_is_kept_whatever_it_was() -> None:
    opened = {"type": "web_search_call", "id": "a", "status": "failed", "action": {"type": "open_page", "url": "u"}}
    drawn = {"type": "image_generation_call", "id": "b", "result": "…"}
    answer = response_of({"status": "completed", "output": [opened, drawn, 3]}, provider="openai", model="m")
    first, second = answer.message.parts
    assert first == HostedToolPart(
        tool="web_search",
        sources=(Source(url="u"),),
        error="it ended as failed",
        provider_data={"openai": opened},
    )
    assert second == HostedToolPart(tool="image_generation", provider_data={"openai": drawn})
    assert (answer.model, answer.usage.total_tokens) == ("m", None)
