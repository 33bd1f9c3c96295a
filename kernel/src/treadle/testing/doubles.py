"""Stand-ins for what a plugin meets in a run: providers, an observer, a journal."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager
from typing import Any, ClassVar

from treadle.contracts.events import RunEvent
from treadle.contracts.journal import Journal, JournalEntry
from treadle.contracts.provider import Features, Provider
from treadle.messages import (
    AssistantMessage,
    Completed,
    ModelRequest,
    ModelResponse,
    StopReason,
    StreamEvent,
    TextDelta,
    Usage,
    UserMessage,
)

__all__ = [
    "EchoProvider",
    "MemoryJournal",
    "RecordingObserver",
    "Reply",
    "ScriptedProvider",
    "reply",
    "scripted",
]

Reply = str | ModelResponse | Exception
"""A text, a whole response, or an error to raise."""


def reply(text: str, **fields: Any) -> ModelResponse:
    """A response of one text, with a plausible usage unless ``usage`` is given."""
    defaults: dict[str, Any] = {
        "message": AssistantMessage.of(text),
        "stop_reason": StopReason.END_TURN,
        "finish_reason": "stop",
        "usage": Usage(input_tokens=7, output_tokens=len(text.split())),
        "model": "scripted-1",
        "provider": "scripted",
    }
    return ModelResponse(**{**defaults, **fields})


class _Double(Provider):
    """Answers without a network. Everything is declared, so that a request is refused only by what is tested."""

    features = Features(
        streaming=True, tools=True, tool_choice=True, output_schemas=True, json_objects=True, reasoning=True
    )

    def default_model(self) -> str | None:
        """A model, so that documents need not name one."""
        return "scripted-1"

    def known_cost(self, response_model: str) -> float | None:
        """Nothing."""
        return 0.0

    @asynccontextmanager
    async def exchange(self, request: ModelRequest) -> AsyncIterator[AsyncIterator[StreamEvent]]:
        """Answer, word by word where the request is streamed."""
        answer = self.answer(request)
        if isinstance(answer, Exception):
            raise answer
        response = reply(answer) if isinstance(answer, str) else answer
        async with aclosing(_events(response, streamed=request.stream)) as events:
            yield events

    def answer(self, request: ModelRequest) -> Reply:
        """What to answer."""
        raise NotImplementedError


class EchoProvider(_Double):
    """Answers with the text of the last user turn."""

    def answer(self, request: ModelRequest) -> Reply:
        """The last user turn."""
        return next((each.text for each in reversed(request.messages) if isinstance(each, UserMessage)), "")


class ScriptedProvider(_Double):
    """Answers from a list, in order, and keeps every request. Made by :func:`scripted`."""

    script: ClassVar[list[Reply]]
    requests: ClassVar[list[ModelRequest]]

    def answer(self, request: ModelRequest) -> Reply:
        """The next line of the script."""
        self.requests.append(request)
        if not self.script:
            raise AssertionError(f"the script is at its end, and step '{request.key}' asks for more")
        return self.script.pop(0)


def scripted(*replies: Reply) -> type[ScriptedProvider]:
    """A provider class that gives the replies in order; its ``requests`` are those it was asked."""
    return type("Scripted", (ScriptedProvider,), {"script": list(replies), "requests": []})


class RecordingObserver:
    """Keeps every event, in order."""

    def __init__(self) -> None:
        self.events: list[RunEvent] = []

    async def observe(self, event: RunEvent) -> None:
        """Keep it."""
        self.events.append(event)

    def kinds(self) -> list[str]:
        """The names of the events' types, in order."""
        return [type(event).__name__ for event in self.events]


class MemoryJournal(Journal):
    """Keeps every entry of every run in ``all``, in the order in which they were appended."""

    def __init__(self) -> None:
        self.all: list[JournalEntry] = []
        self.closed = False

    def append(self, entry: JournalEntry) -> None:
        """Keep it."""
        if self.closed:
            raise AssertionError(f"'{entry.kind}' of run '{entry.run_id}' was appended after the journal was closed")
        self.all.append(entry)

    def entries(self, run_id: str) -> Iterator[JournalEntry]:
        """Those of one run."""
        return iter([entry for entry in self.all if entry.run_id == run_id])

    def close(self) -> None:
        """Take no more."""
        self.closed = True


async def _events(response: ModelResponse, *, streamed: bool) -> AsyncGenerator[StreamEvent, None]:
    if streamed:
        for index, word in enumerate(response.text.split(" ")):
            yield TextDelta(word if index == 0 else f" {word}")
    yield Completed(response)
