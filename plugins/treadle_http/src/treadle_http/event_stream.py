"""What streamed replies of server-sent events have in common: bytes in, events out. Pure: fed with what has arrived."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from treadle.errors import ProviderError, ResponseError
from treadle.messages import Completed, ModelResponse, ReasoningDelta, ReasoningPart, StreamEvent, TextDelta, TextPart
from treadle_http.sse import SSEDecoder
from treadle_http.status_errors import body_error, is_error_body, request_id

__all__ = ["EventStream"]


class EventStream(ABC):
    """One streamed reply, of events that are JSON objects; or of one piece, from a server that cannot stream.

    A provider says what its events mean (:meth:`take`), what a reply in one piece holds (:meth:`whole`) and whether
    the reply was whole when the stream ended (:meth:`ended`). It is a :class:`~treadle_http.reply_events.Reply`.

    :param provider: the provider's name in this run, for errors.
    :param warnings: go onto the response.
    :param secrets: are taken out of error texts.
    """

    def __init__(self, *, provider: str, warnings: Iterable[str] = (), secrets: Iterable[str] = ()) -> None:
        self.provider = provider
        self.warnings = tuple(warnings)
        self.secrets = tuple(secrets)
        self.headers: Mapping[str, str] = {}
        self.request_id: str | None = None
        self._plain: list[bytes] | None = None
        self._sse = SSEDecoder()
        self._complete = False

    # --- what a provider says ---

    @abstractmethod
    def take(self, data: dict[str, Any], events: list[StreamEvent]) -> None:
        """One event's JSON; what it brings is appended to ``events``."""

    @abstractmethod
    def whole(self, data: Any) -> ModelResponse:
        """The response in the JSON of a reply in one piece.

        :raises ResponseError: it is no reply.
        """

    @abstractmethod
    def ended(self) -> ModelResponse | None:
        """The response, at the end of the stream; None where it is not whole."""

    def done(self) -> ModelResponse | None:
        """The response at a ``[DONE]``, where that says more than the end of the stream does."""
        return self.ended()

    def error_in(self, data: Any) -> ProviderError:
        """The error that an event, or a reply in one piece, is."""
        return body_error(data, self.headers, self.provider, secrets=self.secrets)

    # --- what whoever reads the body calls ---

    def is_complete(self) -> bool:
        """Whether the last event has been given; what comes after it is not looked at."""
        return self._complete

    def begin(self, headers: Mapping[str, str]) -> None:
        """The status was good and these are the headers."""
        self.headers = headers
        self.request_id = request_id(headers)
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
            return self.in_one_piece(self._json(b"".join(self._plain), "answered with something"))
        for event, data in self._sse.finish():
            self._read(event, data, events)
        if not self._complete:
            # Not every API, nor every server, marks the end of a stream.
            self._close(self.ended(), "ended its stream before the reply was complete", events)
        return events

    def in_one_piece(self, data: Any) -> list[StreamEvent]:
        """The events of a reply in one piece, from its JSON.

        :raises ProviderError: it is an error, or no reply.
        """
        if is_error_body(data):
            raise self.error_in(data)
        response = self.whole(data)
        events: list[StreamEvent] = []
        for part in response.message.parts:
            if isinstance(part, TextPart) and part.text:
                events.append(TextDelta(part.text))
            elif isinstance(part, ReasoningPart) and part.text:
                events.append(ReasoningDelta(part.text))
        self.finish(response, events)
        return events

    # --- in between ---

    def _read(self, event: str, data: str, events: list[StreamEvent]) -> None:
        if data.startswith("[DONE]"):
            self._close(self.done(), "ended its stream without a reply", events)
            return
        said = self._json(data, "sent an event")
        if event == "error" and not is_error_body(said):
            said = {"error": said or "an error without words"}
        if not isinstance(said, dict):
            return
        if said.get("error"):
            raise self.error_in(said)
        self.take(said, events)

    def _json(self, text: str | bytes, what: str) -> Any:
        try:
            return json.loads(text)
        except (ValueError, RecursionError) as error:
            raise self.unreadable(f"{what} that is not JSON ({error})") from None

    def _close(self, response: ModelResponse | None, problem: str, events: list[StreamEvent]) -> None:
        if response is None:
            raise self.unreadable(problem)
        self.finish(response, events)

    def finish(self, response: ModelResponse, events: list[StreamEvent]) -> None:
        """Give the last event; for a provider whose own last event comes before the stream's end."""
        self._complete = True
        warnings = (*response.warnings, *self.warnings)
        events.append(Completed(replace(response, warnings=warnings) if self.warnings else response))

    def unreadable(self, what: str) -> ResponseError:
        return ResponseError(
            f"provider '{self.provider}' {what}",
            provider=self.provider,
            request_id=self.request_id,
            phase="body",
            request_sent=True,
        )
