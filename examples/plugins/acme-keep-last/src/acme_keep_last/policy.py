"""The trim policy ``acme_keep_last``."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from treadle import Message, ModelRequest, ModelResponse, SystemMessage, Trimmed, UserMessage
from treadle.contracts.memory import Group

__all__ = ["AcmeKeepLast"]

KEPT = 3


class AcmeKeepLast:
    """Once a conversation is over its budget, keep its last three exchanges, or as many of them as fit.

    So it is cut rarely and by much, which suits providers that cache the beginning of a conversation.
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
        """Cut where the third-last user turn begins; later, where that is not enough."""
        if _size(groups, count) <= budget:
            return Trimmed(groups=tuple(groups), summary=summary)
        system = next((n for n, group in enumerate(groups) if not isinstance(group[0], SystemMessage)), len(groups))
        turns = [n for n, group in enumerate(groups) if n >= system and isinstance(group[0], UserMessage)]
        if not turns:
            return Trimmed(groups=tuple(groups), summary=summary)
        for start in turns[-KEPT:]:
            kept = (*groups[:system], *groups[start:])
            if _size(kept, count) <= budget:
                break
        return Trimmed(groups=kept, summary=summary)


def _size(groups: Sequence[Group], count: Callable[[Sequence[Message]], int]) -> int:
    return count([message for group in groups for message in group])
