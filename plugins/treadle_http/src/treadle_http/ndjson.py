"""JSON texts one a line, taken apart as their bytes arrive (https://github.com/ndjson/ndjson-spec)."""

from __future__ import annotations

import json
from typing import Any

from treadle_http.limits import BodyTooLargeError

__all__ = ["LINE_LIMIT", "NDJSONDecoder"]

LINE_LIMIT = 16 * 1024 * 1024
"""Most bytes of one line unless said otherwise."""


class NDJSONDecoder:
    """Turns pieces of a byte stream into JSON values; a piece may end anywhere, inside a character too.

    No async code and no I/O: whoever reads the stream feeds it. Empty lines are skipped, CR LF ends a line as LF
    does, and bytes that are no UTF-8 become U+FFFD.

    :param limit: most bytes of one line; a longer one raises as soon as that is known, so memory stays bounded.
    """

    __slots__ = ("_limit", "_parts", "_size", "_started")

    def __init__(self, *, limit: int = LINE_LIMIT) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self._size = 0
        self._started = False

    def feed(self, piece: bytes) -> list[Any]:
        """The values whose lines this piece ends.

        :raises ValueError: a line is not JSON; its text is not in the message.
        :raises BodyTooLargeError: a line is longer than the limit.
        """
        # A long line is kept in parts and joined once, so that it does not cost the square of its length.
        head, newline, rest = piece.partition(b"\n")
        self._keep(head)
        if not newline:
            return []
        lines = [self._taken(), *rest.split(b"\n")]
        self._keep(lines.pop())
        return [value for line in lines for value in self._values(line)]

    def finish(self) -> list[Any]:
        """The value of a last line that no line end follows.

        :raises ValueError: what is left is not whole JSON: the stream was cut.
        """
        return self._values(self._taken())

    def _keep(self, part: bytes) -> None:
        if part:
            self._parts.append(part)
            self._size += len(part)
            self._check(self._size)

    def _taken(self) -> bytes:
        line = b"".join(self._parts)
        self._parts, self._size = [], 0
        return line

    def _check(self, size: int) -> None:
        if size > self._limit:
            raise BodyTooLargeError(self._limit, what="a line of the reply")

    def _values(self, line: bytes) -> list[Any]:
        self._check(len(line))
        if not self._started:
            line, self._started = line.removeprefix(b"\xef\xbb\xbf"), True
        line = line.strip(b" \t\r")
        if not line:
            return []
        try:
            return [json.loads(line.decode("utf-8", "replace"))]
        except RecursionError:
            raise ValueError("JSON nested too deeply") from None
