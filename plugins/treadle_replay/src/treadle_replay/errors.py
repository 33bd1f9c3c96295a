"""Errors of recording and replaying."""

from __future__ import annotations

from treadle import BadRequestError, ConfigurationError

__all__ = ["RecordingError", "RecordingMismatchError"]


class RecordingError(ConfigurationError):
    """The file of a recording cannot be written: its folder, its lock, or the disk."""


class RecordingMismatchError(BadRequestError):
    """What is asked was not recorded, or is not what was recorded. Permanent: it would not be there the next time."""

    def __init__(self, message: str, *, provider: str, hint: str | None = None) -> None:
        # Nothing was sent, so nothing was spent.
        super().__init__(message, provider=provider, hint=hint, request_sent=False)
