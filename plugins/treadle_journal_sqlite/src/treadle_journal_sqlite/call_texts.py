"""What was asked and answered in the calls of a run, as lines for people."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from treadle import (
    AssistantMessage,
    EmbedRequest,
    JournalEntry,
    MediaPart,
    Message,
    ModelRequest,
    ModelResponse,
    SystemMessage,
    ToolCallPart,
    ToolMessage,
    UserMessage,
)
from treadle.contracts.results import json_value

__all__ = ["CallTexts"]


class CallTexts:
    """The texts of calls, in the order of their entries. What an earlier call of the step has shown is left out."""

    def __init__(self) -> None:
        self._messages: dict[tuple[str, int], tuple[Message, ...]] = {}
        self._results: set[tuple[str, str]] = set()

    def of(self, entry: JournalEntry) -> list[str]:
        """The lines of a call's beginning or of its end."""
        data = entry.data
        if entry.kind == "model_call_started":
            return list(self._asked(entry, data["request"]))
        if entry.kind == "tool_call_started":
            return list(_block("with", _json(data["arguments"])))
        if "error" in data:
            return []  # the note has it
        if entry.kind == "model_call_finished":
            response = data["response"]
            return list(_message(response.message)) if isinstance(response, ModelResponse) else []
        result = data["result"] if isinstance(data["result"], str) else _json(data["result"])
        self._results.add((entry.step, result))
        return list(_block("gave", result))

    def _asked(self, entry: JournalEntry, request: ModelRequest | EmbedRequest) -> Iterator[str]:
        if isinstance(request, EmbedRequest):
            for text in request.inputs:
                yield from _block("input", text)
            return
        key = entry.step, entry.attempt
        before = self._messages.get(key, ())
        self._messages[key] = request.messages
        is_longer = request.messages[: len(before)] == before
        for message in request.messages[len(before) if is_longer else 0 :]:
            if isinstance(message, ToolMessage):
                for result in message.results:
                    if (entry.step, result.content) not in self._results:  # it was never called, or is put otherwise
                        yield from _block(f"to {result.tool_name}", result.content)
            elif not (before and is_longer and isinstance(message, AssistantMessage)):  # the reply before
                yield from _message(message)


def _message(message: SystemMessage | UserMessage | AssistantMessage) -> Iterator[str]:
    if message.text:
        yield from _block(message.role, message.text)
    for part in () if isinstance(message, SystemMessage) else message.parts:
        if isinstance(part, MediaPart):
            yield from _block(message.role, f"[{part.media_type or part.type}{f' at {part.url}' if part.url else ''}]")
        elif isinstance(part, ToolCallPart):
            asked = _json(part.arguments) if part.arguments is not None else part.raw_arguments or ""
            yield from _block(f"asks {part.tool_name}", asked)


def _block(head: str, text: str) -> Iterator[str]:
    """A text behind what it is, its further lines below its first one's beginning."""
    first, *others = text.splitlines() or [""]
    yield f"    {head}: {first}"
    for line in others:
        yield f"        {line}"


def _json(value: Any) -> str:
    return json.dumps(json_value(value), ensure_ascii=False, default=str)
