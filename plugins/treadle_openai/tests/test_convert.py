"""Messages to JSON and back, without a network."""

from __future__ import annotations

from typing import Any

import pytest

from treadle.errors import ResponseError, UnsupportedError
from treadle.messages import (
    AssistantMessage,
    Citation,
    EmbedRequest,
    HostedTool,
    HostedToolPart,
    MediaPart,
    Message,
    ModelRequest,
    NamedTool,
    OutputSchema,
    Reasoning,
    ReasoningPart,
    StopReason,
    TextPart,
    ToolCallPart,
    ToolMessage,
    ToolResultPart,
    ToolSpec,
    Usage,
    UserMessage,
)
from treadle_openai.checks import chat_problems as problems
from treadle_openai.checks import ignored
from treadle_openai.convert import embed_body, embed_response, merged_details, request_body, response_of
from treadle_openai.models import is_reasoning_model
from treadle_openai.schema import strict_schema

PNG = MediaPart(type="image", media_type="image/png", data=b"\x89PNG")
TOOL = ToolSpec(name="look")


def body(*messages: Message, **fields: Any) -> dict[str, Any]:
    fields.setdefault("model", "gpt-4o-mini")
    return request_body(ModelRequest(messages=messages, **fields), provider="openai")


def sent(message: Message) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = body(message)["messages"]
    return messages


# --- messages ---------------------------------------------------------------------------------------


def test_a_user_turn_of_one_text_is_a_string_and_of_more_parts_a_list() -> None:
    assert sent(UserMessage.of("hi", name="alice b<|")) == [{"role": "user", "content": "hi", "name": "alice_b__"}]
    assert sent(UserMessage(parts=(TextPart(text="a"), TextPart(text="b")))) == [
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}
    ]


@pytest.mark.parametrize(
    ("media", "part"),
    [
        (PNG, {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw=="}}),
        (
            MediaPart(type="image", url="https://example.com/a.png"),
            {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}},
        ),
        (
            MediaPart(type="audio", media_type="audio/x-wav", data=b"RIFF"),
            {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}},
        ),
        (
            MediaPart(type="audio", media_type="audio/mpeg", data=b"ID3"),
            {"type": "input_audio", "input_audio": {"data": "SUQz", "format": "mp3"}},
        ),
    ],
)
def test_media_is_sent_as_the_api_takes_it(media: MediaPart, part: dict[str, Any]) -> None:
    assert sent(UserMessage(parts=(TextPart(text="see"), media)))[0]["content"] == [
        {"type": "text", "text": "see"},
        part,
    ]


@pytest.mark.parametrize(
    ("media", "says"),
    [
        (
            MediaPart(type="pdf", media_type="application/pdf", data=b"%PDF"),
            "Chat Completions takes no pdf attachments",
        ),
        (
            MediaPart(type="audio", media_type="audio/ogg", data=b"OggS"),
            "Chat Completions takes WAV and MP3 audio, not audio/ogg",
        ),
        (MediaPart(type="audio", url="https://x/a.wav"), "Chat Completions takes audio as bytes, not by URL"),
    ],
)
def test_media_that_the_api_does_not_take_is_refused_before_any_request(media: MediaPart, says: str) -> None:
    request = ModelRequest(model="m", messages=(UserMessage(parts=(media,)),))
    assert list(problems(request, is_openai=False)) == [says]
    in_result = ToolMessage(results=(ToolResultPart(call_id="a", tool_name="f", content="", media=(media,)),))
    assert list(problems(ModelRequest(model="m", messages=(in_result,)), is_openai=True)) == [says]
    with pytest.raises(UnsupportedError, match=says):
        request_body(request, provider="openai")


