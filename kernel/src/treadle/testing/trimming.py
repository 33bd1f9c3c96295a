"""The suite of trim policies: laws that must hold over conversations made at random, from a seed."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import trio

from treadle.contracts.memory import Group, Trimmed, TrimPolicy, grouped
from treadle.errors import RateLimitError, TreadleError
from treadle.messages import (
    AssistantMessage,
    Message,
    ModelRequest,
    ModelResponse,
    SystemMessage,
    ToolCallPart,
    ToolMessage,
    ToolResultPart,
    UserMessage,
)
from treadle.testing.cancellation import check_cancellation, in_sentences, leaving_nothing
from treadle.testing.doubles import reply

__all__ = ["check_trim_policy"]

_WORDS = ("weather", "Grüße", "世界", "🙂", "\u202eabc", "line\nbreak", "{state.x}", "tomorrow", "a", "…")
_SUMMARY = "They spoke of the weather."
_SLACK = 60
"""Tokens that a summary may take: whether it counts is the policy's affair."""


@in_sentences
async def check_trim_policy(make: Callable[[], TrimPolicy], *, rounds: int = 100, seed: int = 0) -> None:
    """Hold a trim policy to its laws, over conversations with tools, instructions, speakers and summaries.

    - Under its budget a conversation comes back untouched, and the model is not asked.
    - Leading instructions and the newest user turn stay.
    - What comes back can be sent: groups as they were, in their order, the first turn a user's.
    - It is within the budget wherever that can be; where it cannot, nothing is left to drop, or a TreadleError says so.
    - What has been trimmed is not trimmed further.
    - A failure of the model comes out as it is, or is made do without; a cancellation comes out.

    :param make: gives a policy; each conversation has its own.
    :param rounds: how many conversations.
    :param seed: makes other ones. The sentence of a failure names the round, and the same seed gives it again.
    :raises AssertionError: with the law that does not hold.
    """
    policy = f"trim policy '{type(make()).__name__}'"
    cases = [_Case.made(random.Random(f"{seed}.{number}")) for number in range(rounds)]
    async with leaving_nothing(policy):
        for number, case in enumerate(cases):
            what = f"{policy}, conversation {number} of seed {seed}"
            await _check_untouched(make, case, what)
            await _check_trimmed(make, case, what)
            await _check_failing_model(make, case, what)
    case = max(cases, key=lambda each: len(each.groups))
    await check_cancellation(lambda: _trim(make(), case.groups, case.budget, case.summary, _Model()), what=policy)


@dataclass(frozen=True, slots=True)
class _Case:
    groups: tuple[Group, ...]
    budget: int
    summary: str | None

    @classmethod
    def made(cls, random: random.Random) -> _Case:
        """A conversation, a budget below what it takes, and at times a summary of what came before."""
        groups = [*_instructions(random)]
        for number in range(random.randint(1, 8)):
            groups.extend(_turn(random, number))
        groups.append((UserMessage.of(_text(random), name=random.choice((None, "alice"))),))
        whole = _count(_messages(groups))
        kept = _count(_messages(_kept(groups)))
        # Mostly between what must stay and the whole; now and then below what must stay.
        low = 1 if random.random() < 0.15 else min(kept, whole)
        return cls(grouped(_messages(groups)), random.randint(low, whole), _SUMMARY if random.random() < 0.3 else None)


def _instructions(random: random.Random) -> Iterator[Group]:
    for _ in range(random.choice((0, 1, 1, 2))):
        yield (SystemMessage(text=_text(random)),)


def _turn(random: random.Random, number: int) -> Iterator[Group]:
    yield (UserMessage.of(_text(random), name=random.choice((None, "alice", "bob"))),)
    for step in range(random.choice((0, 0, 1, 2))):
        calls = [f"call_{number}_{step}_{each}" for each in range(random.randint(1, 3))]
        parts = tuple(ToolCallPart(call_id=each, tool_name="look_up", arguments={"q": _text(random)}) for each in calls)
        results = tuple(ToolResultPart(call_id=each, tool_name="look_up", content=_text(random)) for each in calls)
        yield (AssistantMessage(parts=parts), ToolMessage(results=results))
    if random.random() < 0.1:
        yield (SystemMessage(text=_text(random)),)
    yield (AssistantMessage.of(_text(random)),)


def _text(random: random.Random) -> str:
    return " ".join(random.choices(_WORDS, k=random.choice((1, 3, 10, 40))))


