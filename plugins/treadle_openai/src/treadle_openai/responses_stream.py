"""A streamed reply of the Responses API, put together from its events.

https://platform.openai.com/docs/api-reference/responses-streaming
"""

from __future__ import annotations

from typing import Any

from treadle.assembly import ToolCallAssembly
from treadle.messages import ModelResponse, ReasoningDelta, StreamEvent, TextDelta
from treadle_http.status_errors import body_error
from treadle_openai.convert import text_of
from treadle_openai.responses import failed, response_of
from treadle_openai.streamed import OpenAIStream

__all__ = ["ResponsesStream"]

_LAST = ("response.completed", "response.incomplete", "response.failed", "response.cancelled")


class ResponsesStream(OpenAIStream):
    """One streamed reply of the Responses API.

    The whole items that it sends are what counts; from fragments comes only what no whole item was sent for.
    """

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self._items: dict[int, dict[str, Any]] = {}
        self._texts: dict[int, list[str]] = {}
        self._calls = ToolCallAssembly()
        self._call_order: list[int] = []
        self._has_summary = False
        self._last: dict[str, Any] | None = None

    def take(self, event: dict[str, Any], events: list[StreamEvent]) -> None:
        kind = event.get("type")
        if kind == "response.output_text.delta" or kind == "response.refusal.delta":
            if text := text_of(event.get("delta")):
                self._texts.setdefault(_index(event), []).append(text)
                events.append(TextDelta(text))
        elif kind == "response.reasoning_summary_text.delta" or kind == "response.reasoning_text.delta":
            if self._keep_reasoning and (thought := text_of(event.get("delta"))):
                self._has_summary = True
                events.append(ReasoningDelta(thought))
        elif kind == "response.reasoning_summary_part.added":
            if self._keep_reasoning and self._has_summary:
                events.append(ReasoningDelta("\n\n"))
        elif kind == "response.function_call_arguments.delta":
            self._fragment(event, events, arguments=text_of(event.get("delta")))
        elif kind == "response.output_item.added":
            item = event.get("item")
            if isinstance(item, dict) and item.get("type") == "function_call":
                self._call_order.append(_index(event))
                self._fragment(
                    event,
                    events,
                    call_id=text_of(item.get("call_id")),
                    tool_name=text_of(item.get("name")),
                    arguments=text_of(item.get("arguments")),
                )
        elif kind == "response.output_item.done":
            if isinstance(item := event.get("item"), dict):
                self._items[_index(event)] = item
        elif kind == "error":  # its code and message stand beside its type
            raise body_error({"error": {**event, "type": None}}, self.headers, self.provider, secrets=self.secrets)
        elif kind in _LAST:
            found = event.get("response")
            self._last = found if isinstance(found, dict) else {}
            self.finish(self._response(self._last), events)

    def _fragment(self, event: dict[str, Any], events: list[StreamEvent], **fragment: Any) -> None:
        events.append(self._calls.add(index=_index(event), **fragment))

    def ended(self) -> ModelResponse | None:
        return None  # the last event ends the stream; without it, it was cut

    def _response(self, last: dict[str, Any]) -> ModelResponse:
        if last.get("status") == "failed":
            raise failed(last, self.provider, self.request_id, secrets=self.secrets)
        listed = last.get("output")
        whole = dict(enumerate(listed)) if isinstance(listed, list) else {}
        items = {**whole, **self._items}
        for index, pieces in self._texts.items():
            text = {"type": "output_text", "text": "".join(pieces)}
            items.setdefault(index, {"type": "message", "content": [text]})
        for index, call in zip(self._call_order, self._calls.parts(), strict=False):
            fragments = {"call_id": call.call_id, "name": call.tool_name, "arguments": call.raw_arguments}
            items.setdefault(index, {"type": "function_call", **fragments})
        return self.whole({**last, "output": [items[index] for index in sorted(items)]})

    def whole(self, data: Any) -> ModelResponse:
        return response_of(
            data,
            provider=self.provider,
            model=self._model,
            request_id=self.request_id,
            keep_reasoning=self._keep_reasoning,
            secrets=self.secrets,
        )


def _index(event: dict[str, Any]) -> int:
    index = event.get("output_index")
    return index if isinstance(index, int) else 0
