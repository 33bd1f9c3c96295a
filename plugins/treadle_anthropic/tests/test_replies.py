"""Replies of the Messages API as Treadle's responses."""

from __future__ import annotations

from typing import Any

import pytest

from treadle.errors import ResponseError
from treadle.messages import (
    AssistantMessage,
    Citation,
    HostedToolPart,
    ReasoningPart,
    Source,
    StopReason,
    TextPart,
    ToolCallPart,
    Usage,
    UserMessage,
    dump,
    load,
)
from treadle_anthropic.replies import Asked, response_of, usage_of
from treadle_anthropic.turns import conversation_of

from wire.anthropic_server import message, redacted, search, text, thinking, tool_use

ASKED = Asked(provider="anthropic", model="asked")


def parts(*content: Any, **asked: Any) -> tuple[Any, ...]:
    return response_of(message(*content), Asked(provider="anthropic", model="asked", **asked)).message.parts


def test_a_reply_with_text_and_calls() -> None:
    response = response_of(message("so", tool_use("look", {"q": "ü"}, "a")), ASKED, request_id="req_1")
    assert response.message.parts == (
        TextPart(text="so"),
        ToolCallPart(call_id="a", tool_name="look", arguments={"q": "ü"}, raw_arguments='{"q": "ü"}'),
    )
    assert (response.stop_reason, response.finish_reason) == (StopReason.TOOL_USE, "tool_use")
    assert (response.model, response.provider) == ("claude-sonnet-4-5-20250929", "anthropic")
    assert response.request_id == "req_1"


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("end_turn", StopReason.END_TURN),
        ("max_tokens", StopReason.MAX_TOKENS),
        ("stop_sequence", StopReason.STOP_SEQUENCE),
        ("refusal", StopReason.REFUSAL),
        ("pause_turn", StopReason.PAUSED),
        ("model_context_window_exceeded", StopReason.MAX_TOKENS),
        ("something_new", StopReason.UNKNOWN),
        (None, StopReason.UNKNOWN),
    ],
)
def test_stop_reasons(word: str | None, reason: StopReason) -> None:
    response = response_of({**message("x"), "stop_reason": word}, ASKED)
    assert (response.stop_reason, response.finish_reason) == (reason, word)


@pytest.mark.parametrize("word", ["end_turn", "something_new", "pause_turn"])
def test_calls_are_acted_on_whatever_is_said_of_them(word: str) -> None:
    assert response_of(message(tool_use("f"), stop_reason=word), ASKED).stop_reason is StopReason.TOOL_USE


def test_calls_that_may_be_cut_are_not() -> None:
    assert response_of(message(tool_use("f"), stop_reason="max_tokens"), ASKED).stop_reason is StopReason.MAX_TOKENS


def test_ids_that_a_model_repeats_are_made_unique() -> None:
    first, second = parts(tool_use("f", {"n": 1}, "a"), tool_use("f", {"n": 2}, "a"))
    assert (first.call_id, second.call_id) == ("a", "a_2")
    assert (first.arguments, second.arguments) == ({"n": 1}, {"n": 2})


def test_input_that_is_no_object_is_kept_with_the_reason() -> None:
    (call,) = parts({"type": "tool_use", "id": "a", "name": "f", "input": [1]})
    assert (call.arguments, call.raw_arguments) == (None, "[1]")
    assert call.parse_error == "the arguments are not a JSON object but an array"


@pytest.mark.parametrize(
    "blocks",
    [
        [thinking("hm"), tool_use("f", {"x": 1})],
        [thinking("", "signature only"), text("so")],
        [redacted(), thinking("hm"), text("so")],
        [*search("q", "https://a", "https://b"), text("so")],
        [
            search("q", call_id="s1")[0],
            search("p", call_id="s2")[0],
            *(search("q", call_id=each)[1] for each in ("s1", "s2")),
        ],
        [search("q")[0]],
        [
            {
                "type": "text",
                "text": "cited",
                "citations": [
                    {"type": "web_search_result_location", "url": "https://a", "encrypted_index": "Eo8=",
                     "title": "A", "cited_text": "words"}
                ],
            }
        ],
        [{"type": "something_new", "data": {"x": [1, None]}}, text("so")],
        [{**tool_use("f", {"x": 1}), "caller": {"type": "direct"}}],
    ],
    ids=["tool", "signature", "redacted", "search", "two-searches", "paused", "cited", "unknown", "caller"],
)  # fmt: skip
def test_every_block_goes_back_as_it_came_through_json_too(blocks: list[dict[str, Any]]) -> None:
    said = response_of(message(*blocks), Asked(provider="x", model="m", keep_reasoning=False)).message
    again: AssistantMessage = load(AssistantMessage, dump(said))
    assert again == said
    turns = conversation_of([UserMessage.of("q"), again], provider="x").turns
    assert turns[1]["content"] == blocks


