"""When a server asks to come back."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

__all__ = ["retry_after"]


def retry_after(headers: Mapping[str, str], *, now: datetime | None = None) -> float | None:
    """Seconds after which the server asks to come back, None where it did not say or said nonsense.

    Reads ``retry-after-ms`` (OpenAI, Azure), then ``Retry-After`` in seconds or as a date (RFC 9110, 10.2.3).
    Never negative: a date that has passed is 0.

    :param now: the time that a date is compared with; the present without it.
    """
    found = {name.lower(): value for name, value in headers.items()}
    milliseconds = _number(found.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    text = found.get("retry-after")
    seconds = _number(text)
    if seconds is not None:
        return seconds
    return _seconds_until(text, now)


def _number(text: str | None) -> float | None:
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if math.isfinite(number) and number >= 0 else None


def _seconds_until(text: str | None, now: datetime | None) -> float | None:
    try:
        date = parsedate_to_datetime(text or "")
        if date.tzinfo is None:  # RFC 9110 dates are in GMT
            date = date.replace(tzinfo=UTC)
        seconds = (date - (now or datetime.now(UTC))).total_seconds()
    except (ValueError, TypeError, OverflowError, IndexError):
        return None
    return max(seconds, 0.0)
