"""What is said to models and what they answer: messages, parts, requests, responses, stream events.

Everything here is frozen, built with keywords, compared by content (ids and times are not content)
and goes through JSON and back unchanged (:func:`dump` and :func:`load`). One shape serves every vendor:

====================  ==============================================  =======================================
here                  OpenAI Chat Completions                         Anthropic Messages
====================  ==============================================  =======================================
SystemMessage         a ``system`` message, anywhere                  the ``system`` parameter
UserMessage           a ``user`` message, its ``name`` as ``name``    a ``user`` message
AssistantMessage      an ``assistant`` message with ``tool_calls``    an ``assistant`` message of blocks
ToolMessage           one ``tool`` message for each result            one ``user`` message of all results
ReasoningPart         dropped (the API does not take it back)         a ``thinking`` block, signature and all
provider_data         what only that vendor understands               e.g. signatures, encrypted reasoning
====================  ==============================================  =======================================

Sources: https://platform.openai.com/docs/api-reference/chat, https://docs.anthropic.com/en/api/messages.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import field, fields, is_dataclass, replace
from enum import StrEnum
from functools import lru_cache
from math import isfinite
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar, dataclass_transform

from treadle._dataclasses import dataclass

if TYPE_CHECKING:
    from pydantic import TypeAdapter

__all__ = [
    "AssistantMessage",
    "AssistantPart",
    "Citation",
    "Completed",
    "EmbedRequest",
    "EmbedResponse",
    "HostedTool",
    "HostedToolPart",
    "MediaPart",
    "Message",
    "ModelRequest",
    "ModelResponse",
    "NamedTool",
    "OutputSchema",
    "Part",
    "Reasoning",
    "ReasoningDelta",
    "ReasoningPart",
    "Source",
    "StopReason",
    "StreamEvent",
    "SystemMessage",
    "TextDelta",
    "TextPart",
    "ToolCallDelta",
    "ToolCallPart",
    "ToolChoice",
    "ToolMessage",
    "ToolResultPart",
    "ToolSpec",
    "Usage",
    "UserMessage",
    "UserPart",
    "dump",
    "load",
]

T = TypeVar("T")


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
def _value(cls: type[T]) -> type[T]:
    """A frozen dataclass that is built with keywords; in JSON, bytes are base64 and a misspelt key is an error."""
    cls.__pydantic_config__ = {"ser_json_bytes": "base64", "val_json_bytes": "base64", "extra": "forbid"}  # type: ignore[attr-defined]  # read by pydantic
    return dataclass(frozen=True, slots=True, kw_only=True)(cls)


# --- parts ------------------------------------------------------------------------------------------


@_value
class Citation:
    """Where a span of text comes from. ``start`` and ``end`` are character offsets into the part's text."""

    url: str | None = None
    title: str | None = None
    cited_text: str | None = None
    start: int | None = None
    end: int | None = None


@_value
class TextPart:
    """Plain text.

    ``provider_data`` here and on the other parts is what one provider attached and must get back byte for
    byte, under the provider's API name (``{"anthropic": {...}}``); no other provider sees it.
    """

    kind: Literal["text"] = "text"
    text: str
    citations: tuple[Citation, ...] = ()
    provider_data: Mapping[str, Any] = field(default_factory=dict)


@_value
class MediaPart:
    """An image, PDF or audio: its bytes, or a URL that the provider fetches itself (exactly one of them).

    ``media_type`` is a MIME type without parameters (RFC 6838), e.g. ``image/png``; None only beside a URL.
    """

    kind: Literal["media"] = "media"
    type: Literal["image", "pdf", "audio"]
    media_type: str | None = None
    data: bytes | None = field(default=None, repr=False)
    url: str | None = None
    provider_data: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if (self.data is None) == (self.url is None):
            raise ValueError("a media part has either data or a url")
        if self.data is not None and not self.media_type:
            raise ValueError("a media part with data needs its media_type")


@_value
class ReasoningPart:
    """What the model thought. ``text`` may be empty where the vendor sends an encrypted block only."""

    kind: Literal["reasoning"] = "reasoning"
    text: str = ""
    provider_data: Mapping[str, Any] = field(default_factory=dict)


