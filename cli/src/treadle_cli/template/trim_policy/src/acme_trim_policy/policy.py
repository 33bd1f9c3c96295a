"""The trim policy ``my_trim_policy``."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from treadle import Message, ModelRequest, ModelResponse, SystemMessage, Trimmed, UserMessage
from treadle.contracts.memory import Group

__all__ = ["AcmeTrimPolicy"]


class AcmeTrimPolicy:
    """Keep the newest turns that fit.

    Leading system messages and everything from the newest user turn on always stay, whatever the budget. A group is
    one message, or a call of tools with all its results: it stays whole or goes whole.
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
        """Drop the oldest turns until the rest takes at most ``budget`` tokens. The summary is handed on as it is."""
        head, middle, tail = _parts(groups)
        while middle and count([message for group in (*head, *middle, *tail) for message in group]) > budget:
            # A conversation goes on with a user's turn: what answers a turn goes with it.
            del middle[0]
            while middle and not isinstance(middle[0][0], UserMessage):
                del middle[0]
        return Trimmed(groups=(*head, *middle, *tail), summary=summary)


def _parts(groups: Sequence[Group]) -> tuple[list[Group], list[Group], list[Group]]:
    """What stays at the beginning, what may go, what stays at the end."""
    start = 0
    while start < len(groups) and isinstance(groups[start][0], SystemMessage):
        start += 1
    newest = max((index for index, group in enumerate(groups) if isinstance(group[0], UserMessage)), default=start)
    newest = max(newest, start)
    return list(groups[:start]), list(groups[start:newest]), list(groups[newest:])