class _Model:
    """Answers with a short summary, or fails."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.asked: list[ModelRequest] = []
        self._failure = failure

    async def complete(self, request: ModelRequest) -> ModelResponse:
        self.asked.append(request)
        await trio.lowlevel.checkpoint()
        if self._failure is not None:
            raise self._failure
        return reply(_SUMMARY)


async def _trim(
    policy: TrimPolicy, groups: Sequence[Group], budget: int, summary: str | None, model: _Model
) -> Trimmed:
    complete: Callable[[ModelRequest], Awaitable[ModelResponse]] = model.complete
    return await policy.trim(groups, budget=budget, summary=summary, count=_count, complete=complete)


async def _check_untouched(make: Callable[[], TrimPolicy], case: _Case, what: str) -> None:
    whole = _count(_messages(case.groups))
    for budget, summary in ((whole, None), (whole + 10 * _SLACK, case.summary)):
        model = _Model()
        try:
            trimmed = await _trim(make(), case.groups, budget, summary, model)
        except TreadleError as error:
            raise AssertionError(f"{what}: it has {whole} of {budget} tokens and was refused: {error}") from error
        if tuple(trimmed.groups) == case.groups and summary is not None and trimmed.summary is None:
            raise AssertionError(f"{what}: its summary was lost; Trimmed(groups, summary) gives back the one it got")
        if tuple(trimmed.groups) != case.groups or trimmed.summary != summary:
            raise AssertionError(f"{what}: it has {whole} of {budget} tokens, and did not come back untouched")
        if model.asked:
            raise AssertionError(f"{what}: it has {whole} of {budget} tokens, and the model was asked all the same")


async def _check_trimmed(make: Callable[[], TrimPolicy], case: _Case, what: str) -> None:
    kept = _count(_messages(_kept(case.groups)))
    try:
        trimmed = await _trim(make(), case.groups, case.budget, case.summary, _Model())
    except TreadleError as error:
        if kept + _SLACK <= case.budget:
            raise AssertionError(
                f"{what}: what must stay takes {kept} of {case.budget} tokens, and it was refused: {error}"
            ) from error
        if error.transient or not error.message:
            raise AssertionError(f"{what}: a refusal must be permanent and say why; it says {str(error)!r}") from error
        return
    _check_sendable(case, trimmed, what)
    left = _count(_messages(trimmed.groups))
    droppable = [each for each in trimmed.groups if each not in _kept(case.groups)]
    if left > case.budget and (droppable or kept + _SLACK <= case.budget):
        raise AssertionError(f"{what}: {left} tokens are left for a budget of {case.budget}, and more could go")
    again = await _trim(make(), trimmed.groups, case.budget, trimmed.summary, _Model())
    if (tuple(again.groups), again.summary) != (tuple(trimmed.groups), trimmed.summary):
        raise AssertionError(f"{what}: trimmed a second time, it became another one; trimming must be idempotent")


def _check_sendable(case: _Case, trimmed: Trimmed, what: str) -> None:
    rest = iter(case.groups)
    for group in trimmed.groups:
        if not any(each == group for each in rest):
            if group in case.groups:
                raise AssertionError(f"{what}: its groups came back in another order, or twice")
            inside = any(set(map(id, group)) & set(map(id, each)) for each in case.groups)
            how = "parted or changed" if inside else "made up"
            raise AssertionError(f"{what}: a group was {how}: {_shown(group)}; a call and its results stay together")
    lead = _leading(case.groups)
    if tuple(trimmed.groups[: len(lead)]) != lead:
        raise AssertionError(f"{what}: its leading instructions did not stay")
    if _newest(case.groups) not in trimmed.groups:
        raise AssertionError(f"{what}: its newest user turn did not stay")
    turns = [group for group in trimmed.groups if not isinstance(group[0], SystemMessage)]
    if not isinstance(turns[0][0], UserMessage):
        raise AssertionError(f"{what}: it now begins with {_shown(turns[0])}; vendors want a user's turn first")


async def _check_failing_model(make: Callable[[], TrimPolicy], case: _Case, what: str) -> None:
    failure = RateLimitError("the model is busy", provider="scripted")
    model = _Model(failure)
    try:
        trimmed = await _trim(make(), case.groups, case.budget, case.summary, model)
    except TreadleError as error:
        if model.asked and isinstance(error, RateLimitError) and error is not failure:
            raise AssertionError(f"{what}: the model's failure came out as another error: {error}") from error
    except Exception as error:
        raise AssertionError(
            f"{what}: where the model fails, it raised {type(error).__name__}: {error}; a TreadleError is wanted"
        ) from error
    else:
        if model.asked:
            _check_sendable(case, trimmed, what)


def _count(messages: Sequence[Message]) -> int:
    """A token for four characters, and four for each message."""
    return sum(4 + len(_all_text(each)) // 4 for each in messages)


def _all_text(message: Message) -> str:
    if isinstance(message, SystemMessage):
        return message.text
    if isinstance(message, ToolMessage):
        return "".join(result.content for result in message.results)
    parts: Sequence[Any] = message.parts
    return "".join(str(part.arguments) if isinstance(part, ToolCallPart) else part.text for part in parts)


def _messages(groups: Sequence[Group]) -> list[Message]:
    return [message for group in groups for message in group]


def _leading(groups: Sequence[Group]) -> tuple[Group, ...]:
    count = next((n for n, group in enumerate(groups) if not isinstance(group[0], SystemMessage)), len(groups))
    return tuple(groups[:count])


def _newest(groups: Sequence[Group]) -> Group:
    return next(group for group in reversed(groups) if isinstance(group[0], UserMessage))


def _kept(groups: Sequence[Group]) -> tuple[Group, ...]:
    """What no policy may drop."""
    return (*_leading(groups), _newest(groups))


def _shown(group: Group) -> str:
    return " + ".join(f"{type(message).__name__}({_all_text(message)[:30]!r})" for message in group)
