"""A reply put together from its JSON objects: many of a stream, or the one of a plain reply. Pure.

https://docs.ollama.com/api/streaming
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from treadle.assembly import ToolCallAssembly
from treadle.errors import ProviderError, ResponseError
from treadle.messages import (
    AssistantMessage,
    AssistantPart,
    Completed,
    ModelRequest,
    ModelResponse,
    ReasoningDelta,
    ReasoningPart,
    StreamEvent,
    TextDelta,
    TextPart,
    Usage,
)
from treadle_http.limits import BodyTooLargeError
from treadle_http.ndjson import NDJSONDecoder
from treadle_ollama.convert import API_NAME, count_of, ignored, stop_reason
from treadle_ollama.errors import ServerErrors

__all__ = ["OllamaReply"]

_OWN_THOUGHTS: Mapping[str, Any] = {API_NAME: {"field": "thinking"}}


class OllamaReply:
    """One reply to a request. The objects of a plain reply and of a stream have one form."""

    def __init__(self, request: ModelRequest, *, provider: str, errors: ServerErrors) -> None:
        self._request = request
        self._provider = provider
        self._errors = errors
        self._keep_reasoning = request.reasoning is None or request.reasoning.capture
        self._headers: Mapping[str, str] = {}
        self._lines = NDJSONDecoder()
        self._model = request.model
        self._text: list[str] = []
        self._thoughts: list[str] = []
        self._calls = ToolCallAssembly()
        self._complete = False

    def is_complete(self) -> bool:
        """Whether the last event has been given; what comes after it is not looked at."""
        return self._complete

    def begin(self, headers: Mapping[str, str]) -> None:
        """The status was good and these are the headers."""
        self._headers = headers

    def whole(self, data: Any) -> list[StreamEvent]:
        """The events of a plain reply, from its JSON.

        :raises ProviderError: it is an error, or no reply.
        """
        events = self._taken([data])
        if not self.is_complete():
            raise self._unreadable("answered without saying that it is done")
        return events

    def feed(self, piece: bytes) -> list[StreamEvent]:
        """The events in the next piece of the body.

        :raises ProviderError: it holds an error, or cannot be read.
        """
        return self._taken(self._read(piece))

    def end(self) -> list[StreamEvent]:
        """The events that the end of the body completes.

        :raises ResponseError: it ended before the reply did.
        """
        if self._complete:
            return []
        events = self._taken(self._read(None))
        if not self.is_complete():
            raise self._unreadable("ended its stream before the reply was complete")
        return events

    def _read(self, piece: bytes | None) -> list[Any]:
        try:
            return self._lines.finish() if piece is None else self._lines.feed(piece)
        except BodyTooLargeError as error:
            raise self._unreadable(f"sent too much: {error}") from None
        except ValueError as error:
            raise self._unreadable(f"sent a line that is not JSON ({error})") from None

    def _taken(self, objects: list[Any]) -> list[StreamEvent]:
        events: list[StreamEvent] = []
        for each in objects:
            if self._complete:
                break
            if not isinstance(each, dict):
                raise self._unreadable("answered without a message")
            self._take(each, events)
        return events

    def _take(self, data: dict[str, Any], events: list[StreamEvent]) -> None:
        if data.get("error"):
            raise self._error(data)
        if isinstance(model := data.get("model"), str) and model:
            self._model = model
        message = data.get("message")
        if isinstance(message, dict):
            self._message(message, events)
        elif "done" not in data:
            raise self._unreadable("answered without a message")
        if data.get("done"):
            self._complete = True
            events.append(Completed(self._response(data)))

    def _error(self, data: Mapping[str, Any]) -> ProviderError:
        return self._errors.in_body(data, self._headers)

    def _message(self, message: dict[str, Any], events: list[StreamEvent]) -> None:
        thought = message.get("thinking")
        if isinstance(thought, str) and thought and self._keep_reasoning:
            self._thoughts.append(thought)
            events.append(ReasoningDelta(thought))
        text = message.get("content")
        if isinstance(text, str) and text:
            self._text.append(text)
            events.append(TextDelta(text))
        calls = message.get("tool_calls")
        for call in calls if isinstance(calls, list) else ():
            function = call.get("function") if isinstance(call, dict) else None
            if not isinstance(function, dict):
                continue
            # Each call comes whole, and the server's indexes begin anew in every object.
            arguments = function.get("arguments")
            if not isinstance(arguments, str):
                arguments = json.dumps({} if arguments is None else arguments, ensure_ascii=False)
            name, call_id = function.get("name"), call.get("id")
            events.append(
                self._calls.add(
                    call_id=call_id if isinstance(call_id, str) else None,
                    tool_name=name if isinstance(name, str) else None,
                    arguments=arguments or "{}",
                )
            )

    def _response(self, last: Mapping[str, Any]) -> ModelResponse:
        parts: list[AssistantPart] = []
        if self._thoughts:
            parts.append(ReasoningPart(text="".join(self._thoughts), provider_data=_OWN_THOUGHTS))
        if self._text:
            parts.append(TextPart(text="".join(self._text)))
        calls = self._calls.parts()
        finish = last.get("done_reason")
        finish = finish if isinstance(finish, str) and finish else None
        return ModelResponse(
            message=AssistantMessage(parts=(*parts, *calls)),
            stop_reason=stop_reason(finish, has_calls=bool(calls)),
            finish_reason=finish,
            usage=Usage(
                input_tokens=count_of(last.get("prompt_eval_count")), output_tokens=count_of(last.get("eval_count"))
            ),
            model=self._model,
            provider=self._provider,
            warnings=ignored(self._request),
        )

    def _unreadable(self, what: str) -> ResponseError:
        return ResponseError(
            f"provider '{self._provider}' {what}", provider=self._provider, phase="body", request_sent=True
        )
