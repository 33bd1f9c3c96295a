"""What every streamed reply has in common: bytes in, events out. Pure: it is fed what has arrived."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from treadle.errors import ResponseError
from treadle.messages import Completed, ModelResponse, StreamEvent, TextDelta
from treadle_http.sse import SSEDecoder
from treadle_http.status_errors import body_error, is_error_body

__all__ = ["EventStream"]


class EventStream(ABC):
    """One streamed reply.

    :param model: the model asked for, where the chunks name none.
    :param keep_reasoning: keep readable reasoning.
    :param warnings: go onto the response.
    :param secrets: taken out of error texts.
    """

    def __init__(
        self,
        *,
        provider: str,
        model: str,
        keep_reasoning: bool = True,
        warnings: Iterable[str] = (),
        secrets: Iterable[str] = (),
    ) -> None:
        self._provider = provider
        self._model = model
        self._keep_reasoning = keep_reasoning
        self.warnings = tuple(warnings)
        self._secrets = tuple(secrets)
        self._headers: Mapping[str, str] = {}
        self._request_id: str | None = None
        self._plain: list[bytes] | None = None
        self._sse = SSEDecoder()
        self._complete = False

    @abstractmethod
    def _take(self, data: Any, events: list[StreamEvent]) -> None:
        """One event's JSON."""

    @abstractmethod
    def _whole(self, data: Any) -> ModelResponse:
        """The JSON of a reply in one piece."""

    @abstractmethod
    def _ended(self) -> ModelResponse | None:
        """The response, at the end of the stream or its ``[DONE]``; None where it is not whole."""

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
            self._read(event, data, events)
        return events

    def end(self) -> list[StreamEvent]:
        """The events that the end of the body completes.

        :raises ResponseError: it ended before the reply did.
        """
        events: list[StreamEvent] = []
        if self._complete:
            return events
        if self._plain is not None:
            return self._in_one_piece(b"".join(self._plain))
        for event, data in self._sse.finish():
            self._read(event, data, events)
        if not self._complete:
            # Some servers close the stream without the `[DONE]` that OpenAI ends it with.
            self._close(events, "ended its stream before the reply was complete")
        return events

    def _read(self, event: str, data: str, events: list[StreamEvent]) -> None:
        if data.startswith("[DONE]"):
            self._close(events, "ended its stream without a reply", at_done=True)
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
        self._take(chunk, events)

    def _close(self, events: list[StreamEvent], problem: str, *, at_done: bool = False) -> None:
        response = self._ended() if not at_done else self._at_done()
        if response is None:
            raise self._unreadable(problem)
        self._finish(response, events)

    def _at_done(self) -> ModelResponse | None:
        return self._ended()

    def _finish(self, response: ModelResponse, events: list[StreamEvent]) -> None:
        self._complete = True
        events.append(Completed(replace(response, warnings=self.warnings) if self.warnings else response))

    def _in_one_piece(self, body: bytes) -> list[StreamEvent]:
        """A reply in one piece, though a stream was asked for."""
        try:
            data = json.loads(body)
        except (ValueError, RecursionError):
            raise self._unreadable("answered with something that is not JSON") from None
        if is_error_body(data):
            raise body_error(data, self._headers, self._provider, secrets=self._secrets)
        response = self._whole(data)
        events: list[StreamEvent] = [TextDelta(response.text)] if response.text else []
        self._finish(response, events)
        return events

    def _unreadable(self, what: str) -> ResponseError:
        return ResponseError(
            f"provider '{self._provider}' {what}",
            provider=self._provider,
            request_id=self._request_id,
            phase="body",
            request_sent=True,
        )
