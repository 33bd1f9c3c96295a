"""How a turn begins and what is kept of it: the prompt, the conversation that it goes on with, and its attachments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from treadle import (
    AssistantMessage,
    Conversation,
    MediaPart,
    Memory,
    Message,
    StatePath,
    StepContext,
    SystemMessage,
    UserMessage,
)
from treadle_loop.conversation_field import StoredConversation, conversation_path

__all__ = ["Opening", "open_turn"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """What is sent first, and how the turn is kept when it is over."""

    messages: tuple[Message, ...]
    memory: Memory | None = None
    conversation: Conversation | None = None

    def writes(self, ctx: StepContext, reply: str, *, speaker: str | None = None) -> Mapping[str, Any]:
        """The state writes that keep the turn: none without a conversation. For a turn that succeeded."""
        if self.memory is None or self.conversation is None:
            return {}
        return self.memory.commit(ctx, self.conversation, AssistantMessage.of(reply, name=speaker))


async def open_turn(
    ctx: StepContext,
    *,
    prompt: str | None,
    system_prompt: str | None,
    model: str,
    media: tuple[MediaPart, ...] = (),
    conversation: StatePath | StoredConversation | None = None,
    speaker: str | None = None,
    settings: Mapping[str, Any] | None = None,
) -> Opening:
    """The messages of a turn.

    :param media: goes with this turn's prompt and is not kept.
    :param conversation: where it is kept; None for a turn that stands alone.
    :param speaker: whose turn it is, where several share it; the system prompt is then for this turn alone.
    :param settings: what the step says about the conversation (``token_budget``, ``trim_policy``), over its own.
    :raises NotInstalledError: nothing keeps conversations here.
    :raises StateError: what stands under the path is no conversation.
    """
    turn = None if prompt is None else UserMessage.of(prompt)
    if conversation is None:
        asked: tuple[Message, ...] = () if system_prompt is None else (SystemMessage(text=system_prompt),)
        return Opening(messages=(*asked, *_with_media(() if turn is None else (turn,), media)))
    memory: Memory = ctx.role("memory")
    said = dict(settings or {})
    if isinstance(conversation, StoredConversation):
        said["store"] = ctx.render(conversation.store)
    (path,) = conversation_path(conversation)
    begun = await memory.begin(
        ctx,
        key=str(path),
        system_prompt=system_prompt,
        turn=turn,
        speaker=speaker,
        model=model,
        settings=said,
    )
    messages = begun.messages if turn is None else _with_media(begun.messages, media)
    return Opening(messages=messages, memory=memory, conversation=begun)


def _with_media(messages: tuple[Message, ...], media: tuple[MediaPart, ...]) -> tuple[Message, ...]:
    """The last message, which is the user's, with its attachments after the text."""
    if not media or not messages or not isinstance(messages[-1], UserMessage):
        return messages
    return (*messages[:-1], replace(messages[-1], parts=(*messages[-1].parts, *media)))
