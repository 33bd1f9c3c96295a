"""Conversations as they are written: every form is read, what is wrong is told with its place."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle import AssistantMessage, StateError, SystemMessage, ToolMessage, UserMessage
from treadle_conversation.kept import Entry, Kept

USER = {"role": "user", "content": "Hi"}


def asks(*ids: str, **more: Any) -> dict[str, Any]:
    calls = [{"id": each, "name": f"do_{each}", "arguments": {"n": 1}} for each in ids]
    return {"role": "assistant", "content": None, "tool_calls": calls, **more}


def result(call: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call, "content": f"did {call}"}


def test_results_that_are_written_apart_are_one_message_in_the_order_of_the_calls() -> None:
    messages = [USER, asks("a", "b"), result("b"), result("a")]
    kept = Kept.read(messages, "state.chat")
    _, (asked, given) = kept.groups
    assert isinstance(asked, AssistantMessage)
    assert isinstance(given, ToolMessage)
    assert [(each.call_id, each.tool_name) for each in given.results] == [("a", "do_a"), ("b", "do_b")]
    assert kept.value() == {"messages": messages}, "they are written back as they were"


def test_arguments_may_be_the_text_of_an_object() -> None:
    call = {"id": "a", "name": "look", "arguments": '{"at": "x"}'}
    kept = Kept.read([{"role": "assistant", "content": "", "tool_calls": [call]}, result("a")], "state.chat")
    ((asked, _),) = kept.groups
    assert isinstance(asked, AssistantMessage)
    assert asked.tool_calls[0].arguments == {"at": "x"}


def test_keys_of_the_writers_own_stay() -> None:
    chat = {"messages": [{**USER, "at": "noon"}], "title": "mine", "token_budget": 5}
    assert Kept.read(chat, "state.chat").value() == chat


@pytest.mark.parametrize(
    ("chat", "error"),
    [
        (
            "hello",
            (
                "state.chat is no conversation but text; it is a list of messages, or a mapping with messages, "
                "token_budget, trim_policy and summary"
            ),
        ),
        (
            5,
            (
                "state.chat is no conversation but a number; it is a list of messages, or a mapping with messages, "
                "token_budget, trim_policy and summary"
            ),
        ),
        ({"mesages": []}, "state.chat: unknown key 'mesages' of a conversation; did you mean 'messages'?"),
        ({"messages": "hi"}, "state.chat.messages must be a list of messages, not text"),
        ({"token_budget": "many"}, "state.chat.token_budget must be a whole number above 0, not 'many'"),
        ({"token_budget": True}, "state.chat.token_budget must be a whole number above 0, not True"),
        ({"token_budget": 0}, "state.chat.token_budget must be a whole number above 0, not 0"),
        ({"trim_policy": 5}, "state.chat.trim_policy must be text, not a number"),
        ({"summary": []}, "state.chat.summary must be text, not a list"),
        (["hi"], "state.chat[0] must be a message {role: ..., content: ...}, not text"),
        ([USER, {"content": "x"}], "state.chat[1] has no role; a role is system, user, assistant or tool"),
        (
            {"messages": [{"role": "bot", "content": "x"}]},
            "state.chat.messages[0] has the role 'bot'; a role is system, user, assistant or tool",
        ),
        ([{"role": "user"}], "state.chat[0].content is missing"),
        ([{"role": "user", "content": None}], "state.chat[0].content is missing"),
        ([{"role": "user", "content": ["x"]}], "state.chat[0].content must be text, not a list"),
        ([{**USER, "name": 5}], "state.chat[0].name must be text, not a number"),
        ([{**USER, "tool_calls": [{}]}], "state.chat[0]: only an assistant has tool_calls"),
        (
            [{"role": "assistant", "tool_calls": [{"id": "a", "function": {"name": "x"}}]}],
            (
                "state.chat[0].tool_calls[0] needs an id and the name of a tool; "
                "a call is {id: ..., name: ..., arguments: {...}}"
            ),
        ),
        (
            [{"role": "assistant", "tool_calls": [{"id": "a", "name": "x", "arguments": "{"}]}],
            (
                "state.chat[0].tool_calls[0].arguments is text that is not JSON; "
                "a call is {id: ..., name: ..., arguments: {...}}"
            ),
        ),
        (
            [{"role": "assistant", "tool_calls": [{"id": "a", "name": "x", "arguments": [1]}]}],
            (
                "state.chat[0].tool_calls[0].arguments must be a mapping, not a list; "
                "a call is {id: ..., name: ..., arguments: {...}}"
            ),
        ),
        (
            [{"role": "assistant", "tool_calls": {"id": "a"}}],
            "state.chat[0].tool_calls must be a list, not a mapping; a call is {id: ..., name: ..., arguments: {...}}",
        ),
        ([{"role": "tool", "content": "x"}], "state.chat[0] needs the tool_call_id of the call that it is a result of"),
        (
            [USER, asks("a", "b"), result("a")],
            "state.chat: the tool call 'b' has no result; each has one, in the message after it",
        ),
        (
            [asks("a"), USER, result("a")],
            "state.chat: the tool call 'a' has no result; each has one, in the message after it",
        ),
        ([USER, result("a")], "state.chat: there is a result of 'a', which the message before it does not call"),
        (
            [asks("a"), result("a"), result("a")],
            (
                "state.chat: the tool call 'a' has several results, or shares its id with another; "
                "each has one, in the message after it"
            ),
        ),
        (
            [asks("a", "a"), result("a")],
            (
                "state.chat: the tool call 'a' has several results, or shares its id with another; "
                "each has one, in the message after it"
            ),
        ),
        (
            [asks("a"), result("a"), result("z")],
            "state.chat: there is a result of 'z', which the message before it does not call",
        ),
    ],
)
def test_what_is_wrong_is_told_with_its_place(chat: Any, error: str) -> None:
    with pytest.raises(StateError) as caught:
        Kept.read(chat, "state.chat")
    assert str(caught.value) == error
    assert not caught.value.transient


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(st.sampled_from(["messages", "role", "content", "tool_calls", "summary", "x"]), inner)
        ),
    )
)
def test_whatever_stands_there_is_read_or_refused(chat: Any) -> None:
    with suppress(StateError):
        Kept.read(chat, "state.chat")


NAMES = st.none() | st.sampled_from(["alice", "bob"])
TEXTS = st.text(max_size=20)
MESSAGES = st.lists(
    st.builds(SystemMessage, text=TEXTS)
    | st.builds(UserMessage.of, TEXTS, name=NAMES)
    | st.builds(AssistantMessage.of, TEXTS, name=NAMES)
)


@given(MESSAGES)
def test_what_is_written_reads_as_it_was(messages: list[SystemMessage | UserMessage | AssistantMessage]) -> None:
    kept = Kept(entries=tuple(map(Entry.of, messages)))
    assert Kept.read(kept.value(), "state.chat").groups == kept.groups
