"""The memory ``acme_chat_files``."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from treadle import Conversation, Message, StateError, StepContext, SystemMessage, UserMessage
from treadle.contracts.memory import grouped
from treadle.messages import ToolMessage, dump, load

__all__ = ["ChatFiles"]

FOLDER = Path("chats")


class ChatFiles:
    """Keeps the conversation ``KEY`` in ``chats/KEY.json``, which the next run goes on with.

    It keeps all that was said: an agent's ``token_budget`` holds for what is sent.
    """

    def __init__(self, folder: Path = FOLDER) -> None:
        self._folder = folder

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
        """What the file has, and the new turn. The file is not touched."""
        if "store" in settings:
            raise StateError(
                "acme_chat_files keeps every conversation across runs by its key", hint="leave out 'store'"
            )
        path = self._folder / f"{key}.json"
        kept = _read(path)
        own = [] if system_prompt is None else [SystemMessage(text=system_prompt)]
        if speaker is None and not (kept and isinstance(kept[0], SystemMessage)):
            kept, own = [*own, *kept], []
        if turn is not None:
            kept.append(turn)
        if not kept or not isinstance(kept[-1], UserMessage | ToolMessage):
            raise StateError(f"{path} has no turn to answer", hint="give the step a prompt")
        sent = await _trimmed(ctx, kept, model, settings)
        return Conversation(messages=(*(own if speaker else ()), *sent), handle=(path, kept))

    def commit(self, ctx: StepContext, conversation: Conversation, reply: Message) -> Mapping[str, Any]:
        """Put a new file in place of the old one. There is nothing to write to the state."""
        path, kept = conversation.handle
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_suffix(".new")
        new.write_text(json.dumps([dump(each) for each in (*kept, reply)], indent=1), encoding="utf-8")
        new.replace(path)
        return {}


async def _trimmed(
    ctx: StepContext, messages: Sequence[Message], model: str, settings: Mapping[str, Any]
) -> Sequence[Message]:
    budget = settings.get("token_budget")
    if budget is None:
        return messages
    counter = ctx.role("token_counter")
    policy = ctx.role("trim_policy", settings.get("trim_policy", "drop_oldest"))
    trimmed = await policy.trim(
        grouped(messages),
        budget=budget,
        summary=None,
        count=lambda some: counter.count(some, model=model),
        complete=ctx.complete,
    )
    return [message for group in trimmed.groups for message in group]


def _read(path: Path) -> list[Message]:
    try:
        return [load(Message, each) for each in json.loads(path.read_text(encoding="utf-8"))]
    except FileNotFoundError:
        return []
    except ValueError as error:
        raise StateError(f"{path} holds no conversation: {error}", hint="move it away to begin anew") from error
