"""What the API's errors mean. One table; what it does not hold is as in ``treadle_http.status_errors``.

https://ai.google.dev/gemini-api/docs/troubleshooting, https://cloud.google.com/apis/design/errors
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from treadle.errors import (
    AuthenticationError,
    BadRequestError,
    ContextLengthError,
    InsufficientCreditsError,
    ModelNotFoundError,
    ProviderError,
    RateLimitError,
)
from treadle_http.status_errors import body_error, status_error

__all__ = ["answer_error", "is_bad_signature", "reply_error"]

_BY_REASON: Mapping[str, type[ProviderError]] = {
    "API_KEY_INVALID": AuthenticationError,  # with status 400
    "API_KEY_EXPIRED": AuthenticationError,
    "BILLING_DISABLED": InsufficientCreditsError,
}
"""By the ``reason`` of an ``ErrorInfo`` among the details."""

_BAD_KEY = re.compile(r"API key (not valid|expired)|valid API key", re.IGNORECASE)
_TOO_LONG = re.compile(r"exceeds? the maximum number of tokens|token count.{0,40}exceeds", re.IGNORECASE)
_NO_CREDIT = re.compile(r"credits? (are|is|were) depleted|prepayment", re.IGNORECASE)
_BY_WORDS: tuple[tuple[type[ProviderError], re.Pattern[str], type[ProviderError]], ...] = (
    (BadRequestError, _BAD_KEY, AuthenticationError),
    (BadRequestError, _TOO_LONG, ContextLengthError),
    (RateLimitError, _NO_CREDIT, InsufficientCreditsError),
)
"""An error of the first class whose message says so is one of the second."""

_HINTS: Mapping[type[ProviderError], str] = {
    AuthenticationError: "check the key and what it may be used for",
    ModelNotFoundError: "check the model's name and the base URL",
}
_SIGNATURE = re.compile(r"thought[ _]?signature", re.IGNORECASE)
_MISSING = re.compile(r"missing", re.IGNORECASE)
_DELAY = re.compile(r"(\d+(?:\.\d+)?)s")


def answer_error(
    status: int, headers: Mapping[str, str], data: Any, provider: str, *, secrets: Iterable[str] = ()
) -> ProviderError:
    """An answer with an error status.

    :param data: its body: bytes, text or JSON.
    """
    return _refined(status_error(status, headers, data, provider, secrets=secrets), data)


def reply_error(data: Any, headers: Mapping[str, str], provider: str, *, secrets: Iterable[str] = ()) -> ProviderError:
    """An error inside a good answer, or inside a stream."""
    return _refined(body_error(data, headers, provider, secrets=secrets), data)


def is_bad_signature(error: ProviderError) -> bool:
    """Whether a signature that was sent back is refused, and not one missing."""
    return (
        isinstance(error, BadRequestError)
        and _SIGNATURE.search(error.message) is not None
        and _MISSING.search(error.message) is None
    )


def _refined(error: ProviderError, data: Any) -> ProviderError:
    details = _details(data)
    kind: type[ProviderError] = type(error)
    for before, words, after in _BY_WORDS:
        if kind is before and words.search(error.message):
            kind = after
    for detail in details:
        kind = _BY_REASON.get(str(detail.get("reason")), kind)
    if kind is not type(error):
        error = kind(
            error.message,
            provider=error.provider,
            status_code=error.status_code,
            retry_after=error.retry_after,
            request_id=error.request_id,
            phase=error.phase,
            request_sent=error.request_sent,
            hint=_HINTS.get(kind),
        )
    if error.retry_after is None:
        error.retry_after = _retry_delay(details)
    return error


def _details(data: Any) -> list[Mapping[str, Any]]:
    if isinstance(data, bytes | bytearray | str):
        try:
            data = json.loads(data)
        except (ValueError, RecursionError):
            return []
    if isinstance(data, list) and data:
        data = data[0]
    error = data.get("error") if isinstance(data, Mapping) else None
    details = error.get("details") if isinstance(error, Mapping) else None
    return [each for each in details if isinstance(each, Mapping)] if isinstance(details, list) else []


def _retry_delay(details: list[Mapping[str, Any]]) -> float | None:
    """Seconds of a ``RetryInfo``: ``{"retryDelay": "34.07s"}``."""
    for detail in details:
        found = _DELAY.fullmatch(str(detail.get("retryDelay")))
        if found:
            return float(found[1])
    return None
