"""A reply put together from its JSON objects: many of a stream, or the one of a plain reply. Pure.

https://ai.google.dev/api/generate-content#v1beta.GenerateContentResponse
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from treadle.assembly import ToolCallAssembly
from treadle.errors import ProviderError, ResponseError
from treadle.messages import (
    AssistantMessage,
    EmbedResponse,
    HostedToolPart,
    ModelRequest,
    ModelResponse,
    ReasoningDelta,
    ReasoningPart,
    StopReason,
    StreamEvent,
    TextDelta,
    TextPart,
    Usage,
)
from treadle_google.convert import API_NAME, ignored
from treadle_google.errors import reply_error
from treadle_http.event_stream import EventStream

__all__ = ["GeminiReply", "embed_response", "stop_reason", "usage_of"]

_STOP_REASONS: Mapping[str, StopReason] = {
    "STOP": StopReason.END_TURN,
    "MAX_TOKENS": StopReason.MAX_TOKENS,
    **dict.fromkeys(
        (
            "SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "MODEL_ARMOR",
            "IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION",
        ),
        StopReason.REFUSAL,
    ),
    **dict.fromkeys(
        (
            "MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS", "MALFORMED_RESPONSE",
            "MISSING_THOUGHT_SIGNATURE", "NO_IMAGE", "IMAGE_OTHER",
        ),
        StopReason.ERROR,
    ),
}  # fmt: skip

_NOTHING = "answered without a candidate"


def stop_reason(finish: str | None, *, has_calls: bool) -> StopReason:
    """Why the model stopped. It says STOP where it asks for tools, too."""
    reason = _STOP_REASONS.get(finish or "", StopReason.UNKNOWN)
    if has_calls and reason in (StopReason.END_TURN, StopReason.UNKNOWN):
        return StopReason.TOOL_USE
    return reason


def usage_of(counts: Any) -> Usage:
    """Tokens. The API counts thoughts and the prompts of its own tools apart; here they are part of the whole.

    A count that is zero is not written. That of the reply is what the total leaves, where there is one.
    """
    if not isinstance(counts, Mapping):
        return Usage()
    prompt, written = _count(counts.get("promptTokenCount")), _count(counts.get("candidatesTokenCount"))
    thoughts, total = _count(counts.get("thoughtsTokenCount")), _count(counts.get("totalTokenCount"))
    tools = _count(counts.get("toolUsePromptTokenCount")) or 0
    read = None if prompt is None else prompt + tools
    output = None if written is None else written + (thoughts or 0)
    if output is None and read is not None and total is not None and total >= read:
        output = total - read
    return Usage(
        input_tokens=read,
        output_tokens=output,
        cache_read_tokens=_count(counts.get("cachedContentTokenCount")),
        reasoning_tokens=thoughts,
    )


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


@dataclass(frozen=True, slots=True)
class _Said:
    """Text or thought, as far as it has come."""

    is_thought: bool
    fragments: list[str]
    data: Mapping[str, Any]

    def part(self) -> TextPart | ReasoningPart:
        kind = ReasoningPart if self.is_thought else TextPart
        return kind(text="".join(self.fragments), provider_data=_kept(self.data))


class GeminiReply(EventStream):
    """One reply to a request. The objects of a plain reply and of a stream have one form."""

    def __init__(
        self,
        request: ModelRequest,
        *,
        provider: str,
        secrets: Iterable[str] = (),
    ) -> None:
        super().__init__(provider=provider, warnings=ignored(request), secrets=secrets)
        self._keep_reasoning = request.reasoning is None or request.reasoning.capture
        self._model = request.model
        self._parts: list[_Said | HostedToolPart | int] = []  # a call stands here as its number
        self._call_ids: set[str] = set()
        self._calls = ToolCallAssembly()
        self._counts: dict[str, Any] = {}
        self._finish_reason: str | None = None
        self._blocked: str | None = None

    def warn(self, warning: str) -> None:
        """Add to the response's warnings."""
        self.warnings = (*self.warnings, warning)

    def whole(self, data: Any) -> ModelResponse:
        for each in data if isinstance(data, list) else [data]:
            if not isinstance(each, dict):
                raise self.unreadable(_NOTHING)
            if each.get("error"):
                raise self.error_in(each)
            self.take(each, [])
        response = self.ended()
        if response is None:
            raise self.unreadable(_NOTHING)
        return response

    def error_in(self, data: Any) -> ProviderError:
        return reply_error(data, self.headers, self.provider, secrets=self.secrets)

    # The checks are against `dict`, which is what JSON gives: `Mapping` costs ten times as much, for every chunk.

    def take(self, data: dict[str, Any], events: list[StreamEvent]) -> None:
        if isinstance(model := data.get("modelVersion"), str) and model:
            self._model = model
        if isinstance(response_id := data.get("responseId"), str) and response_id:
            self.request_id = response_id
        if isinstance(counts := data.get("usageMetadata"), dict):
            self._counts.update(counts)  # they are those of the reply so far, and some come once only
        feedback = data.get("promptFeedback")
        if isinstance(feedback, dict) and isinstance(reason := feedback.get("blockReason"), str):
            self._blocked = reason
        candidates = data.get("candidates")
        if isinstance(candidates, list) and candidates and isinstance(candidates[0], dict):
            self._candidate(candidates[0], events)

    def _candidate(self, candidate: dict[str, Any], events: list[StreamEvent]) -> None:
        content = candidate.get("content")
        parts = content.get("parts") if isinstance(content, dict) else None
        for part in parts if isinstance(parts, list) else ():
            if isinstance(part, dict):
                self._part(part, events)
        if isinstance(finish := candidate.get("finishReason"), str):
            self._finish_reason = finish
            message = candidate.get("finishMessage")
            if isinstance(message, str) and message and finish != "STOP":
                self.warn(f"the model stopped with {finish}: {message[:300]}")

    def _part(self, part: dict[str, Any], events: list[StreamEvent]) -> None:
        signature = part.get("thoughtSignature")
        data = {"thoughtSignature": signature} if isinstance(signature, str) else {}
        text, call = part.get("text"), part.get("functionCall")
        if isinstance(call, dict):
            self._call(call, data, events)
        elif isinstance(text, str) and part.get("thought") is True:
            if self._keep_reasoning:
                self._say(_Said(True, [text], data), ReasoningDelta(text), events)
        elif isinstance(text, str):
            self._say(_Said(False, [text], data), TextDelta(text), events)
        elif part:
            kind = next((key for key in part if key not in ("thought", "thoughtSignature")), "part")
            self._parts.append(HostedToolPart(tool=kind, provider_data=_kept({"part": part})))

    def _say(self, said: _Said, delta: TextDelta | ReasoningDelta, events: list[StreamEvent]) -> None:
        if delta.text:
            events.append(delta)
        last = self._parts[-1] if self._parts else None
        # A signature holds for its very part: none is joined with another.
        if isinstance(last, _Said) and last.is_thought is said.is_thought and not last.data and not said.data:
            last.fragments.extend(said.fragments)
        elif delta.text or said.data:
            self._parts.append(said)

    def _call(self, call: dict[str, Any], data: dict[str, Any], events: list[StreamEvent]) -> None:
        args, name, call_id = call.get("args"), call.get("name"), call.get("id")
        if isinstance(call_id, str) and call_id:
            data["id"] = call_id
        # Each call comes whole; an id that was used before would join two.
        fresh = call_id if isinstance(call_id, str) and call_id not in self._call_ids else None
        if fresh:
            self._call_ids.add(fresh)
        delta = self._calls.add(
            call_id=fresh,
            tool_name=name if isinstance(name, str) else "",
            arguments=json.dumps({} if args is None else args, ensure_ascii=False),
            provider_data=_kept(data),
        )
        self._parts.append(delta.index)
        events.append(delta)

    def ended(self) -> ModelResponse | None:
        """The reply, where something said that it is whole. The API marks the end of a stream in no other way."""
        finish = self._blocked or self._finish_reason
        if finish is None:
            return None
        calls = self._calls.parts()
        parts = tuple(
            calls[part] if isinstance(part, int) else part.part() if isinstance(part, _Said) else part
            for part in self._parts
        )
        return ModelResponse(
            message=AssistantMessage(parts=parts),
            stop_reason=StopReason.REFUSAL if self._blocked else stop_reason(finish, has_calls=bool(calls)),
            finish_reason=finish,
            usage=usage_of(self._counts),
            model=self._model,
            provider=self.provider,
            request_id=self.request_id,
        )


def _kept(data: Mapping[str, Any]) -> Mapping[str, Any]:
    return {API_NAME: dict(data)} if data else {}


def embed_response(data: Any, *, provider: str, model: str, count: int) -> EmbedResponse:
    """The vectors of one batch, which come in the order of its inputs.

    :raises ResponseError: they are not exactly ``count`` vectors of numbers.
    """
    rows = data.get("embeddings") if isinstance(data, Mapping) else None
    vectors = []
    for row in rows if isinstance(rows, list) else ():
        numbers = row.get("values") if isinstance(row, Mapping) else None
        if isinstance(numbers, list) and all(isinstance(number, int | float) for number in numbers):
            vectors.append(tuple(map(float, numbers)))
    if len(vectors) != count:
        raise ResponseError(
            f"provider '{provider}' answered with {len(vectors)} vectors for {count} inputs",
            provider=provider,
            phase="body",
            request_sent=True,
        )
    read = usage_of(data.get("usageMetadata")).input_tokens
    return EmbedResponse(
        vectors=tuple(vectors),
        usage=Usage(input_tokens=read, output_tokens=None if read is None else 0),
        model=model,
        provider=provider,
    )
