"""Tokens, roughly."""

from __future__ import annotations

import json
from collections.abc import Sequence

from treadle import AssistantMessage, Message, SystemMessage, ToolMessage

__all__ = ["Estimate"]

_CHARACTERS = 4
_FOR_A_MESSAGE = 4
"""For its role, and what a vendor puts around it."""


class Estimate:
    """The token counter ``estimate``: a token for four characters, four for each message, and its speaker's name.

    The same for every model. Pictures and reasoning, which are not kept in a conversation, count nothing.
    """

    def count(self, messages: Sequence[Message], *, model: str) -> int:
        """Tokens of the messages, each rounded up."""
        return sum(_FOR_A_MESSAGE + -(-_length(each) // _CHARACTERS) for each in messages)


def _length(message: Message) -> int:
    if isinstance(message, SystemMessage):
        return len(message.text)
    if isinstance(message, ToolMessage):
        return sum(len(each.content) + len(each.tool_name) for each in message.results)
    length = len(message.text) + len(message.name or "")
    if isinstance(message, AssistantMessage):
        for call in message.tool_calls:
            arguments = json.dumps(dict(call.arguments or {}), ensure_ascii=False, default=str)
            length += len(call.tool_name) + len(arguments)
    return length