@_value
class ToolCallPart:
    """A model asks for a tool.

    ``arguments`` is None exactly where the model's text (``raw_arguments``) was not a JSON object; then
    ``parse_error`` says why, and the tool does not run.
    """

    kind: Literal["tool_call"] = "tool_call"
    call_id: str
    tool_name: str
    arguments: Mapping[str, Any] | None
    raw_arguments: str | None = None
    parse_error: str | None = None
    provider_data: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if (self.arguments is None) != (self.parse_error is not None):
            raise ValueError("a tool call has either arguments or a parse_error")


@_value
class ToolResultPart:
    """What a tool gave back to the model; ``media`` rides along where the provider takes it."""

    kind: Literal["tool_result"] = "tool_result"
    call_id: str
    tool_name: str
    content: str
    is_error: bool = False
    media: tuple[MediaPart, ...] = ()


@_value
class Source:
    """A page that a hosted tool read."""

    url: str
    title: str | None = None


@_value
class HostedToolPart:
    """A tool that the provider ran itself, such as web search."""

    kind: Literal["hosted_tool"] = "hosted_tool"
    tool: str
    call_id: str | None = field(default=None, compare=False)
    query: str | None = None
    sources: tuple[Source, ...] = ()
    error: str | None = None
    provider_data: Mapping[str, Any] = field(default_factory=dict)


UserPart = TextPart | MediaPart
AssistantPart = TextPart | ReasoningPart | ToolCallPart | HostedToolPart
Part = UserPart | AssistantPart | ToolResultPart


# --- messages ---------------------------------------------------------------------------------------


@_value
class SystemMessage:
    """Instructions to the model."""

    role: Literal["system"] = "system"
    text: str


@_value
class UserMessage:
    """A user's turn. ``name`` tells speakers apart where there are several."""

    role: Literal["user"] = "user"
    parts: tuple[UserPart, ...]
    name: str | None = None

    @classmethod
    def of(cls, text: str, *, name: str | None = None) -> UserMessage:
        """A turn of one text."""
        return cls(parts=(TextPart(text=text),), name=name)

    @property
    def text(self) -> str:
        """Its text parts, joined."""
        return _text(self.parts)


@_value
class AssistantMessage:
    """A model's turn.

    ``provider_data`` holds a whole turn as it came over the wire, for a provider that must get it back
    byte for byte; another provider builds the turn from ``parts``.
    """

    role: Literal["assistant"] = "assistant"
    parts: tuple[AssistantPart, ...]
    name: str | None = None
    provider_data: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, text: str, *, name: str | None = None) -> AssistantMessage:
        """A turn of one text."""
        return cls(parts=(TextPart(text=text),), name=name)

    @property
    def text(self) -> str:
        """Its text parts, joined."""
        return _text(self.parts)

    @property
    def reasoning(self) -> str:
        """Its readable reasoning, joined."""
        return "".join(part.text for part in self.parts if isinstance(part, ReasoningPart))

    @property
    def tool_calls(self) -> tuple[ToolCallPart, ...]:
        """The tools it asks for, in order."""
        return tuple(part for part in self.parts if isinstance(part, ToolCallPart))


@_value
class ToolMessage:
    """The results of every call of the assistant message before it, in the order of the calls."""

    role: Literal["tool"] = "tool"
    results: tuple[ToolResultPart, ...]


Message = SystemMessage | UserMessage | AssistantMessage | ToolMessage


def _text(parts: tuple[Any, ...]) -> str:
    if len(parts) == 1 and isinstance(parts[0], TextPart):
        return parts[0].text
    return "".join(part.text for part in parts if isinstance(part, TextPart))


# --- requests ---------------------------------------------------------------------------------------


@_value
class ToolSpec:
    """A tool as the model sees it. ``parameters`` is a JSON Schema whose root is an object."""

    name: str
    description: str = ""
    parameters: Mapping[str, Any] = field(default_factory=lambda: {"type": "object", "properties": {}})


