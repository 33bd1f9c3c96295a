"""Messages put into the turns that the Messages API takes. Pure.

The API's rules (https://docs.anthropic.com/en/api/messages,
https://platform.claude.com/docs/en/agents-and-tools/tool-use/handle-tool-calls), which any history must come to
keep, whoever wrote it:

1. Turns of ``user`` and ``assistant`` alternate, and the first is a user's.
2. A turn with ``tool_use`` is followed by a user turn that begins with a ``tool_result`` for each of them; a
   result stands nowhere else.
3. No text block is empty or blank, no turn is without a block, no turn ends with a thinking block, and the last
   turn, where it is the assistant's, does not end in white space.
4. Ids of tool calls hold letters, digits, ``_`` and ``-``, and no two calls share one.

What is done to keep them: neighbours of one role become one turn; **a system message goes to the end of the
``system`` prompt, wherever it stood**, as instructions must not sink to the rank of what a user says; a result
that belongs to no call becomes text; a call that nobody answered gets a result that says so.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from treadle.errors import UnsupportedError
from treadle.messages import (
    AssistantMessage,
    AssistantPart,
    MediaPart,
    Message,
    ReasoningPart,
    SystemMessage,
    TextPart,
    ToolCallPart,
    ToolMessage,
    ToolResultPart,
    UserMessage,
)

__all__ = ["API", "THINKING", "Conversation", "conversation_of", "media_refusal", "prefixed"]

API = "anthropic"
"""Under which name parts keep what only this API understands, whatever a deployment calls the provider."""

THINKING = ("thinking", "redacted_thinking")

_IMAGES = ("image/gif", "image/jpeg", "image/png", "image/webp")
_NOTHING = "(nothing)"
"""Stands where the API wants a text and there is none."""
_UNANSWERED = "This call was not carried out; nothing is known of its result."
_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")


@dataclass(slots=True)
class Conversation:
    """What a request says.

    :param system: the texts of the system prompt.
    :param turns: the ``messages`` of the request.
    """

    system: list[str] = field(default_factory=list)
    turns: list[dict[str, Any]] = field(default_factory=list)

    def blocks(self, *kinds: str) -> Iterator[dict[str, Any]]:
        """Every block of these types."""
        for turn in self.turns:
            yield from (block for block in turn["content"] if block.get("type") in kinds)

    def answers_without_thinking(self) -> bool:
        """Whether it ends in a tool loop whose calls were not thought about: then nothing else may be.

        "When thinking is enabled, a final assistant message must start with a thinking block (preceding the
        lastmost set of tool_use and tool_result blocks)."
        """
        if len(self.turns) < 2 or self.turns[-1]["role"] != "user":
            return False
        loops = self.turns[-1]["content"][0].get("type") == "tool_result"
        return loops and self.turns[-2]["content"][0].get("type") not in THINKING


def conversation_of(messages: Sequence[Message], *, provider: str, with_thinking: bool = True) -> Conversation:
    """The turns for these messages.

    :param with_thinking: False leaves the thinking blocks of earlier turns out.
    :raises UnsupportedError: an attachment is of a kind that the API does not take.
    """
    builder = _Builder(provider, with_thinking)
    for message in messages:
        if isinstance(message, SystemMessage):
            builder.system(message)
        elif isinstance(message, UserMessage):
            builder.user(message)
        elif isinstance(message, AssistantMessage):
            builder.assistant(message)
        else:
            builder.results(message)
    return builder.finished()


class _Builder:
    def __init__(self, provider: str, with_thinking: bool) -> None:
        self._provider = provider
        self._with_thinking = with_thinking
        self._conversation = Conversation()
        self._open: dict[str, str] = {}  # the calls that wait for their result: our id, the wire's
        self._results: dict[str, dict[str, Any]] = {}
        self._said: list[dict[str, Any]] = []
        self._taken: set[str] = set()

    def system(self, message: SystemMessage) -> None:
        if message.text.strip():
            self._conversation.system.append(message.text)

    def user(self, message: UserMessage) -> None:
        blocks = [
            _text(part.text) if isinstance(part, TextPart) else _media(part, self._provider)
            for part in message.parts
            if not isinstance(part, TextPart) or part.text.strip()
        ]
        self._said.extend(prefixed(blocks or [_text(_NOTHING)], message.name))

    def results(self, message: ToolMessage) -> None:
        for result in message.results:
            wire_id = self._open.get(result.call_id)
            content = list(self._content(result))
            if wire_id is None or wire_id in self._results:  # nobody asked, or it was answered before
                self._said.append(_text(f"Result of {result.tool_name or 'a tool'}:"))
                self._said.extend(content or [_text(_NOTHING)])
                continue
            block: dict[str, Any] = {"type": "tool_result", "tool_use_id": wire_id}
            if len(content) == 1 and content[0]["type"] == "text":
                block["content"] = content[0]["text"]
            elif content:
                block["content"] = content
            if result.is_error:
                block["is_error"] = True
            self._results[wire_id] = block

    def assistant(self, message: AssistantMessage) -> None:
        asked: dict[str, str] = {}
        blocks = [block for part in message.parts for block in self._blocks(part, asked)]
        if not blocks:
            return
        self._close_user_turn()
        self._open = asked
        self._turn("assistant", prefixed(blocks, message.name))

    def finished(self) -> Conversation:
        self._close_user_turn()
        turns = self._conversation.turns
        for turn in turns:
            content = turn["content"]
            while turn["role"] == "assistant" and content and content[-1].get("type") in THINKING:
                content.pop()
        self._conversation.turns = []
        for turn in turns:
            if turn["content"]:
                self._turn(turn["role"], turn["content"])
        turns = self._conversation.turns
        if not turns or turns[0]["role"] == "assistant":
            turns.insert(0, {"role": "user", "content": [_text(_NOTHING)]})
        last = turns[-1]["content"][-1]
        if turns[-1]["role"] == "assistant" and last.get("type") == "text":
            turns[-1]["content"][-1] = {**last, "text": last["text"].rstrip()}
        return self._conversation

    def _close_user_turn(self) -> None:
        content: list[dict[str, Any]] = []
        for wire_id in self._open.values():
            unanswered = {"type": "tool_result", "tool_use_id": wire_id, "content": _UNANSWERED, "is_error": True}
            content.append(self._results.get(wire_id, unanswered))
        content.extend(self._said)
        if content:
            self._turn("user", content)
        self._open, self._results, self._said = {}, {}, []

    def _turn(self, role: str, content: Iterable[dict[str, Any]]) -> None:
        turns = self._conversation.turns
        if turns and turns[-1]["role"] == role:
            turns[-1]["content"].extend(content)
        else:
            turns.append({"role": role, "content": list(content)})

    def _blocks(self, part: AssistantPart, asked: dict[str, str]) -> Iterator[dict[str, Any]]:
        kept = part.provider_data.get(API)
        if isinstance(part, ToolCallPart):
            yield self._call(part, kept if isinstance(kept, Mapping) else {}, asked)
        elif isinstance(part, ReasoningPart) and not self._with_thinking:
            return
        elif isinstance(kept, list | tuple):
            yield from (dict(block) for block in kept)
        elif isinstance(part, TextPart) and part.text.strip():
            yield _text(part.text)

    def _call(self, call: ToolCallPart, extra: Mapping[str, Any], asked: dict[str, str]) -> dict[str, Any]:
        wire_id = call.call_id if _ID.fullmatch(call.call_id) else _made_id(call.call_id)
        stem, n = wire_id[:56], 2
        while wire_id in self._taken:  # servers that number the calls of every reply from 0
            wire_id, n = f"{stem}_{n}", n + 1
        self._taken.add(wire_id)
        call_id = call.call_id
        while call_id in asked:  # a second call of one id in one turn: it can have no result of its own
            call_id += "\0"
        asked[call_id] = wire_id
        # What was no JSON object goes back as the API's pages say: the model sees what it wrote.
        given: Any = {"INVALID_JSON": call.raw_arguments or ""} if call.arguments is None else dict(call.arguments)
        return {**extra, "type": "tool_use", "id": wire_id, "name": call.tool_name, "input": given}

    def _content(self, result: ToolResultPart) -> Iterator[dict[str, Any]]:
        if result.content.strip():
            yield _text(result.content)
        for media in result.media:
            yield _media(media, self._provider)


def prefixed(blocks: Sequence[dict[str, Any]], name: str | None) -> list[dict[str, Any]]:
    """The blocks of a turn with its speaker before the first text: ``[alice] ``."""
    if not name:
        return list(blocks)
    for place, block in enumerate(blocks):
        if block.get("type") == "text":
            return [*blocks[:place], {**block, "text": f"[{name}] {block['text']}"}, *blocks[place + 1 :]]
    return [_text(f"[{name}]"), *blocks] if blocks[0].get("type") in ("image", "document") else list(blocks)


def _made_id(call_id: str) -> str:
    """Another vendor's id as this API takes it: the same each time, and no other's."""
    return "toolu_" + hashlib.sha256(call_id.encode("utf-8", "replace")).hexdigest()[:24]


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def media_refusal(media: MediaPart) -> str | None:
    """Why an attachment cannot be sent, beyond what the provider's features say; None where it can."""
    if media.type == "image" and media.data is not None and media.media_type not in _IMAGES:
        return f"Anthropic takes {', '.join(_IMAGES)}, not {media.media_type}"
    if media.type == "pdf" and media.data is not None and media.media_type != "application/pdf":
        return f"Anthropic takes a pdf as application/pdf, not {media.media_type}"
    return None


def _media(media: MediaPart, provider: str) -> dict[str, Any]:
    refusal = media_refusal(media)
    if media.type == "audio" or (media.type == "pdf" and media.data is None):
        refusal = f"Anthropic takes no attachments of type {media.type}{' by URL' if media.data is None else ''}"
    if refusal:
        raise UnsupportedError(refusal, provider=provider)
    block: dict[str, Any] = {"type": "document" if media.type == "pdf" else "image"}
    if media.data is None:
        block["source"] = {"type": "url", "url": media.url}
    else:
        encoded = base64.b64encode(media.data).decode("ascii")
        block["source"] = {"type": "base64", "media_type": media.media_type, "data": encoded}
    return block
