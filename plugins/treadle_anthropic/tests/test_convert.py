"""Requests in the Messages API's JSON, and what is refused before one is made."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from treadle.messages import (
    AssistantMessage,
    HostedTool,
    MediaPart,
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
from treadle_anthropic.convert import Prepared, prepare, problems
from treadle_anthropic.provider import AnthropicProvider
from treadle_anthropic.settings import AnthropicSettings

MODEL = "claude-sonnet-4-5"
SPEC = ToolSpec(name="look", description="Look up", parameters={"properties": {"q": {"type": "string"}}})
OTHER = ToolSpec(name="other")
SHAPE = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
CALLED = (
    UserMessage.of("go"),
    AssistantMessage(parts=(ToolCallPart(call_id="a", tool_name="look", arguments={}),)),
    ToolMessage(results=(ToolResultPart(call_id="a", tool_name="look", content="found"),)),
)


def ask(**fields: Any) -> ModelRequest:
    return ModelRequest(**{"model": MODEL, "messages": (UserMessage.of("hi"),), **fields})


def prepared(**fields: Any) -> Prepared:
    return prepare(ask(**fields), provider="anthropic")


def body(**fields: Any) -> dict[str, Any]:
    return prepared(**fields).body


def refusals(**fields: Any) -> list[str]:
    return AnthropicProvider("anthropic", AnthropicSettings()).refusals(ask(**fields))


# --- the plain request ------------------------------------------------------------------------------


def test_a_request_is_what_was_asked_and_a_limit() -> None:
    assert body() == {
        "model": MODEL,
        "max_tokens": 4096,
        "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
    }


def test_settings_are_sent_as_given() -> None:
    found = body(
        messages=(SystemMessage(text="be brief"), UserMessage.of("hi"), SystemMessage(text="in French")),
        max_tokens=9,
        temperature=0.0,
        stop_sequences=("END",),
        stream=True,
    )
    assert found["system"] == "be brief\n\nin French"
    assert (found["max_tokens"], found["temperature"]) == (9, 0.0)
    assert (found["stop_sequences"], found["stream"]) == (["END"], True)


def test_a_request_with_a_temperature_names_the_last_version_that_takes_one() -> None:
    assert prepared(temperature=0.5).version == "2023-06-01"
    assert prepared().version is None
    assert prepared(provider_options={"anthropic": {"top_k": 5}}).version == "2023-06-01"


def test_a_model_that_takes_no_temperature_gets_none_and_a_warning() -> None:
    found = prepared(model="claude-opus-4-8", temperature=0.25)
    assert "temperature" not in found.body
    assert found.warnings == ("claude-opus-4-8 takes no temperature; 0.25 is not sent",)


# --- tools ------------------------------------------------------------------------------------------


def test_tools_with_their_schemas() -> None:
    assert body(tools=(SPEC, OTHER))["tools"] == [
        {
            "name": "look",
            "description": "Look up",
            "input_schema": {"type": "object", "properties": {"q": {"type": "string"}}},
        },
        {"name": "other", "input_schema": {"type": "object", "properties": {}}},
    ]


@pytest.mark.parametrize(
    ("choice", "parallel", "sent"),
    [
        ("auto", None, None),
        ("auto", True, None),
        ("auto", False, {"type": "auto", "disable_parallel_tool_use": True}),
        ("none", False, {"type": "none"}),
        ("required", None, {"type": "any"}),
        ("required", False, {"type": "any", "disable_parallel_tool_use": True}),
        (NamedTool(name="look"), None, {"type": "tool", "name": "look"}),
    ],
)
def test_choice_of_tools(choice: Any, parallel: bool | None, sent: dict[str, Any] | None) -> None:
    assert body(tools=(SPEC,), tool_choice=choice, parallel_tool_calls=parallel).get("tool_choice") == sent


def test_a_choice_without_tools_is_nothing() -> None:
    assert "tool_choice" not in body(tool_choice="required")


def test_calls_in_the_history_are_declared_where_the_request_has_no_tools() -> None:
    found = body(messages=CALLED)
    assert found["tools"] == [{"name": "look", "input_schema": {"type": "object"}}]
    assert found["tool_choice"] == {"type": "none"}


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        (
            {"tools": (ToolSpec(name="look up"),)},
            "Anthropic takes no tool named 'look up': letters, digits, _ and - only, 128 characters at most",
        ),
        (
            {"tools": (SPEC, ToolSpec(name="bad", parameters={"required": "q"}))},
            "tool 'bad': parameters.required: not a JSON Schema: 'q' is not of type 'array'",
        ),
        ({"tool_choice": NamedTool(name="x")}, "tool_choice names 'x', which is not among the tools"),
        (
            {"tools": (SPEC,), "tool_choice": "required", "reasoning": Reasoning(budget_tokens=2000)},
            "Anthropic takes no tool_choice that forces a tool while the model reasons, only auto and none",
        ),
        (
            {"model": "claude-opus-5-5", "tools": (SPEC,), "tool_choice": NamedTool(name="look")},
            "claude-opus-5-5 takes no tool_choice that forces a tool, only auto and none",
        ),
        ({"stop_sequences": (" \n",)}, "Anthropic takes no stop sequence of white space only"),
    ],
)
def test_what_the_api_would_refuse_is_refused_before_a_request(fields: dict[str, Any], says: str) -> None:
    assert refusals(**fields) == [says]


# --- reasoning --------------------------------------------------------------------------------------


def test_a_budget_is_sent_and_comes_on_top_of_the_limit() -> None:
    found = prepared(reasoning=Reasoning(budget_tokens=4000))
    assert found.body["thinking"] == {"type": "enabled", "budget_tokens": 4000}
    assert found.body["max_tokens"] == 8096
    assert found.warnings == ()
    assert body(reasoning=Reasoning(budget_tokens=4000), max_tokens=8000)["max_tokens"] == 8000


def test_reasoning_without_a_budget_is_refused_on_a_claude_model() -> None:
    assert refusals(reasoning=Reasoning()) == ["reasoning on a Claude model needs budget_tokens"]
    assert refusals(reasoning=Reasoning(level="high")) == ["reasoning on a Claude model needs budget_tokens"]


@pytest.mark.parametrize("limit", [1, 3999, 4000])
def test_a_limit_that_is_not_above_the_budget_is_refused(limit: int) -> None:
    assert refusals(reasoning=Reasoning(budget_tokens=4000), max_tokens=limit) == [
        f"max_tokens ({limit}) must be above budget_tokens (4000), as a reply's reasoning counts in it"
    ]
    assert refusals(reasoning=Reasoning(budget_tokens=4000), max_tokens=4001) == []


def test_a_level_is_ignored_with_a_warning() -> None:
    found = prepared(reasoning=Reasoning(budget_tokens=4000, level="high"))
    assert found.body["thinking"] == {"type": "enabled", "budget_tokens": 4000}
    assert found.warnings == ("Anthropic takes a budget for reasoning, not a level; 'high' is ignored",)


def test_temperature_is_left_out_with_a_warning_where_the_model_reasons() -> None:
    found = prepared(reasoning=Reasoning(budget_tokens=4000), temperature=0.2)
    assert "temperature" not in found.body
    assert found.version is None
    assert found.warnings == ("Anthropic takes no temperature with reasoning; 0.2 is not sent",)


def test_a_model_that_budgets_itself_is_told_to_think_and_the_budget_only_raises_the_limit() -> None:
    found = prepared(model="claude-opus-4-7", reasoning=Reasoning(budget_tokens=4000))
    assert found.body["thinking"] == {"type": "adaptive", "display": "summarized"}
    assert found.body["max_tokens"] == 8096
    assert found.warnings == (
        "claude-opus-4-7 decides itself how much it reasons; budget_tokens only raises max_tokens",
    )
    assert refusals(model="claude-opus-4-7", reasoning=Reasoning()) == [
        "reasoning on a Claude model needs budget_tokens"
    ]


@pytest.mark.parametrize(
    ("model", "sent"),
    [
        (MODEL, {"type": "enabled", "budget_tokens": 2000}),
        ("claude-opus-4-6", {"type": "enabled", "budget_tokens": 2000, "display": "omitted"}),
        ("claude-opus-4-8", {"type": "adaptive", "display": "omitted"}),
    ],
)
def test_reasoning_that_is_not_to_be_captured_is_not_asked_for_where_the_model_can_omit_it(
    model: str, sent: dict[str, Any]
) -> None:
    assert body(model=model, reasoning=Reasoning(budget_tokens=2000, capture=False))["thinking"] == sent


def test_another_vendors_model_without_a_budget_is_not_asked_to_reason() -> None:
    found = prepared(model="MiniMax-M2", reasoning=Reasoning())
    assert "thinking" not in found.body
    assert found.warnings == ("reasoning of MiniMax-M2 is not asked for: it has no budget_tokens",)
    assert refusals(model="MiniMax-M2", reasoning=Reasoning()) == []


def test_a_tool_loop_that_began_without_thinking_goes_on_without_it() -> None:
    found = prepared(messages=CALLED, tools=(SPEC,), reasoning=Reasoning(budget_tokens=2000))
    assert "thinking" not in found.body
    assert found.warnings == ("reasoning is left out: the tool calls that are answered here were made without it",)


def test_thinking_goes_back_in_a_tool_loop_and_can_be_left_out() -> None:
    block = {"type": "thinking", "thinking": "hm", "signature": "sig"}
    thought = ReasoningPart(provider_data={"anthropic": [block]})
    messages = (CALLED[0], replace(CALLED[1], parts=(thought, *CALLED[1].parts)), CALLED[2])
    request = ask(messages=messages, tools=(SPEC,), reasoning=Reasoning(budget_tokens=2000))
    first = prepare(request, provider="anthropic")
    assert first.has_thinking
    assert first.body["messages"][1]["content"][0] == block
    assert "thinking" in first.body
    again = prepare(request, provider="anthropic", with_thinking=False)
    assert not again.has_thinking
    assert again.body["messages"][1]["content"][0]["type"] == "tool_use"
    assert "thinking" not in again.body  # the API takes no thinking in a loop that begins without


# --- shapes -----------------------------------------------------------------------------------------


def test_a_schema_is_sent_as_the_apis_own_format() -> None:
    found = prepared(output=OutputSchema(name="shape", schema=SHAPE), reasoning=Reasoning(budget_tokens=2000))
    assert found.body["output_config"] == {
        "format": {"type": "json_schema", "schema": {**SHAPE, "additionalProperties": False}}
    }
    assert (found.answer_tool, "system" in found.body) == (None, False)


def test_an_older_model_is_made_to_call_a_tool_of_that_shape() -> None:
    found = prepared(
        model="claude-3-7-sonnet-latest", output=OutputSchema(name="my shape", schema=SHAPE, description="a thing")
    )
    assert found.body["tools"] == [{"name": "my_shape", "description": "a thing", "input_schema": SHAPE}]
    assert found.body["tool_choice"] == {"type": "tool", "name": "my_shape", "disable_parallel_tool_use": True}
    assert found.answer_tool == "my_shape"


@pytest.mark.parametrize(
    "fields",
    [
        {"output": OutputSchema(name="x")},
        {"output": OutputSchema(name="x", schema={"type": "object"})},
        {"output": OutputSchema(name="x", schema=SHAPE), "model": "claude-fable-5", "tools": (SPEC,)},
        {"output": OutputSchema(name="x", schema=SHAPE), "hosted_tools": (HostedTool(tool="web_search"),)},
        {"output": OutputSchema(name="x", schema=SHAPE), "model": "claude-3-7-sonnet-latest", "tools": (SPEC,)},
        {
            "output": OutputSchema(name="x", schema=SHAPE),
            "model": "claude-3-7-sonnet-latest",
            "reasoning": Reasoning(budget_tokens=2000),
        },
        {"output": OutputSchema(name="x", schema={"type": "array", "items": SHAPE}), "model": "claude-opus-4-1"},
    ],
    ids=["any-object", "open", "fable", "search", "old-with-tools", "old-thinking", "old-list"],
)
def test_where_neither_can_be_the_shape_is_asked_for_in_words(fields: dict[str, Any]) -> None:
    found = prepared(messages=(SystemMessage(text="be brief"), UserMessage.of("hi")), **fields)
    assert found.body["system"].startswith("be brief\n\nAnswer with ")
    assert "output_config" not in found.body
    assert found.body.get("tool_choice") is None
    schema = fields["output"].schema
    assert schema is None or found.body["system"].endswith(json.dumps(schema))


def test_every_request_for_a_shape_is_taken() -> None:
    assert refusals(output=OutputSchema(name="x")) == []
    assert refusals(output=OutputSchema(name="x", schema={"type": "object"})) == []


# --- web search -------------------------------------------------------------------------------------


def test_web_search_with_its_limits() -> None:
    options = {
        "allowed_domains": ("example.com",),
        "max_uses": 3,
        "user_location": {"country": "FR"},
        "search_context_size": "high",
    }
    found = prepared(tools=(SPEC,), hosted_tools=(HostedTool(tool="web_search", options=options),))
    assert found.body["tools"][1] == {
        "type": "web_search_20250305",
        "name": "web_search",
        "allowed_domains": ["example.com"],
        "max_uses": 3,
        "user_location": {"type": "approximate", "country": "FR"},
    }
    assert found.warnings == ("web_search: Anthropic has no search_context_size; it is ignored",)
    blocked = HostedTool(tool="web_search", options={"blocked_domains": ["example.com"]})
    assert body(hosted_tools=(blocked,))["tools"] == [
        {"type": "web_search_20250305", "name": "web_search", "blocked_domains": ["example.com"]}
    ]


@pytest.mark.parametrize(
    ("tool", "options", "says"),
    [
        ("code", {}, "it has no the hosted tool 'code'"),
        (
            "web_search",
            {"allowed_domains": ["a.com"], "blocked_domains": ["b.com"]},
            "web_search takes allowed_domains or blocked_domains, not both",
        ),
        ("web_search", {"allowed_domains": "a.com"}, "web_search: allowed_domains is a list of domains"),
        (
            "web_search",
            {"blocked_domains": ["https://a.com"]},
            "web_search: blocked_domains takes domains without a scheme, such as example.com",
        ),
        ("web_search", {"max_uses": 0}, "web_search: max_uses is a whole number from 1"),
        ("web_search", {"max_uses": True}, "web_search: max_uses is a whole number from 1"),
        (
            "web_search",
            {"user_location": "FR"},
            "web_search: user_location is a mapping of city, region, country, timezone",
        ),
        (
            "web_search",
            {"domains": []},
            "web_search has no option 'domains'; there are allowed_domains, blocked_domains, max_uses, user_location",
        ),
    ],
)
def test_wrong_options_of_a_search_are_refused(tool: str, options: dict[str, Any], says: str) -> None:
    assert refusals(hosted_tools=(HostedTool(tool=tool, options=options),)) == [says]


# --- attachments ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("media", "says"),
    [
        (MediaPart(type="image", media_type="image/png", data=b"x"), []),
        (MediaPart(type="image", url="https://x/y"), []),
        (MediaPart(type="pdf", media_type="application/pdf", data=b"x"), []),
        (MediaPart(type="audio", media_type="audio/wav", data=b"x"), ["it has no attachments of type audio"]),
        (MediaPart(type="pdf", url="https://x/y.pdf"), ["it has no attachments of type pdf by URL"]),
        (
            MediaPart(type="image", media_type="image/tiff", data=b"x"),
            ["Anthropic takes image/gif, image/jpeg, image/png, image/webp, not image/tiff"],
        ),
    ],
)
def test_attachments_are_refused_before_a_request_by_what_the_table_says(media: MediaPart, says: list[str]) -> None:
    assert refusals(messages=(UserMessage(parts=(TextPart(text="see"), media)),)) == says
    result = ToolResultPart(call_id="a", tool_name="look", content="", media=(media,))
    assert refusals(messages=(*CALLED[:2], ToolMessage(results=(result,)))) == says


# --- options that only this provider knows ----------------------------------------------------------


def test_options_go_into_the_request_as_they_are() -> None:
    options = {
        "top_k": 5,
        "betas": ["b-1"],
        "metadata": {"user_id": "u"},
        "tools": [{"type": "code_execution_20250825", "name": "code_execution"}],
        "output_config": {"effort": "low"},
    }
    found = prepared(
        tools=(OTHER,),
        output=OutputSchema(name="x", schema=SHAPE),
        provider_options={"anthropic": options, "openai": 1},
    )
    assert (found.body["top_k"], found.body["metadata"], found.betas) == (5, {"user_id": "u"}, ("b-1",))
    assert [tool["name"] for tool in found.body["tools"]] == ["other", "code_execution"]
    assert set(found.body["output_config"]) == {"effort", "format"}
    assert "betas" not in found.body


def test_the_prompt_cache_is_marked_where_it_is_asked_for() -> None:
    request = ask(messages=(SystemMessage(text="long"), *CALLED), tools=(SPEC, OTHER))

    def marked(option: Any) -> dict[str, Any]:
        return prepare(
            replace(request, provider_options={"anthropic": {"prompt_cache": option}}), provider="anthropic"
        ).body

    mark = {"type": "ephemeral"}
    found = marked(True)
    assert [tool.get("cache_control") for tool in found["tools"]] == [None, mark]
    assert found["system"] == [{"type": "text", "text": "long", "cache_control": mark}]
    assert found["messages"][-1]["content"][-1]["cache_control"] == mark
    assert "prompt_cache" not in found
    hour = marked({"ttl": "1h", "on": ["system"]})
    assert hour["system"][0]["cache_control"] == {"type": "ephemeral", "ttl": "1h"}
    assert "cache_control" not in json.dumps([hour["tools"], hour["messages"]])
    assert "cache_control" not in json.dumps(marked(False))


@pytest.mark.parametrize(
    ("option", "says"),
    [
        ("yes", "prompt_cache is true, false, or a mapping of ttl and on"),
        ({"ttl": "2h"}, "prompt_cache: ttl is 5m or 1h"),
        ({"on": ["all"]}, "prompt_cache: on is a list of tools, system, messages"),
        ({"where": 1}, "prompt_cache has no 'where'; there are ttl, on"),
    ],
)
def test_a_wrong_cache_option_is_refused(option: Any, says: str) -> None:
    assert refusals(provider_options={"anthropic": {"prompt_cache": option}}) == [says]
    request = ask(provider_options={"anthropic": {"prompt_cache": option}})
    assert list(problems(request, provider="claude")) == []  # options of another provider's name are not looked at