def test_an_assistant_turn_keeps_text_and_calls_and_drops_what_the_api_does_not_take_back() -> None:
    turn = AssistantMessage(
        name="bob",
        parts=(
            ReasoningPart(text="hm"),
            TextPart(text="so"),
            HostedToolPart(tool="web_search"),
            ToolCallPart(call_id="a", tool_name="f", arguments={"x": 1}, raw_arguments='{ "x":1 }'),
            ToolCallPart(call_id="b", tool_name="f", arguments={}, raw_arguments=""),
            ToolCallPart(call_id="c", tool_name="f", arguments=None, raw_arguments="{oops", parse_error="no"),
        ),
    )
    assert sent(turn) == [
        {
            "role": "assistant",
            "content": "so",
            "name": "bob",
            "tool_calls": [
                {"id": "a", "type": "function", "function": {"name": "f", "arguments": '{ "x":1 }'}},
                {"id": "b", "type": "function", "function": {"name": "f", "arguments": "{}"}},
                {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{oops"}},
            ],
        }
    ]
    assert sent(AssistantMessage.of("")) == [{"role": "assistant", "content": ""}]


def test_results_follow_their_calls_and_their_media_comes_after_all_of_them() -> None:
    results = ToolMessage(
        results=(
            ToolResultPart(call_id="a", tool_name="f", content="1", media=(PNG,)),
            ToolResultPart(call_id="b", tool_name="f", content="2"),
        )
    )
    first, second, attached = sent(results)
    assert first == {"role": "tool", "tool_call_id": "a", "content": "1"}
    assert second == {"role": "tool", "tool_call_id": "b", "content": "2"}
    assert attached["role"] == "user"
    assert [part["type"] for part in attached["content"]] == ["text", "image_url"]


def test_another_vendors_long_call_id_is_shortened_alike_in_call_and_result() -> None:
    long = "toolu_" + "x" * 60
    call = AssistantMessage(parts=(ToolCallPart(call_id=long, tool_name="f", arguments={}),))
    result = ToolMessage(results=(ToolResultPart(call_id=long, tool_name="f", content="1"),))
    first, second = body(call, result)["messages"]
    assert first["tool_calls"][0]["id"] == second["tool_call_id"]
    assert len(second["tool_call_id"]) <= 40


# --- options ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "reasons"),
    [
        ("o1", True), ("o1-mini", True), ("o3", True), ("o4-mini-2025-04-16", True), ("gpt-5", True),
        ("gpt-5-mini", True), ("gpt-5.1", True), ("openai/gpt-5-nano", True), ("ft:o4-mini:me::1", True),
        ("gpt-5-chat-latest", False),
        ("gpt-4o", False), ("gpt-4.1", False), ("gpt-oss-20b", False), ("ollama/olmo-2", False), ("phi-o3", False),
    ],
)  # fmt: skip
def test_reasoning_models_get_another_limit_and_no_temperature(model: str, reasons: bool) -> None:
    assert is_reasoning_model(model) is reasons
    got = body(model=model, max_tokens=5, temperature=0.0)
    expected = {"max_completion_tokens": 5} if reasons else {"max_tokens": 5, "temperature": 0.0}
    assert got == {"model": model, "messages": [], **expected}


@pytest.mark.parametrize(
    ("model", "reasoning", "effort"),
    [
        ("o3", Reasoning(level="high"), "high"),
        ("gpt-5", Reasoning(level="low", budget_tokens=900), "low"),
        ("o3", Reasoning(budget_tokens=900), None),
        ("o1-mini", Reasoning(level="high"), None),
        ("gpt-5-chat", Reasoning(level="high"), None),
        ("gpt-4o", Reasoning(level="high"), None),
    ],
)
def test_reasoning_effort_is_the_level_where_the_model_takes_one(
    model: str, reasoning: Reasoning, effort: str | None
) -> None:
    got = body(model=model, reasoning=reasoning)
    assert got.get("reasoning_effort") == effort
    assert set(got) - {"reasoning_effort"} == {"model", "messages"}


def test_tool_choice_is_sent_where_it_is_not_the_default() -> None:
    assert "tool_choice" not in body(tools=(TOOL,))
    assert body(tools=(TOOL,), tool_choice="none")["tool_choice"] == "none"
    assert body(tools=(TOOL,), tool_choice=NamedTool(name="look"))["tool_choice"] == {
        "type": "function",
        "function": {"name": "look"},
    }
    assert "tool_choice" not in body(tool_choice="required")  # without tools the API refuses it


def test_parallel_tool_calls_go_where_they_are_understood() -> None:
    assert body(tools=(TOOL,), parallel_tool_calls=False)["parallel_tool_calls"] is False
    assert "parallel_tool_calls" not in body(tools=(TOOL,))
    assert "parallel_tool_calls" not in body(tools=(TOOL,), parallel_tool_calls=True, model="o3")
    assert "parallel_tool_calls" not in body(parallel_tool_calls=True)


def test_options_of_this_provider_are_added_and_of_another_left_out() -> None:
    assert body(provider_options={"openai": {"seed": 1}, "anthropic": {"top_k": 2}}) == {
        "model": "gpt-4o-mini",
        "messages": [],
        "seed": 1,
    }


def test_an_object_of_any_shape_and_a_schema_without_strict() -> None:
    assert body(output=OutputSchema(name="x"))["response_format"] == {"type": "json_object"}
    loose = {"type": "object", "properties": {"a": {}}}
    assert body(output=OutputSchema(name="", schema=loose, strict=False, description="d"))["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "reply", "schema": loose, "strict": False, "description": "d"},
    }


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array", "items": {"type": "string"}},
        {"anyOf": [{"type": "object", "properties": {}}]},
        {"type": "object"},
        {"type": "object", "properties": {"a": {"type": "object", "additionalProperties": {"type": "string"}}}},
    ],
)
def test_a_schema_that_strict_mode_cannot_say_is_sent_without_it(schema: dict[str, Any]) -> None:
    assert strict_schema(schema) is None
    shape = body(output=OutputSchema(name="x", schema=schema))["response_format"]["json_schema"]
    assert (shape["schema"], shape["strict"]) == (schema, False)


