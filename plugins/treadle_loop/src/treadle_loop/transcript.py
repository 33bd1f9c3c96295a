"""A conversation as people keep it: messages of the roles ``user`` and ``assistant``, made of parts.

Results of tools are parts of a user message; the system prompt is not part of it. Everything is frozen pydantic: a
transcript goes through JSON and back unchanged, and an unknown field is an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from treadle_loop.errors import TranscriptError

__all__ = [
    "Citation",
    "HostedToolPart",
    "Message",
    "Origin",
    "Part",
    "Source",
    "TextPart",
    "ThinkingPart",
    "ToolCallPart",
    "ToolResultPart",
    "Transcript",
    "final_text",
    "from_jsonl",
    "join_text",
    "to_jsonl",
]


class _Value(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Citation(_Value):
    """Where a span of text comes from; ``start`` and ``end`` are character offsets into the part's text."""

    url: str | None = None
    title: str | None = None
    cited_text: str | None = None
    start: int | None = None
    end: int | None = None


class Source(_Value):
    """A page that a hosted tool read."""

    url: str
    title: str | None = None


class Origin(_Value):
    """An assistant message as it came over the wire. It goes back to the same provider and API and to no other."""

    provider: str
    api: str | None = None
    model: str | None = None
    raw: Any = None


class TextPart(_Value):
    """Plain text."""

    type: Literal["text"] = "text"
    text: str
    citations: tuple[Citation, ...] = ()


class ToolCallPart(_Value):
    """The model asks for a tool. With a ``parse_error`` the arguments were not a JSON object; the tool does not run."""

    type: Literal["tool_call"] = "tool_call"
    id: str
    tool_name: str
    arguments: dict[str, Any] = Field(default_factory=dict)
    raw_arguments: str | None = None
    parse_error: str | None = None


class ToolResultPart(_Value):
    """What the model is told of a call."""

    type: Literal["tool_result"] = "tool_result"
    call_id: str
    tool_name: str
    content: str
    is_error: bool = False


class ThinkingPart(_Value):
    """What the model thought. ``signature`` and ``raw`` are the provider's own and go back to it alone."""

    type: Literal["thinking"] = "thinking"
    text: str = ""
    signature: str | None = None
    provider: str | None = None
    model: str | None = None
    raw: Any = None


class HostedToolPart(_Value):
    """A tool that the provider ran itself."""

    type: Literal["hosted_tool"] = "hosted_tool"
    kind: str
    call_id: str | None = None
    query: str | None = None
    sources: tuple[Source, ...] = ()
    error: str | None = None


Part = Annotated[TextPart | ToolCallPart | ToolResultPart | ThinkingPart | HostedToolPart, Field(discriminator="type")]


class Message(_Value):
    """One turn."""

    role: Literal["user", "assistant"]
    content: tuple[Part, ...]
    origin: Origin | None = None

    @property
    def text(self) -> str:
        """Its text parts, as :func:`join_text` joins them."""
        return join_text(part.text for part in self.content if isinstance(part, TextPart))

    @property
    def tool_calls(self) -> tuple[ToolCallPart, ...]:
        """The tools it asks for, in order."""
        return tuple(part for part in self.content if isinstance(part, ToolCallPart))

    @property
    def tool_results(self) -> tuple[ToolResultPart, ...]:
        """The results it carries, in order."""
        return tuple(part for part in self.content if isinstance(part, ToolResultPart))


