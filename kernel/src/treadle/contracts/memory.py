"""Conversation memory, and the policies that make room in it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from treadle._dataclasses import dataclass
from treadle.errors import StateError
from treadle.messages import AssistantMessage, Message, ModelRequest, ModelResponse, SystemMessage, ToolMessage

if TYPE_CHECKING:
    from treadle.contracts.step import StepContext

__all__ = ["Conversation", "Group", "Memory", "TokenCounter", "TrimPolicy", "Trimmed", "grouped", "summary_message"]

Group = tuple[Message, ...]
"""Messages that may not be parted: one message, or a call with all of its results."""


def grouped(messages: Sequence[Message]) -> tuple[Group, ...]:
    """The messages in groups. What can be grouped can be sent, as far as calls and results go.

    Every call has one result in the message after it, and there are no other results: vendors refuse anything else
    (https://platform.openai.com/docs/guides/function-calling, https://docs.claude.com/en/docs/build-with-claude/tool-use).

    :raises StateError: a call without its result, or a result without its call, named by the call's id.
    """
    groups: list[Group] = []
    waiting: list[str] = []
    for message in (*messages, None):
        given = [each.call_id for each in message.results] if isinstance(message, ToolMessage) else []
        for call in waiting:
            if given.count(call) != 1 or waiting.count(call) != 1:
                found = "no result" if not given.count(call) else "several results, or shares its id with another"
                raise StateError(f"the tool call '{call}' has {found}; each has one, in the message after it")
        for call in given:
            if call not in waiting:
                raise StateError(f"there is a result of '{call}', which the message before it does not call")
        if isinstance(message, ToolMessage) and waiting:
            groups[-1] += (message,)
        elif isinstance(message, ToolMessage):
            raise StateError("there are tool results without a call")
        elif message is not None:
            groups.append((message,))
        waiting = [each.call_id for each in message.tool_calls] if isinstance(message, AssistantMessage) else []
    return tuple(groups)


def summary_message(summary: str) -> SystemMessage:
    """How a summary is sent, and counted: after the leading system messages."""
    return SystemMessage(text=f"Summary of the conversation so far: {summary}")


class TokenCounter(Protocol):
    """Counts what messages take of a budget."""

    def count(self, messages: Sequence[Message], *, model: str) -> int:
        """Tokens, counted or estimated. Adding a message never lowers the count."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Trimmed:
    """What is left of a conversation, and the summary that stands for what went."""

    groups: tuple[Group, ...]
    summary: str | None = None


class TrimPolicy(Protocol):
    """Makes room in a conversation.

    Under its budget a conversation comes back untouched. The newest user turn always stays, and so do
    leading system messages. What comes back can be sent.
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
        """Drop or fold groups until they fit ``budget`` tokens.

        :param complete: asks the step's model; its cost is the step's.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """A conversation made ready for one turn. ``handle`` is the memory's own."""

    messages: tuple[Message, ...]
    handle: Any = None


class Memory(Protocol):
    """Keeps conversations, in the state or elsewhere."""

    async def begin(
        self,
        ctx: StepContext,
        *,
        key: str,
        system_prompt: str | None,
        turn: Message | None,
        speaker: str | None,
        model: str,
        settings: Mapping[str, Any],
    ) -> Conversation:
        """The conversation under ``key`` with the new turn added, trimmed, ready to be sent.

        :param key: a state path, dotted, without ``state.``; the step sees what is there in ``ctx.state``.
        :param system_prompt: of the step; the conversation's own wins where it has one, except with a speaker.
        :param turn: what the user says now; None where the conversation ends with the user's or a tool's turn.
        :param speaker: who will answer, where several do. The system prompt is then for this turn and is not kept.
        :param model: which will answer: for counting, and for what a trim policy asks.
        :param settings: ``token_budget`` and ``trim_policy`` for this turn, over the conversation's own; ``store``, the
            name under which it is kept across runs. A memory that cannot do what one asks says so.
        :raises StateError: what is kept there is no conversation, or has no room for the turn.
        """
        ...

    def commit(self, ctx: StepContext, conversation: Conversation, reply: Message) -> Mapping[str, Any]:
        """The state writes, by path, that keep the turn and its reply. Called on success only."""
        ...
