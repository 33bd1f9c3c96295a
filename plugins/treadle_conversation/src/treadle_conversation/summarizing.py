"""The trim policy that folds what is oldest into a summary."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator, Sequence

from treadle import (
    AssistantMessage,
    Message,
    ModelRequest,
    ModelResponse,
    ProviderError,
    SystemMessage,
    ToolMessage,
    Trimmed,
    UserMessage,
)
from treadle.contracts.memory import Group, summary_message
from treadle_conversation.layout import Layout, messages_of

__all__ = ["SummarizeOldest", "as_text"]

_TASK = (
    "Summarize the conversation that the user gives you, for a model that goes on with it and has not seen it. Keep "
    "names, numbers, decisions, open questions and what is to be remembered. Answer with the summary alone, in the "
    "language of the conversation, in at most {words} words."
)
_SHARE = 4
"""Turns go until a fourth of what the instructions leave is free for the summary."""
_FEWEST_WORDS = 30


class SummarizeOldest:
    """Fold the oldest turns into the summary, with one call of the step's model.

    Where the call fails, the turns are joined to the summary as plain text. Where the summary takes more room than was
    left to it, everything that may go is folded, with a second call.
    """

    async def trim(
        self,
        groups: Sequence[Group],
        *,
        budget: int,
        summary: str | None,
        count: Callable[[Sequence[Message]], int],
        complete: Callable[[ModelRequest], Awaitable[ModelResponse]],
    ) -> Trimmed:
        """Fold as little as leaves some room to the summary."""

        def size(some: Sequence[Group], noted: str | None) -> int:
            return count([*messages_of(some), *(() if noted is None else (summary_message(noted),))])

        layout = Layout.of(groups)
        cuts = list(layout.cuts(lambda start: True))
        if size(groups, summary) <= budget or not cuts:
            return Trimmed(groups=tuple(groups), summary=summary)
        room = max(size((), summary), (budget - size(layout.lead, None)) // _SHARE)
        folded, kept = next((cut for cut in cuts if size(cut[1], None) + room <= budget), cuts[-1])
        folding = _Folding(complete, room)
        noted = await folding.fold(summary, folded)
        if size(kept, noted) > budget and len(folded) < len(cuts[-1][0]) and not folding.failed:
            noted = await folding.fold(noted, cuts[-1][0][len(folded) :])
            kept = cuts[-1][1]
        return Trimmed(groups=kept, summary=noted)


class _Folding:
    def __init__(self, complete: Callable[[ModelRequest], Awaitable[ModelResponse]], room: int) -> None:
        self._complete = complete
        self._words = max(_FEWEST_WORDS, room * 3 // 4)  # English has some three words for four tokens
        self.failed = False

    async def fold(self, summary: str | None, groups: Sequence[Group]) -> str:
        """The summary with these turns in it: the model's, or where it fails with their text at its end."""
        text = "\n".join((*(() if summary is None else (summary,)), as_text(messages_of(groups))))
        asked = (SystemMessage(text=_TASK.format(words=self._words)), UserMessage.of(text))
        try:
            made = (await self._complete(ModelRequest(model="", messages=asked))).text.strip()
        except ProviderError:
            made = ""
        self.failed = not made
        return made or text


def as_text(messages: Sequence[Message]) -> str:
    """The messages as plain text, each on lines of its own behind its role and its speaker."""
    return "\n".join(line for message in messages for line in _lines(message))


def _lines(message: Message) -> Iterator[str]:
    if isinstance(message, SystemMessage):
        yield f"system: {message.text}"
    elif isinstance(message, ToolMessage):
        for result in message.results:
            yield f"tool {result.tool_name}: {result.content}"
    else:
        calls = message.tool_calls if isinstance(message, AssistantMessage) else ()
        who = f"{message.role} {message.name}" if message.name else message.role
        if message.text or not calls:
            yield f"{who}: {message.text}"
        for call in calls:
            yield f"{who} calls {call.tool_name}: {json.dumps(dict(call.arguments or {}), ensure_ascii=False)}"