class Transcript(BaseModel):
    """A conversation, which grows in place."""

    model_config = ConfigDict(extra="forbid")

    messages: list[Message] = Field(default_factory=list)

    def add_user_message(self, content: str | Sequence[TextPart]) -> Message:
        """Speak as the user."""
        return self._add(Message(role="user", content=_parts(content)))

    def add_assistant_message(self, content: str | Sequence[Any], *, origin: Origin | None = None) -> Message:
        """Add a turn of the model."""
        return self._add(Message(role="assistant", content=_parts(content), origin=origin))

    def extend_last_assistant(self, content: Sequence[Any], *, origin: Origin | None = None) -> Message:
        """Continue the model's last turn, which the provider had paused.

        Origins are joined where they are lists of one provider and API; otherwise the turn has none.

        :raises TranscriptError: the last message is not the model's.
        """
        last = self.messages[-1] if self.messages else None
        if last is None or last.role != "assistant":
            raise TranscriptError("there is no assistant message at the end to continue")
        joined = Message(
            role="assistant", content=(*last.content, *content), origin=_joined_origin(last.origin, origin)
        )
        self.messages[-1] = joined
        return joined

    def add_tool_results(self, results: Iterable[ToolResultPart]) -> Message:
        """Answer the open calls: each exactly once. They are kept in the order of the calls.

        :raises TranscriptError: a result is missing, or there twice, or answers no open call.
        """
        given = list(results)
        wanted = [call.id for call in self.pending_tool_calls()]
        by_id = {each.call_id: each for each in given}
        if not wanted:
            raise TranscriptError("there are no open tool calls to answer")
        if len(by_id) != len(given):
            raise TranscriptError("two results answer the same tool call")
        if missing := [call_id for call_id in wanted if call_id not in by_id]:
            raise TranscriptError(f"no result answers the tool call {', '.join(missing)}")
        if strange := [call_id for call_id in by_id if call_id not in set(wanted)]:
            raise TranscriptError(f"a result answers no open tool call: {', '.join(strange)}")
        return self._add(Message(role="user", content=tuple(by_id[call_id] for call_id in wanted)))

    def pending_tool_calls(self) -> tuple[ToolCallPart, ...]:
        """The calls at the end that have no results yet."""
        last = self.messages[-1] if self.messages else None
        return last.tool_calls if last is not None and last.role == "assistant" else ()

    def check_invariants(self) -> None:
        """Whether a provider would take it.

        :raises TranscriptError: results that do not follow their calls, or are not those of the calls; call ids that
            a message has twice; parts in a message of the wrong role; calls left open at the end.
        """
        calls: tuple[str, ...] = ()
        for number, message in enumerate(self.messages):
            _check_parts(number, message)
            results = tuple(part.call_id for part in message.tool_results)
            if sorted(results) != sorted(calls):
                raise TranscriptError(_mismatch(number, calls, results))
            calls = tuple(part.id for part in message.tool_calls)
        if calls:
            raise TranscriptError(f"the tool calls at the end have no results: {', '.join(calls)}")

    def _add(self, message: Message) -> Message:
        self.messages.append(message)
        return message

    def __len__(self) -> int:
        return len(self.messages)


def _parts(content: Any) -> tuple[Any, ...]:
    if isinstance(content, str):
        return (TextPart(text=content),)
    if not isinstance(content, list | tuple):
        raise TypeError(f"a message is a text or a list of parts, not {type(content).__name__}")
    return tuple(content)


def _check_parts(number: int, message: Message) -> None:
    ids = [call.id for call in message.tool_calls]
    if len(set(ids)) != len(ids):
        raise TranscriptError(f"message {number} has two tool calls of one id")
    for part in message.content:
        of_assistant = isinstance(part, ToolCallPart | HostedToolPart | ThinkingPart)
        if of_assistant and message.role != "assistant":
            raise TranscriptError(f"message {number} is the user's and has a part of type {part.type}")
        if isinstance(part, ToolResultPart) and message.role != "user":
            raise TranscriptError(f"message {number} is the assistant's and has a tool result")


def _mismatch(number: int, calls: Sequence[str], results: Sequence[str]) -> str:
    if not calls:
        return f"message {number} has results of tool calls that are not right before it: {', '.join(results)}"
    if not results:
        return f"message {number} should answer the tool calls before it: {', '.join(calls)}"
    return f"message {number} has results for {', '.join(results)}, and the calls before it are {', '.join(calls)}"


def _joined_origin(first: Origin | None, more: Origin | None) -> Origin | None:
    if first is None or more is None or (first.provider, first.api) != (more.provider, more.api):
        return None
    if not isinstance(first.raw, list | tuple) or not isinstance(more.raw, list | tuple):
        return None
    return Origin(provider=first.provider, api=first.api, model=more.model or first.model, raw=[*first.raw, *more.raw])


def final_text(transcript: Transcript) -> str:
    """The text of the last assistant message that has any; empty where none has."""
    for message in reversed(transcript.messages):
        if message.role == "assistant" and (text := message.text):
            return text
    return ""


_NO_SPACE_BEFORE = frozenset(".,;:!?%)]}'\"\u2019\u201d\u2026")
_NO_SPACE_AFTER = frozenset("([{'\"\u2018\u201c")


def join_text(pieces: Iterable[str]) -> str:
    """Pieces of text as one: with a space where two meet, except beside white space and punctuation."""
    made = ""
    for piece in pieces:
        if made and piece and not _meets(made[-1], piece[0]):
            made += " "
        made += piece
    return made


def _meets(left: str, right: str) -> bool:
    return left.isspace() or right.isspace() or right in _NO_SPACE_BEFORE or left in _NO_SPACE_AFTER


def to_jsonl(messages: Iterable[Message]) -> str:
    """One message a line."""
    return "".join(f"{message.model_dump_json()}\n" for message in messages)


def from_jsonl(lines: str | Iterable[str]) -> list[Message]:
    """The messages again. Blank lines are skipped; what the messages say to each other is not checked.

    :raises ValueError: a line is no whole message (pydantic's ValidationError, which is one).
    """
    return [Message.model_validate_json(line) for line in _lines(lines) if line.strip()]


def _lines(lines: str | Iterable[str]) -> Iterator[str]:
    # Not splitlines(): a JSON text may hold U+2028 and the like as they are.
    yield from lines.split("\n") if isinstance(lines, str) else lines
