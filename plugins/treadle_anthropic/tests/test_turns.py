"""Any history comes to keep the rules of the Messages API."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.errors import UnsupportedError
from treadle.messages import (
    AssistantMessage,
    HostedToolPart,
    MediaPart,
    Message,
    ReasoningPart,
    SystemMessage,
    TextPart,
    ToolCallPart,
    ToolMessage,
    ToolResultPart,
    UserMessage,
)
from treadle_anthropic.turns import THINKING, Conversation, conversation_of

PNG = MediaPart(type="image", media_type="image/png", data=b"png")


def turns_of(*messages: Message, **options: Any) -> list[dict[str, Any]]:
    return conversation_of(messages, provider="anthropic", **options).turns


def call(call_id: str = "a", name: str = "look", **arguments: Any) -> ToolCallPart:
    return ToolCallPart(call_id=call_id, tool_name=name, arguments=arguments)


def result(call_id: str = "a", content: str = "found", **fields: Any) -> ToolResultPart:
    return ToolResultPart(call_id=call_id, tool_name="look", content=content, **fields)


def thought(text: str = "hm", kind: str = "thinking") -> ReasoningPart:
    block = {"type": kind, "thinking": text, "signature": "sig"}
    return ReasoningPart(text=text, provider_data={"anthropic": [block]})


# --- the law ----------------------------------------------------------------------------------------

_TEXTS = st.sampled_from(["", " ", "\n", "hello", "two words ", "é🙂"])
_NAMES = st.sampled_from([None, "alice"])
_IDS = st.sampled_from(["", "a", "b", "call:1", "x" * 80, "toolu_1"])
_USER_PARTS = st.lists(st.one_of(_TEXTS.map(lambda text: TextPart(text=text)), st.just(PNG)), max_size=3)
_HOSTED = HostedToolPart(
    tool="web_search",
    provider_data={"anthropic": [{"type": "server_tool_use", "id": "srv", "name": "web_search", "input": {}}]},
)
_ASSISTANT_PARTS = st.lists(
    st.one_of(
        _TEXTS.map(lambda text: TextPart(text=text)),
        _IDS.map(call),
        st.sampled_from([thought(), thought(kind="redacted_thinking"), ReasoningPart(text="of another vendor")]),
        st.just(_HOSTED),
    ),
    max_size=4,
)
_RESULTS = st.lists(
    st.builds(result, _IDS, _TEXTS, is_error=st.booleans(), media=st.sampled_from([(), (PNG,)])), max_size=3
)
_MESSAGES = st.lists(
    st.one_of(
        _TEXTS.map(lambda text: SystemMessage(text=text)),
        st.builds(lambda parts, name: UserMessage(parts=tuple(parts), name=name), _USER_PARTS, _NAMES),
        st.builds(lambda parts, name: AssistantMessage(parts=tuple(parts), name=name), _ASSISTANT_PARTS, _NAMES),
        _RESULTS.map(lambda results: ToolMessage(results=tuple(results))),
    ),
    max_size=8,
)


@given(_MESSAGES, st.booleans())
def test_any_history_keeps_the_rules(messages: list[Message], with_thinking: bool) -> None:
    conversation = conversation_of(messages, provider="anthropic", with_thinking=with_thinking)
    turns = conversation.turns
    assert [turn["role"] for turn in turns] == [("user", "assistant")[n % 2] for n in range(len(turns))]
    assert turns
    assert all(text.strip() for text in conversation.system)
    ids: set[str] = set()
    for before, turn in zip([{"content": []}, *turns], turns, strict=False):
        content = turn["content"]
        assert content
        assert all(block["text"].strip() for block in content if block["type"] == "text")
        kinds = [block["type"] for block in content]
        asked = [block["id"] for block in before["content"] if block["type"] == "tool_use"]
        answered = [block["tool_use_id"] for block in content if block["type"] == "tool_result"]
        assert asked == answered
        assert kinds[: len(answered)] == ["tool_result"] * len(answered)
        if turn["role"] == "assistant":
            assert kinds[-1] not in THINKING
            for block in content:
                if block["type"] == "tool_use":
                    assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", block["id"])
                    assert block["id"] not in ids
                    ids.add(block["id"])
    if not with_thinking:
        assert not any(conversation.blocks(*THINKING))
    last = turns[-1]
    if last["role"] == "assistant":
        assert not any(block["type"] == "tool_use" for block in last["content"])
        if last["content"][-1]["type"] == "text":
            assert last["content"][-1]["text"] == last["content"][-1]["text"].rstrip()


@given(_MESSAGES)
def test_no_text_is_lost_and_the_messages_are_not_changed(messages: list[Message]) -> None:
    before = repr(messages)
    conversation = conversation_of(messages, provider="anthropic")
    assert repr(messages) == before
    shown = repr(conversation.turns)
    for message in messages:
        if isinstance(message, SystemMessage):
            assert not message.text.strip() or message.text in conversation.system
        elif not isinstance(message, ToolMessage):
            assert message.text.strip() == "" or all(
                part.text.rstrip() in shown for part in message.parts if isinstance(part, TextPart)
            )


# --- each rule, seen --------------------------------------------------------------------------------


def test_system_messages_go_to_the_system_prompt_wherever_they_stand() -> None:
    conversation = conversation_of(
        [
            SystemMessage(text="be brief"),
            UserMessage.of("hi"),
            SystemMessage(text="now in French"),
            AssistantMessage.of("ok"),
            SystemMessage(text=" "),
            UserMessage.of("go"),
        ],
        provider="anthropic",
    )
    assert conversation.system == ["be brief", "now in French"]
    assert [turn["role"] for turn in conversation.turns] == ["user", "assistant", "user"]


def test_neighbours_of_one_role_become_one_turn() -> None:
    turns = turns_of(UserMessage.of("a"), UserMessage.of("b"), AssistantMessage.of("c"), AssistantMessage.of("d"))
    assert turns == [
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        {"role": "assistant", "content": [{"type": "text", "text": "c"}, {"type": "text", "text": "d"}]},
    ]


def test_a_speaker_stands_before_the_text_of_the_turn() -> None:
    turns = turns_of(
        UserMessage.of("hi", name="bob"),
        AssistantMessage(parts=(thought(), TextPart(text="yes")), name="alice"),
        UserMessage(parts=(PNG,), name="bob"),
        AssistantMessage.of("no name"),
    )
    assert turns[0]["content"][0]["text"] == "[bob] hi"
    assert [block.get("text") for block in turns[1]["content"]] == [None, "[alice] yes"]
    assert [block.get("text") for block in turns[2]["content"]] == ["[bob]", None]
    assert turns[3]["content"][0]["text"] == "no name"


def test_results_come_first_in_the_order_of_the_calls_and_text_after_them() -> None:
    turns = turns_of(
        UserMessage.of("go"),
        AssistantMessage(parts=(call("a"), call("b"))),
        UserMessage.of("by the way"),
        ToolMessage(results=(result("b", "B", is_error=True), result("a", "A"))),
    )
    assert turns[2]["content"] == [
        {"type": "tool_result", "tool_use_id": "a", "content": "A"},
        {"type": "tool_result", "tool_use_id": "b", "content": "B", "is_error": True},
        {"type": "text", "text": "by the way"},
    ]


def test_what_a_tool_returned_besides_its_text_goes_into_its_result() -> None:
    turns = turns_of(
        UserMessage.of("go"),
        AssistantMessage(parts=(call("a"), call("b"))),
        ToolMessage(results=(result("a", "seen", media=(PNG,)), result("b", " "))),
    )
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "cG5n"}}
    assert turns[2]["content"] == [
        {"type": "tool_result", "tool_use_id": "a", "content": [{"type": "text", "text": "seen"}, image]},
        {"type": "tool_result", "tool_use_id": "b"},
    ]


def test_a_call_that_nobody_answered_gets_a_result_that_says_so() -> None:
    turns = turns_of(UserMessage.of("go"), AssistantMessage(parts=(call("a"),)), UserMessage.of("well?"))
    assert turns[2]["content"] == [
        {
            "type": "tool_result",
            "tool_use_id": "a",
            "content": "This call was not carried out; nothing is known of its result.",
            "is_error": True,
        },
        {"type": "text", "text": "well?"},
    ]


def test_a_result_that_belongs_to_no_call_becomes_text() -> None:
    turns = turns_of(ToolMessage(results=(result("a", "found"),)), AssistantMessage.of("ok"))
    assert turns[0]["content"] == [
        {"type": "text", "text": "Result of look:"},
        {"type": "text", "text": "found"},
    ]


def test_a_history_that_begins_with_the_assistant_or_is_empty_gets_a_first_turn() -> None:
    filler = {"role": "user", "content": [{"type": "text", "text": "(nothing)"}]}
    assert turns_of() == [filler]
    assert turns_of(AssistantMessage.of("hello"))[0] == filler
    assert turns_of(UserMessage.of(" "))[0] == filler


def test_another_vendors_ids_are_made_fit_and_stay_paired() -> None:
    turns = turns_of(
        UserMessage.of("go"),
        AssistantMessage(parts=(call("functions.look:0"),)),
        ToolMessage(results=(result("functions.look:0"),)),
        AssistantMessage(parts=(call("functions.look:0"),)),
        ToolMessage(results=(result("functions.look:0"),)),
    )
    first, second = turns[1]["content"][0]["id"], turns[3]["content"][0]["id"]
    assert re.fullmatch(r"toolu_[0-9a-f]{24}", first)
    assert first != second
    assert (turns[2]["content"][0]["tool_use_id"], turns[4]["content"][0]["tool_use_id"]) == (first, second)


def test_arguments_that_were_no_json_go_back_as_they_were() -> None:
    broken = ToolCallPart(
        call_id="a", tool_name="look", arguments=None, raw_arguments='{"q": ', parse_error="the arguments are not JSON"
    )
    block = turns_of(UserMessage.of("go"), AssistantMessage(parts=(broken,)))[1]["content"][0]
    assert block["input"] == {"INVALID_JSON": '{"q": '}


def test_opaque_blocks_go_back_as_they_came_and_other_vendors_do_not() -> None:
    block = {"type": "thinking", "thinking": "", "signature": "only this"}
    turn = AssistantMessage(
        parts=(
            ReasoningPart(text="kept by us", provider_data={"anthropic": [block]}),
            ReasoningPart(text="theirs", provider_data={"openai": {"id": "rs_1"}}),
            ToolCallPart(
                call_id="a", tool_name="f", arguments={}, provider_data={"anthropic": {"caller": {"type": "direct"}}}
            ),
        )
    )
    content = turns_of(UserMessage.of("go"), turn)[1]["content"]
    assert content == [
        block,
        {"caller": {"type": "direct"}, "type": "tool_use", "id": "a", "name": "f", "input": {}},
    ]
    assert content[0] is not block


def test_a_turn_of_thinking_only_is_left_out() -> None:
    turns = turns_of(UserMessage.of("a"), AssistantMessage(parts=(thought(),)), UserMessage.of("b"))
    assert turns == [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}]


@pytest.mark.parametrize(
    ("media", "source"),
    [
        (MediaPart(type="image", url="https://x/y.png"), {"type": "url", "url": "https://x/y.png"}),
        (
            MediaPart(type="pdf", media_type="application/pdf", data=b"%PDF"),
            {"type": "base64", "media_type": "application/pdf", "data": "JVBERg=="},
        ),
    ],
)
def test_attachments_as_bytes_or_by_url(media: MediaPart, source: dict[str, Any]) -> None:
    (block,) = turns_of(UserMessage(parts=(media,)))[0]["content"]
    assert block == {"type": "document" if media.type == "pdf" else "image", "source": source}


@pytest.mark.parametrize(
    ("media", "says"),
    [
        (MediaPart(type="audio", media_type="audio/wav", data=b"x"), "Anthropic takes no attachments of type audio"),
        (MediaPart(type="pdf", url="https://x/y.pdf"), "Anthropic takes no attachments of type pdf by URL"),
        (
            MediaPart(type="image", media_type="image/bmp", data=b"x"),
            "Anthropic takes image/gif, image/jpeg, image/png, image/webp, not image/bmp",
        ),
    ],
)
def test_attachments_of_other_kinds_are_refused(media: MediaPart, says: str) -> None:
    with pytest.raises(UnsupportedError) as caught:
        turns_of(UserMessage(parts=(media,)))
    assert caught.value.message == says


@pytest.mark.parametrize(
    ("parts", "expected"),
    [((thought(), call()), False), ((TextPart(text="x"), call()), True), ((call(),), True)],
)
def test_a_tool_loop_that_was_not_thought_about_is_known(parts: tuple[Any, ...], expected: bool) -> None:
    messages: list[Message] = [UserMessage.of("go"), AssistantMessage(parts=parts), ToolMessage(results=(result(),))]
    assert conversation_of(messages, provider="anthropic").answers_without_thinking() is expected
    assert Conversation().answers_without_thinking() is False
