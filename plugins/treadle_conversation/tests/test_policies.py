"""The laws of trim policies, over conversations made at random, and what each policy does of its own."""

from __future__ import annotations

import string
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from treadle import (
    AssistantMessage,
    Message,
    ModelRequest,
    ModelResponse,
    RateLimitError,
    SystemMessage,
    ToolCallPart,
    ToolMessage,
    ToolResultPart,
    Trimmed,
    UserMessage,
)
from treadle.contracts.memory import Group, grouped, summary_message
from treadle.testing import reply
from treadle_conversation.dropping import DropOldest, DropPairs
from treadle_conversation.estimate import Estimate
from treadle_conversation.layout import Layout, messages_of
from treadle_conversation.summarizing import SummarizeOldest, as_text

POLICIES = [DropOldest, DropPairs, SummarizeOldest]
SAID = "They met."

texts = st.text(st.characters(codec="utf-8"), max_size=60) | st.text(string.ascii_letters, max_size=200)
names = st.none() | st.sampled_from(["alice", "bob"])


@st.composite
def calls(draw: st.DrawFn) -> tuple[Message, ...]:
    """A call of up to three tools and all of its results."""
    ids = [f"c{n}" for n in range(draw(st.integers(1, 3)))]
    parts = tuple(ToolCallPart(call_id=each, tool_name="look", arguments={"q": draw(texts)}) for each in ids)
    results = tuple(ToolResultPart(call_id=each, tool_name="look", content=draw(texts)) for each in ids)
    return AssistantMessage(parts=parts, name=draw(names)), ToolMessage(results=results)


users = st.builds(UserMessage.of, texts, name=names).map(lambda each: (each,))
assistants = st.builds(AssistantMessage.of, texts, name=names).map(lambda each: (each,))
systems = st.builds(SystemMessage, text=texts).map(lambda each: (each,))
conversations = st.tuples(
    st.lists(systems, max_size=2),
    st.lists(users | assistants | calls() | systems, max_size=12),
    st.one_of(users, calls()),
).map(lambda parts: (*parts[0], *parts[1], parts[2]))
summaries = st.none() | texts.filter(bool)


def count(messages: Sequence[Message]) -> int:
    return Estimate().count(messages, model="m")


def size(groups: Sequence[Group], summary: str | None = None) -> int:
    return count([*messages_of(groups), *(() if summary is None else (summary_message(summary),))])


def trim(
    policy: Any, groups: Sequence[Group], budget: int, summary: str | None = None, answer: str | Exception = SAID
) -> tuple[Trimmed, list[ModelRequest]]:
    asked: list[ModelRequest] = []

    async def complete(request: ModelRequest) -> ModelResponse:
        asked.append(request)
        if isinstance(answer, Exception):
            raise answer
        return reply(answer)

    async def main() -> Trimmed:
        return await policy().trim(groups, budget=budget, summary=summary, count=count, complete=complete)

    return trio.run(main), asked


every = pytest.mark.parametrize("policy", POLICIES)


@every
@given(groups=conversations, summary=summaries, more=st.integers(0, 50))
def test_under_its_budget_a_conversation_is_not_touched(
    policy: Any, groups: tuple[Group, ...], summary: str | None, more: int
) -> None:
    trimmed, asked = trim(policy, groups, size(groups, summary) + more, summary)
    assert len(trimmed.groups) == len(groups)
    assert all(mine is theirs for mine, theirs in zip(trimmed.groups, groups, strict=True))
    assert (trimmed.summary, asked) == (summary, [])


@every
@given(groups=conversations, summary=summaries, data=st.data())
@settings(max_examples=200)
def test_over_its_budget_what_is_left_can_be_sent_and_fits_wherever_it_can(
    policy: Any, groups: tuple[Group, ...], summary: str | None, data: st.DataObject
) -> None:
    budget = data.draw(st.integers(1, max(1, size(groups, summary) - 1)))
    trimmed, _ = trim(policy, groups, budget, summary)
    before, after = Layout.of(groups), Layout.of(trimmed.groups)

    places = [next(n for n, each in enumerate(groups) if each is group) for group in trimmed.groups]
    assert places == sorted(places), "groups stay whole and in their order"
    assert grouped(messages_of(trimmed.groups)) == trimmed.groups
    assert after.lead == before.lead
    assert after.newest == before.newest
    assert after.work[-1:] == before.work[-1:], "what is to be answered stays"
    if len(trimmed.groups) < len(groups) and after.newest:
        rest = trimmed.groups[len(after.lead) :]
        assert isinstance(rest[0][0], UserMessage)

    fits = size(trimmed.groups, trimmed.summary) <= budget
    assert fits or trimmed.groups == before.needed, "it fits, or nothing is left that may go"

    again, asked = trim(policy, trimmed.groups, budget, trimmed.summary)
    assert again == trimmed, "what has been trimmed is not trimmed further"
    assert asked == []


@given(groups=conversations, summary=summaries, data=st.data())
def test_a_model_that_fails_is_asked_once_and_nothing_is_lost(
    groups: tuple[Group, ...], summary: str | None, data: st.DataObject
) -> None:
    budget = data.draw(st.integers(1, max(1, size(groups, summary))))
    failure = RateLimitError("busy", provider="p")
    trimmed, asked = trim(SummarizeOldest, groups, budget, summary, failure)
    assert len(asked) <= 1
    gone = [group for group in groups if not any(group is each for each in trimmed.groups)]
    if gone:
        assert trimmed.summary == "\n".join([*([summary] if summary else []), as_text(messages_of(gone))])
    else:
        assert trimmed.summary == summary


