"""Messages in groups: a call is with its results, and what cannot be sent is told."""

from __future__ import annotations

import pytest

from treadle import (
    AssistantMessage,
    Message,
    StateError,
    SystemMessage,
    ToolCallPart,
    ToolMessage,
    ToolResultPart,
    UserMessage,
)
from treadle.contracts.memory import grouped, summary_message

USER = UserMessage.of("Hi")
SAID = AssistantMessage.of("Yes?")


def asks(*ids: str) -> AssistantMessage:
    return AssistantMessage(parts=tuple(ToolCallPart(call_id=each, tool_name="do", arguments={}) for each in ids))


def results(*ids: str) -> ToolMessage:
    return ToolMessage(results=tuple(ToolResultPart(call_id=each, tool_name="do", content="") for each in ids))


def test_a_call_and_all_of_its_results_are_one_group_and_any_other_message_is_another() -> None:
    system = SystemMessage(text="S")
    messages = [system, USER, asks("a", "b"), results("b", "a"), asks("a"), results("a"), SAID, USER]
    assert grouped(messages) == (
        (system,),
        (USER,),
        (asks("a", "b"), results("b", "a")),
        (asks("a"), results("a")),
        (SAID,),
        (USER,),
    )
    assert grouped([]) == ()


@pytest.mark.parametrize(
    ("messages", "error"),
    [
        ([asks("a")], "the tool call 'a' has no result"),
        ([asks("a"), USER, results("a")], "the tool call 'a' has no result"),
        ([asks("a", "b"), results("a")], "the tool call 'b' has no result"),
        ([asks("a"), results("a", "a")], "the tool call 'a' has several results"),
        ([asks("a", "a"), results("a")], "the tool call 'a' has several results, or shares its id"),
        ([asks("a"), results("a", "b")], "there is a result of 'b', which the message before it does not call"),
        ([results("a")], "there is a result of 'a'"),
        ([asks("a"), results("a"), results("a")], "there is a result of 'a'"),
        ([USER, ToolMessage(results=())], "there are tool results without a call"),
    ],
)
def test_what_vendors_refuse_is_refused(messages: list[Message], error: str) -> None:
    with pytest.raises(StateError) as caught:
        grouped(messages)
    assert error in str(caught.value)


def test_a_summary_is_a_system_message() -> None:
    assert summary_message("They met.") == SystemMessage(text="Summary of the conversation so far: They met.")
