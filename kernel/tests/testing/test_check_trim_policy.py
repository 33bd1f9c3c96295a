"""The suite of trim policies passes good ones, and has a sentence for each law that is broken."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import trio

from treadle import ContextLengthError, ModelRequest, SystemMessage, Trimmed, UserMessage
from treadle.testing import check_trim_policy


def messages(groups: Sequence[Any]) -> list[Any]:
    return [message for group in groups for message in group]


class DropTurns:
    """Drops whole turns, the oldest first, and is broken in the way that a test says."""

    async def trim(self, groups: Any, *, budget: int, summary: Any, count: Any, complete: Any) -> Trimmed:
        await trio.lowlevel.checkpoint()
        left = list(groups)
        while count(messages(left)) > budget and (turn := self.oldest(left)):
            del left[turn]
        return Trimmed(groups=tuple(left), summary=summary)

    def oldest(self, groups: Any) -> slice | None:
        lead = next(n for n, group in enumerate(groups) if not isinstance(group[0], SystemMessage))
        users = [n for n, group in enumerate(groups) if isinstance(group[0], UserMessage)]
        return slice(lead, users[1]) if len(users) > 1 else None


class Summarize(DropTurns):
    """Folds what it drops into a summary that the model writes."""

    async def trim(self, groups: Any, *, budget: int, summary: Any, count: Any, complete: Any) -> Trimmed:
        trimmed = await super().trim(groups, budget=budget, summary=summary, count=count, complete=complete)
        if len(trimmed.groups) == len(groups):
            return trimmed
        response = await complete(ModelRequest(model="m", messages=(UserMessage.of("Summarize"),)))
        return Trimmed(groups=trimmed.groups, summary=response.text)


class Refuses(DropTurns):
    """Says so where nothing more can go."""

    async def trim(self, groups: Any, *, budget: int, summary: Any, count: Any, complete: Any) -> Trimmed:
        trimmed = await super().trim(groups, budget=budget, summary=summary, count=count, complete=complete)
        if count(messages(trimmed.groups)) > budget:
            raise ContextLengthError("the conversation does not fit its budget", provider="p")
        return trimmed


async def test_good_policies_pass() -> None:
    for kind in (DropTurns, Summarize, Refuses):
        await check_trim_policy(kind, rounds=60)
        await check_trim_policy(kind, rounds=20, seed=7)


class OffByOne(DropTurns):
    async def trim(self, groups: Any, *, budget: int, **rest: Any) -> Trimmed:
        return await super().trim(groups, budget=budget - 1, **rest)


class ForgetsSummary(DropTurns):
    async def trim(self, groups: Any, **rest: Any) -> Trimmed:
        return await super().trim(groups, **{**rest, "summary": None})


class AlwaysAsks(Summarize):
    async def trim(self, groups: Any, *, complete: Any, **rest: Any) -> Trimmed:
        await complete(ModelRequest(model="m", messages=()))
        return await super().trim(groups, complete=complete, **rest)


class DoesNothing(DropTurns):
    def oldest(self, groups: Any) -> slice | None:
        return None


class DropsOneGroup(DropTurns):
    def oldest(self, groups: Any) -> slice | None:
        turn = super().oldest(groups)
        return turn and slice(turn.start, turn.start + 1)


class DropsInstructions(DropTurns):
    def oldest(self, groups: Any) -> slice | None:
        return slice(0, 1) if len(groups) > 1 else None


class DropsNewest(DropTurns):
    def oldest(self, groups: Any) -> slice | None:
        users = [n for n, group in enumerate(groups) if isinstance(group[0], UserMessage)]
        return slice(users[-1], users[-1] + 1) if len(users) > 1 else None


class After(DropTurns):
    """Does something to what is left, where anything went."""

    async def trim(self, groups: Any, **rest: Any) -> Trimmed:
        trimmed = await super().trim(groups, **rest)
        if len(trimmed.groups) == len(groups):
            return trimmed
        return Trimmed(groups=self.after(trimmed.groups), summary=trimmed.summary)

    def after(self, groups: Any) -> Any:
        raise NotImplementedError


class Parts(After):
    def after(self, groups: Any) -> Any:
        return tuple((message,) for group in groups for message in group)


class MakesUp(After):
    def after(self, groups: Any) -> Any:
        return ((UserMessage.of("earlier..."),), *groups)


class Turns(After):
    def after(self, groups: Any) -> Any:
        return groups[::-1]


class GrowsSummary(Summarize):
    async def trim(self, groups: Any, *, budget: int, summary: Any, count: Any, complete: Any) -> Trimmed:
        trimmed = await DropTurns.trim(self, groups, budget=budget, summary=summary, count=count, complete=complete)
        if len(trimmed.groups) > 3 and len(trimmed.groups) == len(groups):
            return trimmed
        if count(messages(groups)) + 20 < budget or count(messages(groups)) == budget:
            return trimmed
        return Trimmed(groups=trimmed.groups, summary=(summary or "") + "x")


class RefusesAll(DropTurns):
    async def trim(self, groups: Any, *, budget: int, count: Any, **rest: Any) -> Trimmed:
        if count(messages(groups)) > budget:
            raise ContextLengthError("too long", provider="p")
        return await super().trim(groups, budget=budget, count=count, **rest)


class RefusesTransiently(Refuses):
    async def trim(self, groups: Any, **rest: Any) -> Trimmed:
        try:
            return await super().trim(groups, **rest)
        except ContextLengthError as error:
            error.transient = True
            raise


class BreaksOnFailure(Summarize):
    async def trim(self, groups: Any, *, complete: Any, **rest: Any) -> Trimmed:
        async def ask(request: Any) -> Any:
            try:
                return await complete(request)
            except Exception as error:
                raise KeyError("text") from error

        return await super().trim(groups, complete=ask, **rest)


class Swallows(DropTurns):
    async def trim(self, groups: Any, **rest: Any) -> Trimmed:
        try:
            return await super().trim(groups, **rest)
        except trio.Cancelled:
            return Trimmed(groups=tuple(groups))


FAULTS = [
    (OffByOne, "did not come back untouched"),
    (ForgetsSummary, "its summary was lost"),
    (AlwaysAsks, "and the model was asked all the same"),
    (DoesNothing, "tokens are left for a budget of .*, and more could go"),
    (DropsOneGroup, "it now begins with AssistantMessage.*; vendors want a user's turn first"),
    (DropsInstructions, "its leading instructions did not stay"),
    (DropsNewest, "its newest user turn did not stay"),
    (Parts, "a group was parted or changed: AssistantMessage.*; a call and its results stay together"),
    (MakesUp, "a group was made up: UserMessage"),
    (Turns, "its groups came back in another order, or twice"),
    (GrowsSummary, "trimmed a second time, it became another one; trimming must be idempotent"),
    (RefusesAll, "what must stay takes .* tokens, and it was refused: too long"),
    (RefusesTransiently, "a refusal must be permanent and say why"),
    (BreaksOnFailure, "where the model fails, it raised KeyError: 'text'; a TreadleError is wanted"),
    (Swallows, "trim policy 'Swallows' swallowed a cancellation"),
]


@pytest.mark.parametrize(("kind", "sentence"), FAULTS, ids=range(len(FAULTS)))
async def test_each_broken_law_has_its_sentence(kind: Any, sentence: str) -> None:
    with pytest.raises(AssertionError, match=sentence):
        await check_trim_policy(kind)


async def test_the_same_seed_gives_the_same_conversation() -> None:
    said = []
    for _ in range(2):
        with pytest.raises(AssertionError) as caught:
            await check_trim_policy(DoesNothing, seed=3)
        said.append(str(caught.value))
    assert said[0] == said[1]
    assert "of seed 3" in said[0]