def test_strict_closes_every_object_and_leaves_the_schema_alone() -> None:
    inner = {"type": "object", "properties": {"b": {"type": "string"}}}
    schema = {
        "type": "object",
        "properties": {"a": {"type": "array", "items": inner}, "c": {"anyOf": [inner, {"type": "null"}]}},
        "$defs": {"d": inner},
        "required": ["a"],
    }
    closed = {
        "type": "object",
        "properties": {"b": {"type": ["string", "null"]}},  # null is how strict mode leaves a property out
        "additionalProperties": False,
        "required": ["b"],
    }
    assert strict_schema(schema) == {
        "type": "object",
        "properties": {"a": {"type": "array", "items": closed}, "c": {"anyOf": [closed, {"type": "null"}]}},
        "required": ["a", "c"],
        "additionalProperties": False,
    }
    assert inner == {"type": "object", "properties": {"b": {"type": "string"}}}


def test_what_cannot_work_is_told_before_any_request() -> None:
    request = ModelRequest(
        model="m",
        messages=(),
        tools=(ToolSpec(name="a.b"),),
        tool_choice=NamedTool(name="zap"),
        hosted_tools=(HostedTool(tool="web_search"),),
        stop_sequences=("1", "2", "3", "4", "5"),
    )
    always = [
        "Chat Completions has no hosted tool 'web_search'",
        "tool_choice names 'zap', which is not among the tools",
    ]
    assert list(problems(request, is_openai=False)) == always
    assert list(problems(request, is_openai=True)) == [
        always[0],
        "OpenAI takes at most 4 stop sequences, not 5",
        always[1],
        "OpenAI takes no tool named 'a.b': letters, digits, _ and - only, 64 characters at most",
    ]


# --- replies ----------------------------------------------------------------------------------------


