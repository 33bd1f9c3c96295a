"""Server-sent events, taken apart as their bytes arrive.

The format is that of https://html.spec.whatwg.org/multipage/server-sent-events.html.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["SSEDecoder", "ServerSentEvent"]

_BOM = b"\xef\xbb\xbf"


class ServerSentEvent(NamedTuple):
    """One event: its type (empty where the server names none) and its data."""

    event: str
    data: str


class SSEDecoder:
    """Turns pieces of a byte stream into events; a piece may end anywhere, inside a character too.

    No async code and no I/O: whoever reads the stream feeds it. An event that the stream ends in the middle
    of is dropped, as the format says.
    """

    __slots__ = ("_data", "_event", "_parts", "_started")

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._data: list[str] = []
        self._event = ""
        self._started = False

    def feed(self, piece: bytes) -> list[ServerSentEvent]:
        """The events that this piece completes."""
        # A long line is kept in parts and joined once, so that it does not cost the square of its length.
        if b"\n" not in piece and b"\r" not in piece and not self._ends_in_return():
            if piece:
                self._parts.append(piece)
            return []
        text = b"".join((*self._parts, piece))
        if not self._started:
            if len(text) < len(_BOM) and _BOM.startswith(text):
                self._parts = [text]
                return []
            self._started = True
            text = text.removeprefix(_BOM)
        lines = text.splitlines(keepends=True)
        last = lines[-1] if lines else b""
        # A return at the very end may be the first half of CR LF: it waits for the next piece.
        if last and not last.endswith(b"\n"):
            lines.pop()
            self._parts = [last]
        else:
            self._parts = []
        return self._events(lines)

    def finish(self) -> list[ServerSentEvent]:
        """The events that the end of the stream completes: one whose last line ends in a bare return."""
        rest = b"".join(self._parts)
        self._parts = []
        return self._events([rest]) if rest.endswith(b"\r") else []

    def _ends_in_return(self) -> bool:
        return bool(self._parts) and self._parts[-1].endswith(b"\r")

    def _events(self, lines: list[bytes]) -> list[ServerSentEvent]:
        events = []
        for raw in lines:
            line = raw.rstrip(b"\r\n")
            if not line:
                if self._data:
                    events.append(ServerSentEvent(self._event, "\n".join(self._data)))
                    self._data = []
                self._event = ""
                continue
            name, _, value = line.partition(b":")
            if name == b"data":
                self._data.append(value.removeprefix(b" ").decode("utf-8", "replace"))
            elif name == b"event":
                self._event = value.removeprefix(b" ").decode("utf-8", "replace")
        return events
