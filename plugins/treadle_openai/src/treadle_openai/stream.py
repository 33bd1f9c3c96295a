"""A streamed reply put together from its chunks. Pure: it is fed what has arrived and gives events.

https://platform.openai.com/docs/api-reference/chat-streaming
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from treadle.assembly import ToolCallAssembly
from treadle.errors import ResponseError
from treadle.messages import (
    AssistantMessage,
    AssistantPart,
    Completed,
    ModelResponse,
    ReasoningDelta,
    ReasoningPart,
    StreamEvent,
    TextDelta,
    TextPart,
    Usage,
)
from treadle_http.sse import SSEDecoder
from treadle_http.status_errors import body_error, is_error_body
from treadle_openai.convert import response_of, stop_reason, text_of, tool_call_fragment, usage_of

__all__ = ["StreamedReply"]


class StreamedReply:
    """One streamed reply.

    :param model: the model asked for, where the chunks name none.
    :param keep_reasoning: keep the readable reasoning that some compatible servers send.
    :param secrets: taken out of error texts.
    """

    def __init__(self, *, provider: str, model: str, keep_reasoning: bool = True, secrets: Iterable[str] = ()) -> None:
        self._provider = provider
        self._model = model
        self._keep_reasoning = keep_reasoning
        self._secrets = tuple(secrets)
        self._headers: Mapping[str, str] = {}
        self._request_id: str | None = None
        self._plain: list[bytes] | None = None
        self._sse = SSEDecoder()
        self._text: list[str] = []
        self._refusal: list[str] = []
        self._reasoning: list[str] = []
        self._calls = ToolCallAssembly()
        self._finish: str | None = None
        self._usage = Usage()
        self._answered = False
        self._complete = False

    def is_complete(self) -> bool:
        """Whether the last event has been given; what comes after it is not looked at."""
        return self._complete

    def begin(self, headers: Mapping[str, str]) -> None:
        """The status was good and these are the headers."""
        self._headers = headers
        self._request_id = headers.get("x-request-id")
        # A server that cannot stream, or has an error to tell, may answer in one piece.
        if headers.get("content-type", "").partition(";")[0].strip().lower() == "application/json":
            self._plain = []

    def feed(self, piece: bytes) -> list[StreamEvent]:
        """The events in the next piece of the body.

        :raises ProviderError: it holds an error, or cannot be read.
        """
        if self._plain is not None:
            self._plain.append(piece)
            return []
        events: list[StreamEvent] = []
        for event, data in self._sse.feed(piece):
            if self._complete:
                break
            self._take(event, data, events)
        return events

    def end(self) -> list[StreamEvent]:
        """The events that the end of the body completes.

        :raises ResponseError: it ended before the reply did.
        """
        if self._complete:
            return []
        if self._plain is not None:
            return self._whole(b"".join(self._plain))
        events: list[StreamEvent] = []
        for event, data in self._sse.finish():
            self._take(event, data, events)
        if events and isinstance(events[-1], Completed):
            return events
        if self._finish is None:
            raise self._unreadable("ended its stream before the reply was complete")
        # Some servers close the stream without the `[DONE]` that OpenAI ends it with.
        events.append(self._completed())
        return events

    def _take(self, event: str, data: str, events: list[StreamEvent]) -> None:
        if data.startswith("[DONE]"):
            if not self._answered:
                raise self._unreadable("ended its stream without a reply")
            events.append(self._completed())
            return
        try:
            chunk = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise self._unreadable(f"sent a chunk that is not JSON ({error})") from None
        if event == "error" and not is_error_body(chunk):
            chunk = {"error": chunk or "an error without words"}
        if not isinstance(chunk, dict):
            return
        if chunk.get("error"):
            raise body_error(chunk, self._headers, self._provider, secrets=self._secrets)
        self._chunk(chunk, events)

    # From here on the checks are against `dict`, which is what JSON gives: `Mapping` costs ten times as much,
    # and this runs for every token.

    def _chunk(self, chunk: dict[str, Any], events: list[StreamEvent]) -> None:
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
            self._finish = finish

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
            events.extend(self._calls.add(**tool_call_fragment(each)) for each in calls if isinstance(each, dict))

    def _completed(self) -> Completed:
        self._complete = True
        parts: list[AssistantPart] = []
        if self._reasoning:
            parts.append(ReasoningPart(text="".join(self._reasoning)))
        if text := "".join(self._text) + "".join(self._refusal):
            parts.append(TextPart(text=text))
        calls = self._calls.parts()
        return Completed(
            ModelResponse(
                message=AssistantMessage(parts=(*parts, *calls)),
                stop_reason=stop_reason(self._finish, has_calls=bool(calls), refused=bool(self._refusal)),
                finish_reason=self._finish,
                usage=self._usage,
                model=self._model,
                provider=self._provider,
                request_id=self._request_id,
            )
        )

    def _whole(self, body: bytes) -> list[StreamEvent]:
        """A reply in one piece, though a stream was asked for."""
        try:
            data = json.loads(body)
        except (ValueError, RecursionError):
            raise self._unreadable("answered with something that is not JSON") from None
        if is_error_body(data):
            raise body_error(data, self._headers, self._provider, secrets=self._secrets)
        response = response_of(
            data,
            provider=self._provider,
            model=self._model,
            request_id=self._request_id,
            keep_reasoning=self._keep_reasoning,
        )
        self._complete = True
        text: list[StreamEvent] = [TextDelta(response.text)] if response.text else []
        return [*text, Completed(response)]

    def _unreadable(self, what: str) -> ResponseError:
        return ResponseError(
            f"provider '{self._provider}' {what}",
            provider=self._provider,
            request_id=self._request_id,
            phase="body",
            request_sent=True,
        )