@_value
class NamedTool:
    """A tool choice that names the one tool to call."""

    name: str


ToolChoice = Literal["auto", "none", "required"] | NamedTool


@_value
class HostedTool:
    """A tool that the provider is to run itself, e.g. ``web_search`` with its options."""

    tool: str
    options: Mapping[str, Any] = field(default_factory=dict)


@_value
class OutputSchema:
    """The shape a reply must have. ``schema`` is None where any JSON object will do."""

    name: str
    schema: Mapping[str, Any] | None = None
    strict: bool = True
    description: str | None = None


@_value
class Reasoning:
    """How much the model is to think. ``budget_tokens`` and ``level`` apply where a vendor takes them."""

    budget_tokens: int | None = None
    level: Literal["low", "medium", "high"] | None = None
    capture: bool = True


@_value
class ModelRequest:
    """One call of a model.

    :param key: under which the call is recorded and journalled: the step's id, ``<step>::summarize``,
        ``<step>::<tool>#<n>``. Not part of the request's content.
    :param max_tokens: the reply's limit in tokens; None leaves it to the provider.
    :param temperature: sent as given; None leaves it to the provider.
    :param stream: whether the reply is wanted as it is written.
    :param provider_options: settings that only one provider knows, under its name.
    """

    model: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    tool_choice: ToolChoice = "auto"
    parallel_tool_calls: bool | None = None
    hosted_tools: tuple[HostedTool, ...] = ()
    output: OutputSchema | None = None
    reasoning: Reasoning | None = None
    temperature: float | None = None
    max_tokens: int | None = None
    stop_sequences: tuple[str, ...] = ()
    stream: bool = False
    provider_options: Mapping[str, Any] = field(default_factory=dict)
    key: str = field(default="", compare=False)


@_value
class EmbedRequest:
    """Texts to turn into vectors, and how long each vector is to be (None: the model's own length)."""

    model: str
    inputs: tuple[str, ...]
    dimensions: int | None = None
    key: str = field(default="", compare=False)


# --- responses --------------------------------------------------------------------------------------


class StopReason(StrEnum):
    """Why a model stopped, in one vocabulary for every vendor. A value we do not know is ``UNKNOWN``."""

    END_TURN = "end_turn"
    TOOL_USE = "tool_use"
    MAX_TOKENS = "max_tokens"
    STOP_SEQUENCE = "stop_sequence"
    REFUSAL = "refusal"
    PAUSED = "paused"
    ERROR = "error"
    UNKNOWN = "unknown"


@_value
class Usage:
    """Tokens of one call or of several. None means that the provider did not say; it is never zero.

    ``input_tokens`` is everything that was read, ``cache_read_tokens``, ``cache_write_tokens`` and
    ``cache_write_1h_tokens`` included; ``output_tokens`` is everything that was written,
    ``reasoning_tokens`` included. Every token counts as read, written to a cache for the usual time, written to one
    for an hour, or none of these: the three do not overlap. Providers convert, as vendors differ in what they include.

    Adding keeps that meaning: a sum is known where both sides are. ``Usage.ZERO`` is the neutral element.
    """

    ZERO: ClassVar[Usage]

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    cache_write_1h_tokens: int | None = None
    reasoning_tokens: int | None = None

    @property
    def total_tokens(self) -> int | None:
        """Read plus written, None where either is unknown."""
        if self.input_tokens is None or self.output_tokens is None:
            return None
        return self.input_tokens + self.output_tokens

    def __add__(self, other: Usage) -> Usage:
        if self == Usage.ZERO:
            return other
        if other == Usage.ZERO:
            return self
        return Usage(
            **{
                each.name: None if mine is None or theirs is None else mine + theirs
                for each in fields(Usage)
                for mine, theirs in [(getattr(self, each.name), getattr(other, each.name))]
            }
        )


Usage.ZERO = Usage(
    input_tokens=0,
    output_tokens=0,
    cache_read_tokens=0,
    cache_write_tokens=0,
    cache_write_1h_tokens=0,
    reasoning_tokens=0,
)


