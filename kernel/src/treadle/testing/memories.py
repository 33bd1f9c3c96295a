"""The suite of conversation memories."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

from treadle._engine.state import check_value
from treadle.contracts.memory import Conversation, Memory
from treadle.errors import StateError
from treadle.messages import AssistantMessage, Message, SystemMessage, UserMessage
from treadle.testing.cancellation import check_cancellation, in_sentences, leaving_nothing
from treadle.testing.context import FakeContext

__all__ = ["check_memory"]

_FIRST = "Hello, Grüße, 世界 🙂"
_PROMPT = "Be brief. {state.x} stays as it is."


@in_sentences
async def check_memory(
    make: Callable[[], Memory],
    *,
    settings: Mapping[str, Any] | None = None,
    context: Callable[[Mapping[str, Any]], FakeContext] = FakeContext,
) -> None:
    """Hold a memory to its contract: what is said is kept in order, on success only, each conversation apart.

    :param make: gives a memory; one is used for a whole conversation.
    :param settings: the settings of a step's conversation, as the memory reads them.
    :param context: gives the context of a step over a state, with the roles that the memory needs.
    :raises AssertionError: with what it did, and what the contract says of that.
    """
    what = f"memory '{type(make()).__name__}'"
    chosen = settings or {}
    async with leaving_nothing(what):
        await _check_course(make(), context({}), chosen, what)
        await _check_failed_turn(make(), context({}), chosen, what)
        await _check_apart(make(), context({}), chosen, what)

    async def turn() -> None:
        memory, ctx = make(), context({})
        ctx.apply(memory.commit(ctx, await _begin(memory, ctx, chosen, _FIRST), AssistantMessage.of("Hi.")))
        await _begin(memory, ctx, chosen, "And then?")

    await check_cancellation(turn, what=what)


async def _begin(
    memory: Memory,
    ctx: FakeContext,
    settings: Mapping[str, Any],
    text: str,
    *,
    key: str = "chat",
    system_prompt: str | None = _PROMPT,
) -> Conversation:
    return await memory.begin(
        ctx,
        key=key,
        system_prompt=system_prompt,
        turn=UserMessage.of(text),
        speaker=None,
        model="test-model",
        settings=settings,
    )


def _commit(memory: Memory, ctx: FakeContext, conversation: Conversation, text: str, what: str) -> None:
    before = copy.deepcopy(dict(ctx.state))
    writes = memory.commit(ctx, conversation, AssistantMessage.of(text))
    if dict(ctx.state) != before:
        raise AssertionError(f"{what}: commit() changed the state; it gives back what is to be written")
    for path, value in writes.items():
        try:
            check_value(value, path)
        except StateError as error:
            raise AssertionError(f"{what}: commit() writes what a state cannot hold: {error}") from error
    ctx.apply(writes)


async def _check_course(memory: Memory, ctx: FakeContext, settings: Mapping[str, Any], what: str) -> None:
    first = await _begin(memory, ctx, settings, _FIRST)
    _check_said(first, [_PROMPT, _FIRST], what)
    _commit(memory, ctx, first, "Good day.", what)
    second = await _begin(memory, ctx, settings, "How are you?", system_prompt=None)
    _check_said(second, [_PROMPT, _FIRST, "Good day.", "How are you?"], what)
    _commit(memory, ctx, second, "Well.", what)
    third = await _begin(memory, ctx, settings, "Bye.", system_prompt=None)
    _check_said(third, [_PROMPT, _FIRST, "Good day.", "How are you?", "Well.", "Bye."], what)


async def _check_failed_turn(memory: Memory, ctx: FakeContext, settings: Mapping[str, Any], what: str) -> None:
    before = copy.deepcopy(dict(ctx.state))
    await _begin(memory, ctx, settings, "This turn fails.")
    if dict(ctx.state) != before:
        raise AssertionError(f"{what}: begin() changed the state; only commit() may keep a turn")
    again = await _begin(memory, ctx, settings, _FIRST)
    if any("This turn fails." in _text(each) for each in again.messages):
        raise AssertionError(f"{what} kept a turn that was never committed")


async def _check_apart(memory: Memory, ctx: FakeContext, settings: Mapping[str, Any], what: str) -> None:
    one = await _begin(memory, ctx, settings, "One.", key="one")
    _commit(memory, ctx, one, "First.", what)
    other = await _begin(memory, ctx, settings, "Two.", key="two")
    _check_said(other, [_PROMPT, "Two."], f"{what}, a second conversation")


def _check_said(conversation: Conversation, wanted: list[str], what: str) -> None:
    said = [_text(each) for each in conversation.messages]
    if said != wanted:
        raise AssertionError(f"{what}: the conversation is {said}, and {wanted} was expected")
    if not isinstance(conversation.messages[0], SystemMessage):
        raise AssertionError(f"{what}: the system prompt is a {type(conversation.messages[0]).__name__}")


def _text(message: Message) -> str:
    return message.text if isinstance(message, SystemMessage | UserMessage | AssistantMessage) else repr(message)