def test_thinking_is_readable_where_it_is_to_be_captured_only() -> None:
    assert parts(thinking("hm"), "so")[0].text == "hm"
    assert parts(thinking("hm"), "so", keep_reasoning=False)[0].text == ""
    assert parts(redacted(), "so")[0] == ReasoningPart(provider_data={"anthropic": [redacted()]})


def test_a_search_is_told_with_its_query_and_its_sources() -> None:
    (part,) = parts(*search("treadle", "https://a"))
    assert isinstance(part, HostedToolPart)
    assert (part.tool, part.call_id, part.query) == ("web_search", "srvtoolu_1", "treadle")
    assert part.sources == (Source(url="https://a", title="page https://a"),)
    assert part.error is None


def test_a_search_that_failed_is_told_with_its_error() -> None:
    use, result = search("treadle")
    result["content"] = {"type": "web_search_tool_result_error", "error_code": "max_uses_exceeded"}
    (part,) = parts(use, result)
    assert (part.error, part.sources) == ("max_uses_exceeded", ())


def test_citations_say_which_text_they_bear_out() -> None:
    citation = {"type": "web_search_result_location", "url": "https://a", "title": "A", "cited_text": "words"}
    first, second = parts("Because ", text("it is so", citation))
    assert first.citations == ()
    assert second.citations == (Citation(url="https://a", title="A", cited_text="words", start=0, end=8),)


def test_a_forced_tools_input_is_the_text_of_the_reply() -> None:
    response = response_of(message(tool_use("shape", {"a": "é"})), Asked(provider="x", model="m", answer_tool="shape"))
    assert response.text == '{"a": "é"}'
    assert response.message.tool_calls == ()
    assert (response.stop_reason, response.finish_reason) == (StopReason.END_TURN, "tool_use")


@pytest.mark.parametrize("data", [None, [], "x", {}, {"content": None}, {"content": "text"}, {"content": {}}])
def test_what_is_no_message_is_unreadable(data: Any) -> None:
    with pytest.raises(ResponseError, match="provider 'anthropic' answered without a message"):
        response_of(data, ASKED)


def test_odd_blocks_break_nothing() -> None:
    content = [None, 3, {}, {"type": "text"}, {"type": "text", "text": 3}, {"type": "tool_use"}, {"type": None}]
    response = response_of({"content": content}, ASKED)
    assert response.text == ""
    assert len(response.message.tool_calls) == 1


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        (None, Usage()),
        ({}, Usage()),
        ({"input_tokens": 10, "output_tokens": 2}, Usage(input_tokens=10, output_tokens=2)),
        (
            {
                "input_tokens": 10,
                "output_tokens": 2,
                "cache_read_input_tokens": 100,
                "cache_creation_input_tokens": 30,
                "cache_creation": {"ephemeral_5m_input_tokens": 20, "ephemeral_1h_input_tokens": 10},
                "output_tokens_details": {"thinking_tokens": 1},
            },
            Usage(
                input_tokens=140, output_tokens=2, cache_read_tokens=100, cache_write_tokens=20,
                cache_write_1h_tokens=10, reasoning_tokens=1,
            ),
        ),
        (
            {"input_tokens": 1, "output_tokens": 2, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0},
            Usage(
                input_tokens=1, output_tokens=2, cache_read_tokens=0, cache_write_tokens=0, cache_write_1h_tokens=0
            ),
        ),
        (
            {"input_tokens": 1, "cache_creation": {"ephemeral_5m_input_tokens": 2, "ephemeral_1h_input_tokens": 3}},
            Usage(input_tokens=6, cache_write_tokens=2, cache_write_1h_tokens=3),
        ),
        (
            {"input_tokens": 1, "cache_creation_input_tokens": 5},
            Usage(input_tokens=6, cache_write_tokens=5),
        ),
        ({"input_tokens": "1", "output_tokens": True, "cache_read_input_tokens": -1}, Usage()),
    ],
)  # fmt: skip
def test_usage_holds_the_cache_in_the_input_and_what_is_not_said_is_unknown(usage: Any, expected: Usage) -> None:
    assert usage_of(usage) == expected