def reply(message: dict[str, Any], finish: Any = "stop", **more: Any) -> Any:
    return response_of(
        {"choices": [{"message": message, "finish_reason": finish}], **more}, provider="openai", model="asked"
    )


@pytest.mark.parametrize(
    ("finish", "calls", "reason"),
    [
        ("stop", False, StopReason.END_TURN),
        ("length", False, StopReason.MAX_TOKENS),
        ("content_filter", False, StopReason.REFUSAL),
        ("error", False, StopReason.ERROR),
        ("eos", False, StopReason.UNKNOWN),
        (None, False, StopReason.UNKNOWN),
        ("tool_calls", True, StopReason.TOOL_USE),
        ("stop", True, StopReason.TOOL_USE),
        ("eos", True, StopReason.TOOL_USE),
        ("length", True, StopReason.MAX_TOKENS),
    ],
)
def test_stop_reasons_and_that_calls_are_acted_on_unless_cut(finish: Any, calls: bool, reason: StopReason) -> None:
    message: dict[str, Any] = {"content": "x"}
    if calls:
        message["tool_calls"] = [{"id": "a", "function": {"name": "f", "arguments": "{}"}}]
    response = reply(message, finish)
    assert (response.stop_reason, response.finish_reason) == (reason, finish)


def test_a_refusal_is_a_text_and_its_own_stop_reason() -> None:
    response = reply({"content": None, "refusal": "I will not"})
    assert (response.text, response.stop_reason) == ("I will not", StopReason.REFUSAL)


def test_usage_counts_what_is_said_and_invents_nothing() -> None:
    usage = {
        "prompt_tokens": 10,
        "completion_tokens": 5,
        "prompt_tokens_details": {"cached_tokens": 4},
        "completion_tokens_details": {"reasoning_tokens": 0},
    }
    assert reply({"content": "x"}, usage=usage).usage == Usage(
        input_tokens=10, output_tokens=5, cache_read_tokens=4, reasoning_tokens=0
    )
    assert reply({"content": "x"}).usage == Usage()
    odd = {"prompt_tokens": "9", "completion_tokens": None, "prompt_tokens_details": None}
    assert reply({"content": "x"}, usage=odd).usage == Usage()


def test_calls_come_back_whole_with_unique_ids_and_odd_ones_survive() -> None:
    calls = [
        {"id": "a", "function": {"name": "f", "arguments": ""}},
        {"id": "a", "function": {"name": "f", "arguments": {"x": 1}}},
        {"id": "", "function": {"name": "f", "arguments": "[]"}},
        {"id": "z", "function": None},
        "nonsense",
    ]
    first, second, third = reply({"content": None, "tool_calls": calls}).message.tool_calls
    assert (first.call_id, first.arguments) == ("a", {})
    assert (second.call_id, second.arguments) == ("a_2", {"x": 1})
    assert third.call_id.startswith("call_")
    assert (third.arguments, third.parse_error) == (None, "the arguments are not a JSON object but an array")