@given(groups=conversations, summary=summaries, answer=texts, data=st.data())
def test_a_summary_however_long_takes_two_calls_at_most(
    groups: tuple[Group, ...], summary: str | None, answer: str, data: st.DataObject
) -> None:
    budget = data.draw(st.integers(1, max(1, size(groups, summary))))
    trimmed, asked = trim(SummarizeOldest, groups, budget, summary, answer)
    assert len(asked) <= 2
    fits = size(trimmed.groups, trimmed.summary) <= budget
    assert fits or not answer.strip() or trimmed.groups == Layout.of(groups).needed


@given(st.lists(conversations.map(messages_of), min_size=1, max_size=3))
def test_the_estimate_never_falls_when_a_message_is_added(some: list[list[Message]]) -> None:
    messages = [each for part in some for each in part]
    counts = [count(messages[:n]) for n in range(len(messages) + 1)]
    assert counts == sorted(counts)
    assert counts[0] == 0


@pytest.mark.parametrize(
    ("message", "tokens"),
    [
        (UserMessage.of(""), 4),
        (UserMessage.of("abcd"), 5),
        (UserMessage.of("abcde"), 6),
        (AssistantMessage.of("abcd", name="bob!"), 6),
        (SystemMessage(text="x" * 400), 104),
        (AssistantMessage(parts=(ToolCallPart(call_id="c", tool_name="look", arguments={}),)), 6),
        (ToolMessage(results=(ToolResultPart(call_id="c", tool_name="look", content="seen"),)), 6),
    ],
)
def test_a_token_is_four_characters_and_a_message_takes_four_besides(message: Message, tokens: int) -> None:
    assert count([message]) == tokens


def shown(trimmed: Trimmed) -> str:
    return " ".join(each.text for each in messages_of(trimmed.groups) if not isinstance(each, ToolMessage))


def talk(line: str) -> tuple[Group, ...]:
    """``Sx`` is a system message, ``Ux`` a user's, ``Ax`` an assistant's."""
    make: dict[str, Callable[[str], Message]] = {
        "S": lambda text: SystemMessage(text=text),
        "U": UserMessage.of,
        "A": AssistantMessage.of,
    }
    return tuple((make[word[0]](word),) for word in line.split())


@pytest.mark.parametrize(
    ("policy", "line", "messages", "left"),
    [
        (DropOldest, "S0 U1 A2 U3 A4 U5", 4, "S0 U3 A4 U5"),
        (DropOldest, "S0 U1 A2 U3 A4 U5", 5, "S0 U3 A4 U5"),  # it would else begin with an answer
        (DropOldest, "U1 U2 A3 U4", 3, "U2 A3 U4"),
        (DropPairs, "U1 U2 A3 U4", 3, "U4"),
        (DropPairs, "S0 U1 A2 A3 U4 A5 U6", 5, "S0 U4 A5 U6"),
        (DropOldest, "A1 U2 A3 U4", 3, "U2 A3 U4"),
        (DropPairs, "A1 U2 A3 U4", 3, "U2 A3 U4"),
        (DropOldest, "U1 S2 A3 U4", 2, "U4"),
        (DropOldest, "S0 U1", 1, "S0 U1"),
    ],
)
def test_as_little_goes_as_is_enough(policy: Any, line: str, messages: int, left: str) -> None:
    trimmed, _ = trim(policy, talk(line), messages * 5)
    assert shown(trimmed) == left


def test_the_model_is_asked_with_the_summary_the_roles_the_speakers_and_the_tools() -> None:
    call = ToolCallPart(call_id="c", tool_name="look", arguments={"at": "ü"})
    result = ToolResultPart(call_id="c", tool_name="look", content="seen")
    groups: tuple[Group, ...] = (
        (UserMessage.of("Look. " * 30),),
        (AssistantMessage(parts=(call,), name="bob"), ToolMessage(results=(result,))),
        (SystemMessage(text="Be kind."),),
        (AssistantMessage.of("I saw it."),),
        (UserMessage.of("And?"),),
    )
    _, (request,) = trim(SummarizeOldest, groups, 60, "Earlier.")
    instructions, text = request.messages
    assert isinstance(instructions, SystemMessage)
    assert isinstance(text, UserMessage)
    assert text.text == "\n".join(
        (
            "Earlier.",
            f"user: {'Look. ' * 30}",
            'assistant bob calls look: {"at": "ü"}',
            "tool look: seen",
            "system: Be kind.",
            "assistant: I saw it.",
        )
    )


def test_a_cancelled_summary_stays_cancelled() -> None:
    async def never(request: ModelRequest) -> ModelResponse:
        await trio.sleep_forever()
        raise AssertionError

    async def main() -> bool:
        with trio.move_on_after(0.01) as scope:
            complete: Callable[[ModelRequest], Awaitable[ModelResponse]] = never
            await SummarizeOldest().trim(talk("U1 A2 U3"), budget=5, summary=None, count=count, complete=complete)
        return scope.cancelled_caught

    assert trio.run(main)
