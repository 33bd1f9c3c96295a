"""A streamed reply of Chat Completions, put together from its chunks.

https://platform.openai.com/docs/api-reference/chat-streaming
"""

from __future__ import annotations

from typing import Any

from treadle.assembly import ToolCallAssembly
from treadle.messages import (
    AssistantMessage,
    AssistantPart,
    ModelResponse,
    ReasoningDelta,
    ReasoningPart,
    StreamEvent,
    TextDelta,
    TextPart,
    Usage,
)
from treadle_openai.convert import (
    citations_of,
    merged_details,
    response_of,
    stop_reason,
    text_of,
    tool_call_fragment,
    usage_of,
)
from treadle_openai.streamed import OpenAIStream

__all__ = ["StreamedReply"]


class StreamedReply(OpenAIStream):
    """One streamed reply of Chat Completions."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self._text: list[str] = []
        self._refusal: list[str] = []
        self._reasoning: list[str] = []
        self._annotations: list[Any] = []
        self._reasoning_details: list[Any] = []
        self._calls = ToolCallAssembly()
        self._finish_reason: str | None = None
        self._usage = Usage()
        self._answered = False

    # The checks are against `dict`, which is what JSON gives: `Mapping` costs ten times as much, and this runs for
    # every token.

    def take(self, chunk: dict[str, Any], events: list[StreamEvent]) -> None:
        if usage := chunk.get("usage"):
            self._usage = usage_of(usage)
        if isinstance(model := chunk.get("model"), str) and model:
            self._model = model
        choices = chunk.get("choices")
        if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
            return  # the chunk of the usage has no choices
        choice = choices[0]
        self._answered = True
        delta = choice.get("delta")
        if isinstance(delta, dict):
            self._delta(delta, events)
        if isinstance(finish := choice.get("finish_reason"), str):
            self._finish_reason = finish

    def _delta(self, delta: dict[str, Any], events: list[StreamEvent]) -> None:
        content = delta.get("content")
        if content and (text := text_of(content)):
            self._text.append(text)
            events.append(TextDelta(text))
        if (refusing := delta.get("refusal")) and (refusal := text_of(refusing)):
            self._refusal.append(refusal)
            events.append(TextDelta(refusal))
        thinking = delta.get("reasoning_content") or delta.get("reasoning")
        if thinking and self._keep_reasoning and (thought := text_of(thinking)):
            self._reasoning.append(thought)
            events.append(ReasoningDelta(thought))
        calls = delta.get("tool_calls")
        if isinstance(calls, list):
            events.extend(
                self._calls.add(**tool_call_fragment(each, self.provider)) for each in calls if isinstance(each, dict)
            )
        if isinstance(found := delta.get("annotations"), list):
            self._annotations.extend(found)
        if isinstance(found := delta.get("reasoning_details"), list):
            self._reasoning_details.extend(found)

    def done(self) -> ModelResponse | None:
        return self._response() if self._answered else None

    def ended(self) -> ModelResponse | None:
        return self._response() if self._finish_reason is not None else None

    def _response(self) -> ModelResponse:
        parts: list[AssistantPart] = []
        if self._reasoning or self._reasoning_details:
            details = merged_details(self._reasoning_details)
            opaque = {self.provider: {"reasoning_details": details}} if details else {}
            parts.append(ReasoningPart(text="".join(self._reasoning), provider_data=opaque))
        if text := "".join(self._text) + "".join(self._refusal):
            parts.append(TextPart(text=text, citations=citations_of(self._annotations)))
        calls = self._calls.parts()
        return ModelResponse(
            message=AssistantMessage(parts=(*parts, *calls)),
            stop_reason=stop_reason(self._finish_reason, has_calls=bool(calls), refused=bool(self._refusal)),
            finish_reason=self._finish_reason,
            usage=self._usage,
            model=self._model,
            provider=self.provider,
            request_id=self.request_id,
        )

    def whole(self, data: Any) -> ModelResponse:
        return response_of(
            data,
            provider=self.provider,
            model=self._model,
            request_id=self.request_id,
            keep_reasoning=self._keep_reasoning,
        )