def test_text_in_parts_and_citations_are_read() -> None:
    annotation = {"type": "url_citation", "url_citation": {"url": "u", "title": "t", "start_index": 0, "end_index": 2}}
    message = {"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "annotations": [annotation]}
    (part,) = reply(message).message.parts
    assert part == TextPart(text="ab", citations=(Citation(url="u", title="t", start=0, end=2),))


def test_reasoning_is_kept_unless_it_is_not_wanted() -> None:
    data = {"choices": [{"message": {"content": "x", "reasoning": "hm"}, "finish_reason": "stop"}]}
    assert response_of(data, provider="p", model="m").message.reasoning == "hm"
    assert response_of(data, provider="p", model="m", keep_reasoning=False).message.reasoning == ""


def test_the_model_asked_for_stands_in_where_none_answers() -> None:
    assert reply({"content": "x"}).model == "asked"
    assert reply({"content": "x"}, model="dated").model == "dated"


@pytest.mark.parametrize(
    "data", [None, [], "x", {}, {"choices": None}, {"choices": []}, {"choices": [{"message": None}]}]
)
def test_what_is_no_completion_is_unreadable(data: Any) -> None:
    with pytest.raises(ResponseError, match="provider 'p' answered without a message") as caught:
        response_of(data, provider="p", model="m", request_id="r")
    assert caught.value.request_id == "r"


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"data": []},
        {"data": [{"index": 0, "embedding": [1]}]},
        {"data": [{"index": 0, "embedding": [1]}, {"index": 0, "embedding": [1]}]},
        {"data": [{"index": 0, "embedding": [1]}, {"index": 5, "embedding": [1]}]},
        {"data": [{"index": 0, "embedding": [1]}, {"index": 1, "embedding": "base64"}]},
    ],
)
def test_vectors_that_are_not_one_for_each_input_are_unreadable(data: Any) -> None:
    with pytest.raises(ResponseError, match=r"answered with \d vectors for 2 inputs"):
        embed_response(data, provider="p", model="m", count=2)


def test_the_length_of_vectors_is_sent_where_it_is_asked_for() -> None:
    assert embed_body(EmbedRequest(model="m", inputs=("a",)), ("a",)) == {
        "model": "m",
        "input": ["a"],
        "encoding_format": "float",
    }
    assert embed_body(EmbedRequest(model="m", inputs=("a",), dimensions=3), ("a",))["dimensions"] == 3


# --- what is ignored, and what goes back as it came -------------------------------------------------


def test_what_the_model_ignores_is_told() -> None:
    def told(**fields: Any) -> list[str]:
        return list(ignored(ModelRequest(messages=(), **fields)))

    assert told(model="gpt-4o", temperature=1.0, reasoning=Reasoning(), parallel_tool_calls=True) == []
    assert told(model="o3", temperature=1.0) == ["temperature is ignored: o3 takes none"]
    assert told(model="gpt-4o", reasoning=Reasoning(level="low", budget_tokens=9)) == [
        "thinking.budget_tokens is ignored: OpenAI takes a level",
        "thinking.level is ignored: gpt-4o takes none",
    ]
    assert told(model="o3", tools=(TOOL,), parallel_tool_calls=True) == [
        "parallel_tool_calls is ignored: o3 does not take it"
    ]


def test_opaque_blocks_of_compatible_servers_go_back_as_they_came_and_to_nobody_else() -> None:
    details = [{"type": "reasoning.encrypted", "data": "x", "index": 0}]
    extra = {"google": {"thought_signature": "s"}}
    call = {"id": "a", "function": {"name": "f", "arguments": "{}"}, "extra_content": extra}
    turn = reply({"content": None, "tool_calls": [call], "reasoning_details": details}).message
    (back,) = sent(turn)
    assert back["reasoning_details"] == details
    assert back["tool_calls"][0]["extra_content"] == extra
    other = request_body(ModelRequest(model="m", messages=(turn,)), provider="other")["messages"][0]
    assert "reasoning_details" not in other
    assert "extra_content" not in other["tool_calls"][0]


def test_blocks_of_reasoning_that_came_in_fragments_are_joined() -> None:
    fragments = [
        {"type": "reasoning.text", "index": 0, "text": "a"},
        {"type": "reasoning.text", "index": 0, "text": "b", "signature": "s"},
        {"type": "reasoning.encrypted", "index": 1, "data": "x"},
        {"type": "reasoning.text", "text": "no index"},
        {"type": "reasoning.text", "text": "no index"},
    ]
    assert merged_details(fragments) == [
        {"type": "reasoning.text", "index": 0, "text": "ab", "signature": "s"},
        *fragments[2:],
    ]
    assert fragments[0] == {"type": "reasoning.text", "index": 0, "text": "a"}