@_value
class ModelResponse:
    """What a model answered.

    :param finish_reason: the provider's own word for why it stopped, untranslated (``stop``, ``STOP``).
    :param model: the model that answered, which may be a dated form of the one asked for.
    :param provider: the provider's name in this run.
    :param cost_usd: filled in by the gateway from price sources; None means unknown, never free.
    :param warnings: what the run's owner should know, such as a setting that the model does not take.
    """

    message: AssistantMessage
    stop_reason: StopReason
    finish_reason: str | None = None
    usage: Usage = field(default_factory=Usage)
    model: str
    provider: str
    cost_usd: float | None = None
    warnings: tuple[str, ...] = ()
    request_id: str | None = field(default=None, compare=False)

    @property
    def text(self) -> str:
        """The reply's text."""
        return self.message.text

    def with_cost(self, cost_usd: float | None) -> ModelResponse:
        """The same response, priced."""
        return replace(self, cost_usd=cost_usd)


@_value
class EmbedResponse:
    """One vector for each input, in the order of the inputs."""

    vectors: tuple[tuple[float, ...], ...]
    usage: Usage = field(default_factory=Usage)
    model: str
    provider: str
    cost_usd: float | None = None
    warnings: tuple[str, ...] = ()


# --- stream events ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TextDelta:
    """More of the reply's text."""

    text: str


@dataclass(frozen=True, slots=True)
class ReasoningDelta:
    """More of the reply's readable reasoning."""

    text: str


@_value
class ToolCallDelta:
    """More of a tool call: ``arguments`` is a fragment of its JSON text. ``index`` tells calls apart."""

    index: int
    call_id: str | None = None
    tool_name: str | None = None
    arguments: str = ""


@dataclass(frozen=True, slots=True)
class Completed:
    """The whole response. Always the last event of an exchange, and the only one of a plain reply."""

    response: ModelResponse


StreamEvent = TextDelta | ReasoningDelta | ToolCallDelta | Completed


# --- JSON -------------------------------------------------------------------------------------------


@lru_cache(maxsize=64)
def _adapter(shape: Any) -> TypeAdapter[Any]:
    from typing import Annotated

    from pydantic import Field, TypeAdapter

    discriminator = {Message: "role", Part: "kind"}.get(shape)
    return TypeAdapter(Annotated[shape, Field(discriminator=discriminator)] if discriminator else shape)


def dump(value: Any) -> Any:
    """A message, part, request, response or usage as plain JSON data.

    As pydantic's serializer has it, which takes longer to be made than all that one run of a workflow has to dump.

    :raises ValueError: something in it is no JSON, or it contains itself.
    """
    try:
        return _plain(value)
    except RecursionError:
        raise ValueError("nested too deeply, or it contains itself") from None


_SAME = frozenset({str, int, bool, type(None)})


_NAMES: dict[type, tuple[str, ...]] = {}
"""The fields of the classes of this module."""


def _plain(value: Any) -> Any:
    kind = type(value)
    names = _NAMES.get(kind)
    if names is not None:
        return {name: item if type(item := getattr(value, name)) in _SAME else _plain(item) for name in names}
    if kind in _SAME:
        return value
    if kind is tuple or kind is list:
        return [item if type(item) in _SAME else _plain(item) for item in value]
    if kind is dict:
        if all(type(key) is str for key in value):
            return {key: item if type(item) in _SAME else _plain(item) for key, item in value.items()}
    elif kind is bytes:
        return urlsafe_b64encode(value).decode("ascii")
    elif kind is float:
        if isfinite(value):
            return value
    elif kind is StopReason:
        return value.value
    elif kind.__module__ == __name__ and is_dataclass(kind):
        _NAMES[kind] = tuple(each.name for each in fields(kind))
        return _plain(value)
    return _adapter(Any).dump_python(value, mode="json")


def load(shape: type[T] | Any, data: Any) -> T:
    """Plain JSON data back as ``shape``: a class of this module, ``Message`` or ``Part``.

    :raises ValueError: where the data does not have that shape (pydantic's ValidationError, which is one).
    """
    wanted: Any = shape
    loaded: T = _adapter(wanted).validate_python(data)
    return loaded
