"""Bodies that are limited while they are read, so that no server can fill the memory."""

from __future__ import annotations

__all__ = ["BODY_LIMIT", "BodyTooLargeError"]

BODY_LIMIT = 64 * 1024 * 1024
"""Most bytes of a whole body, decompressed, unless said otherwise."""


class BodyTooLargeError(ValueError):
    """A body, or a line of one, is longer than the limit. What had been read of it is dropped.

    :param limit: the most bytes that were allowed.
    """

    def __init__(self, limit: int, *, what: str = "the reply") -> None:
        super().__init__(f"{what} is longer than {_size(limit)}")
        self.limit = limit


def _size(count: int) -> str:
    for unit, length in (("MB", 1024 * 1024), ("kB", 1024)):
        if count >= length and count % length == 0:
            return f"{count // length} {unit}"
    return f"{count} bytes"
