"""Transcripts: parts, order, JSON and JSONL (B7), and what requests and responses are held to (B6)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

import treadle
from treadle_loop import (
    Citation,
    HostedToolPart,
    Message,
    ModelRequest,
    ModelResponse,
    Origin,
    Source,
    StopReason,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
    Transcript,
    TranscriptError,
    Usage,
    final_text,
    from_jsonl,
    join_text,
    to_jsonl,
)
from treadle_loop.conversations.wire import message_of, sent

CITED = TextPart(text="so", citations=(Citation(url="u", title="t", cited_text="c", start=0, end=2),))
SEARCH = HostedToolPart(kind="web_search", call_id="h", query="q", sources=(Source(url="u", title="t"),), error="e")
THOUGHT = ThinkingPart(text="hm", signature="s", provider="p", model="m", raw={"type": "thinking"})
ORIGIN = Origin(provider="p", api="a", model="m", raw=[{"type": "text", "text": "so"}])


def call(call_id: str = "c1", name: str = "f") -> ToolCallPart:
    return ToolCallPart(id=call_id, tool_name=name, arguments={"a": [1]}, raw_arguments='{"a":[1]}')


def result(call_id: str = "c1", content: str = "ok") -> ToolResultPart:
    return ToolResultPart(call_id=call_id, tool_name="f", content=content)


def whole() -> Transcript:
    transcript = Transcript()
    transcript.add_user_message("hi")
    transcript.add_assistant_message([THOUGHT, CITED, SEARCH, call("c1"), call("c2")], origin=ORIGIN)
    transcript.add_tool_results([result("c2"), result("c1")])
    transcript.add_assistant_message("done")
    return transcript


def test_parts_are_frozen_and_refuse_unknown_fields() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        CITED.text = "x"  # type: ignore[misc]
    with pytest.raises(ValidationError, match="Extra inputs"):
        TextPart(text="x", colour="red")  # type: ignore[call-arg]


def test_results_are_kept_in_the_order_of_the_calls() -> None:
    transcript = whole()
    assert [each.call_id for each in transcript.messages[2].tool_results] == ["c1", "c2"]
    assert [each.role for each in transcript.messages] == ["user", "assistant", "user", "assistant"]
    transcript.check_invariants()


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (["c1"], "no result answers the tool call c2"),
        (["c1", "c1"], "two results answer the same tool call"),
        (["c1", "c2", "c3"], "answers no open tool call: c3"),
    ],
)
def test_results_answer_exactly_the_open_calls(ids: list[str], message: str) -> None:
    transcript = Transcript()
    transcript.add_assistant_message([call("c1"), call("c2")])
    with pytest.raises(TranscriptError, match=message):
        transcript.add_tool_results([result(each) for each in ids])
    assert [each.id for each in transcript.pending_tool_calls()] == ["c1", "c2"]
    assert len(transcript) == 1


def test_results_without_open_calls_are_an_error() -> None:
    with pytest.raises(TranscriptError, match="no open tool calls"):
        Transcript().add_tool_results([result()])
    assert whole().pending_tool_calls() == ()


def test_a_paused_turn_is_extended_and_its_origin_joined() -> None:
    transcript = whole()
    transcript.add_assistant_message("one", origin=ORIGIN)
    made = transcript.extend_last_assistant([TextPart(text="two")], origin=Origin(provider="p", api="a", raw=[2]))
    assert made.text == "one two"
    assert made.origin == Origin(provider="p", api="a", model="m", raw=[*ORIGIN.raw, 2])
    assert transcript.extend_last_assistant([TextPart(text="x")], origin=Origin(provider="q", raw=[])).origin is None


def test_there_must_be_a_turn_to_extend() -> None:
    transcript = Transcript()
    with pytest.raises(TranscriptError, match="no assistant message"):
        transcript.extend_last_assistant([TextPart(text="x")])


def user(*parts: Any) -> Message:
    return Message(role="user", content=parts)


def model(*parts: Any) -> Message:
    return Message(role="assistant", content=parts)


@pytest.mark.parametrize(
    ("messages", "message"),
    [
        ([model(call()), user(TextPart(text="x"))], "message 1 should answer the tool calls before it: c1"),
        ([user(result())], "message 0 has results of tool calls that are not right before it"),
        ([model(call("a")), user(result("b"))], "message 1 has results for b, and the calls before it are a"),
        ([model(call("a")), user(result("a"), result("a"))], "message 1 has results for a, a"),
        ([model(call("a"), call("a"))], "message 0 has two tool calls of one id"),
        ([user(SEARCH)], "message 0 is the user's and has a part of type hosted_tool"),
        ([user(call())], "message 0 is the user's and has a part of type tool_call"),
        ([model(result())], "message 0 is the assistant's and has a tool result"),
        ([model(call("a"))], "the tool calls at the end have no results: a"),
    ],
)
def test_what_no_provider_would_take_is_found(messages: list[Message], message: str) -> None:
    with pytest.raises(TranscriptError, match=message):
        Transcript(messages=messages).check_invariants()


def test_a_transcript_goes_through_json_and_back() -> None:
    transcript = whole()
    assert Transcript.model_validate_json(transcript.model_dump_json()) == transcript


def test_jsonl_is_one_message_a_line_and_back() -> None:
    messages = [*whole().messages, user(TextPart(text="a\u2028b\nc"))]
    text = to_jsonl(messages)
    assert text.count("\n") == len(messages)
    assert from_jsonl(text) == messages
    assert from_jsonl(text.replace("\n", "\n\n  \n")) == messages
    assert from_jsonl(line for line in text.split("\n")) == messages


def test_a_line_that_is_cut_off_is_an_error_and_the_order_of_messages_is_not_looked_at() -> None:
    with pytest.raises(ValueError, match="Invalid JSON"):
        from_jsonl(to_jsonl(whole().messages)[:-20])
    assert len(from_jsonl(to_jsonl([model(call())]))) == 1


def test_the_final_text_is_that_of_the_last_assistant_message_with_any() -> None:
    transcript = whole()
    transcript.add_assistant_message([call()])
    assert final_text(transcript) == "done"
    assert final_text(Transcript()) == ""


@pytest.mark.parametrize(
    ("pieces", "text"),
    [
        (["a", "b"], "a b"),
        (["a ", "b"], "a b"),
        (["a", "\nb"], "a\nb"),
        (["a", ", b"], "a, b"),
        (["a", ".", "b"], "a. b"),
        (["(", "a", ")"], "(a)"),
        (["a", "", "b"], "a b"),
        ([], ""),
    ],
)
def test_texts_are_joined_with_a_space_except_beside_white_space_and_punctuation(pieces: list[str], text: str) -> None:
    assert join_text(pieces) == text


texts = st.text(max_size=20)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | texts, lambda inner: st.lists(inner, max_size=2), max_leaves=4
)
parts = st.one_of(
    st.builds(TextPart, text=texts, citations=st.lists(st.builds(Citation, url=texts), max_size=2).map(tuple)),
    st.builds(ToolCallPart, id=texts, tool_name=texts, arguments=st.dictionaries(texts, json_values, max_size=2)),
    st.builds(ToolCallPart, id=texts, tool_name=texts, raw_arguments=texts, parse_error=texts),
    st.builds(ThinkingPart, text=texts, signature=st.none() | texts, raw=json_values),
    st.builds(HostedToolPart, kind=texts, query=st.none() | texts, error=st.none() | texts),
)
origins = st.none() | st.builds(Origin, provider=texts, api=st.none() | texts, model=st.none() | texts, raw=json_values)
turns = st.builds(Message, role=st.just("assistant"), content=st.lists(parts, max_size=4).map(tuple), origin=origins)


@given(message=turns)
def test_a_turn_goes_through_the_kernels_messages_and_json_unchanged(message: Message) -> None:
    (over,) = sent(message)
    assert message_of(over) == message
    assert Message.model_validate_json(message.model_dump_json()) == message


def test_what_a_provider_attached_to_a_turn_comes_back_to_it_as_it_was() -> None:
    reply = treadle.AssistantMessage(
        parts=(
            treadle.ReasoningPart(text="hm", provider_data={"anthropic": {"signature": "s"}}),
            treadle.TextPart(text="hi", provider_data={"openai": {"id": "x"}}),
        ),
        provider_data={"anthropic": {"content": [{"type": "thinking"}]}},
    )
    kept = Message.model_validate_json(message_of(reply, api="messages", model="m").model_dump_json())
    assert kept.content[0].signature == "s"  # type: ignore[union-attr]
    assert (kept.origin.provider, kept.origin.api, kept.origin.model) == ("anthropic", "messages", "m")  # type: ignore[union-attr]
    assert sent(kept) == (reply,)


def test_text_and_results_in_one_user_message_are_sent_as_two() -> None:
    first, second = sent(user(result(), TextPart(text="and now?")))
    assert isinstance(first, treadle.ToolMessage)
    assert isinstance(second, treadle.UserMessage)


# --- requests and responses ----------------------------------------------------------------------------


@pytest.mark.parametrize("setting", [{"max_tokens": 0}, {"temperature": 2.1}, {"tool_choice": "x"}, {"colour": 1}])
def test_a_request_refuses_what_no_provider_takes(setting: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        ModelRequest(messages=(), **setting)


def test_a_request_has_these_defaults() -> None:
    request = ModelRequest(messages=())
    assert (request.max_tokens, request.temperature, request.tool_choice) == (16_000, None, "auto")
    assert (request.stop_sequences, request.parallel_tool_calls, request.hosted_tools) == ((), None, ())


def test_a_tool_call_stops_for_tools_unless_it_was_cut() -> None:
    assert ModelResponse(content=(call(),), stop_reason=StopReason.END_TURN).stop_reason is StopReason.TOOL_USE
    assert ModelResponse(content=(call(),), stop_reason=StopReason.MAX_TOKENS).stop_reason is StopReason.MAX_TOKENS


def test_a_response_has_content_unless_it_was_cut() -> None:
    with pytest.raises(ValidationError, match="a response has content"):
        ModelResponse(content=())
    assert ModelResponse(content=(), stop_reason=StopReason.MAX_TOKENS).text == ""


def test_the_stop_reasons_are_these() -> None:
    assert {str(each) for each in StopReason} == {
        "end_turn",
        "tool_use",
        "max_tokens",
        "stop_sequence",
        "refusal",
        "error",
        "paused",
        "unknown",
    }


def test_usage_that_was_not_reported_is_none_and_a_sum_is_known_where_both_sides_are() -> None:
    assert Usage().input_tokens is None
    both = Usage(input_tokens=1, output_tokens=2) + Usage(input_tokens=3)
    assert (both.input_tokens, both.output_tokens, both.cost_usd) == (4, None, None)


def test_a_reply_of_nothing_is_unreadable_and_a_refusal_of_nothing_a_refusal() -> None:
    from treadle_loop import ResponseInvalid
    from treadle_loop.conversations.wire import as_response

    def reply(stop: StopReason) -> treadle.ModelResponse:
        return treadle.ModelResponse(
            message=treadle.AssistantMessage(parts=()), stop_reason=stop, model="m", provider="p"
        )

    with pytest.raises(ResponseInvalid, match="answered with nothing at all"):
        as_response(reply(StopReason.END_TURN))
    assert as_response(reply(StopReason.REFUSAL)).text == ""
    assert as_response(reply(StopReason.MAX_TOKENS)).content == ()


def test_cache_hit_rate_counts_what_the_provider_says_is_in_the_input() -> None:
    from treadle_loop import ConversationStatus, ConversationSummary

    def rate(**usage: Any) -> float | None:
        return ConversationSummary(status=ConversationStatus.COMPLETED, usage=Usage(**usage)).cache_hit_rate

    assert rate(input_tokens=100, cache_read_tokens=25, input_includes_cached=True) == 0.25
    assert rate(input_tokens=50, cache_read_tokens=25, cache_write_tokens=25, input_includes_cached=False) == 0.25
    assert rate(input_tokens=100) is None
    assert rate(input_tokens=0, cache_read_tokens=0, input_includes_cached=True) is None
