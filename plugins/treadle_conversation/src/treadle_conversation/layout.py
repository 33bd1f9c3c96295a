"""What of a conversation must stay when room is made, and where it may be cut."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from treadle import Message, SystemMessage, UserMessage
from treadle.contracts.memory import Group

__all__ = ["Layout", "messages_of"]


@dataclass(frozen=True, slots=True)
class Layout:
    """A conversation in the four parts that matter for making room in it.

    :param lead: the leading system messages, which stay.
    :param older: what came before the newest user turn.
    :param newest: the newest user turn, which stays, or nothing.
    :param work: what came after it, such as calls of tools. The last of it is what is to be answered, and stays.
    """

    lead: tuple[Group, ...]
    older: tuple[Group, ...]
    newest: tuple[Group, ...]
    work: tuple[Group, ...]

    @classmethod
    def of(cls, groups: Sequence[Group]) -> Layout:
        """The layout of a whole conversation."""
        begins = next((n for n, group in enumerate(groups) if not isinstance(group[0], SystemMessage)), len(groups))
        newest = next((n for n in reversed(range(begins, len(groups))) if isinstance(groups[n][0], UserMessage)), None)
        if newest is None:
            return cls(tuple(groups[:begins]), (), (), tuple(groups[begins:]))
        return cls(
            tuple(groups[:begins]),
            tuple(groups[begins:newest]),
            (groups[newest],),
            tuple(groups[newest + 1 :]),
        )

    @property
    def needed(self) -> tuple[Group, ...]:
        """What stays whatever the policy: the instructions, the newest user turn and what is to be answered."""
        return (*self.lead, *self.newest, *self.work[-1:])

    def cuts(self, may_begin: Callable[[int], bool]) -> Iterator[tuple[tuple[Group, ...], tuple[Group, ...]]]:
        """Ways to cut, mildest first, as what goes and what stays.

        What stays begins with a user's turn, as vendors want it. Where cutting older turns is not enough, the work
        after the newest user turn is cut at whole groups, oldest first.

        :param may_begin: whether what is left of ``older`` may begin with the group of that number, a user's turn.
        """
        for start in range(1, len(self.older) + 1):
            if start == len(self.older) or (isinstance(self.older[start][0], UserMessage) and may_begin(start)):
                yield self.older[:start], (*self.lead, *self.older[start:], *self.newest, *self.work)
        for start in range(1, len(self.work)):
            if not self.newest and isinstance(self.work[start][0], SystemMessage):
                continue  # it would come to stand among the leading ones, and stay for ever
            yield (*self.older, *self.work[:start]), (*self.lead, *self.newest, *self.work[start:])


def messages_of(groups: Sequence[Group]) -> list[Message]:
    """The messages of the groups, in their order."""
    return [message for group in groups for message in group]
