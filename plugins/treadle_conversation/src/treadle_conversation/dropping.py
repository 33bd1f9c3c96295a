"""The trim policies that drop what is oldest."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence

from treadle import Message, ModelRequest, ModelResponse, Trimmed, UserMessage
from treadle.contracts.memory import Group, summary_message
from treadle_conversation.layout import Layout, messages_of

__all__ = ["DropOldest", "DropPairs"]


class _Drop(ABC):
    async def trim(
        self,
        groups: Sequence[Group],
        *,
        budget: int,
        summary: str | None,
        count: Callable[[Sequence[Message]], int],
        complete: Callable[[ModelRequest], Awaitable[ModelResponse]],
    ) -> Trimmed:
        """Drop as little as is enough; a summary of what went before is kept, and counts."""
        kept = tuple(groups)
        noted = () if summary is None else (summary_message(summary),)
        if count([*messages_of(kept), *noted]) > budget:
            layout = Layout.of(groups)
            for _, kept in layout.cuts(lambda start: self.may_begin(layout.older, start)):
                if count([*messages_of(kept), *noted]) <= budget:
                    break
        return Trimmed(groups=kept, summary=summary)

    @abstractmethod
    def may_begin(self, older: Sequence[Group], start: int) -> bool:
        """Whether the rest may begin with this user's turn."""


class DropOldest(_Drop):
    """Drop the oldest messages until the rest fits and begins with a user's turn."""

    def may_begin(self, older: Sequence[Group], start: int) -> bool:
        """Any will do."""
        return True


class DropPairs(_Drop):
    """Drop the oldest exchanges, each a user's turn, or several in a row, and what was answered."""

    def may_begin(self, older: Sequence[Group], start: int) -> bool:
        """Not one that follows another: both are of one exchange."""
        return not isinstance(older[start - 1][0], UserMessage)
