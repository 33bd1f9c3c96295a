"""What Anthropic's errors mean, beyond what HTTP statuses and error types say.

https://docs.anthropic.com/en/api/errors. Two things are said in words only, under ``invalid_request_error``: that
a request is longer than the model's context, and that the account is out of money.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from treadle.errors import BadRequestError, ContextLengthError, InsufficientCreditsError, ProviderError, RateLimitError
from treadle_http.status_errors import body_error, status_error

__all__ = ["error_in", "error_of_status", "refuses_signature"]

_TOO_LONG = re.compile(
    r"(?:prompt|input) is too long|exceeds? (?:the )?(?:model's )?(?:maximum )?context", re.IGNORECASE
)
_OUT_OF_MONEY = re.compile(
    r"credit balance is too low|spend(?:ing)? limit|usage limits?\b.*regain access", re.IGNORECASE
)
_MONEY_CODES = re.compile(r"spend_limit_reached|credit_balance|billing")
_BAD_SIGNATURE = re.compile(r"signature|`?thinking`? (?:or|blocks?)[^.]*cannot be modified", re.IGNORECASE)


def error_of_status(
    status: int, headers: Mapping[str, str], body: Any, provider: str, *, secrets: Iterable[str] = ()
) -> ProviderError:
    """The error that an answer with a status of 300 or more stands for."""
    return _refined(status_error(status, headers, body, provider, secrets=secrets), body)


def error_in(data: Any, headers: Mapping[str, str], provider: str, *, secrets: Iterable[str] = ()) -> ProviderError:
    """The error inside an answer of status 200, or inside a stream."""
    error = _refined(body_error(data, headers, provider, secrets=secrets), data)
    if error.request_id is None and isinstance(data, Mapping) and isinstance(data.get("request_id"), str):
        error.request_id = data["request_id"]
    return error


def refuses_signature(error: ProviderError) -> bool:
    """Whether the API says that a thinking block of the history is not as it wrote it."""
    says_thinking = "thinking" in error.message
    return isinstance(error, BadRequestError) and says_thinking and bool(_BAD_SIGNATURE.search(error.message))


def _refined(error: ProviderError, body: Any) -> ProviderError:
    kind: type[ProviderError] | None = None
    if isinstance(error, BadRequestError | RateLimitError):
        if _OUT_OF_MONEY.search(error.message) or _MONEY_CODES.search(_code(body)):
            kind = InsufficientCreditsError
        elif isinstance(error, BadRequestError) and _TOO_LONG.search(error.message):
            kind = ContextLengthError
    if kind is None or isinstance(error, kind):
        return error
    return kind(
        error.message,
        provider=error.provider,
        status_code=error.status_code,
        retry_after=error.retry_after,
        request_id=error.request_id,
        phase=error.phase,
        request_sent=error.request_sent,
    )


def _code(body: Any) -> str:
    """The API's own code of the cause: ``error.details.error_code``."""
    error = body.get("error") if isinstance(body, Mapping) else None
    details = error.get("details") if isinstance(error, Mapping) else None
    code = details.get("error_code") if isinstance(details, Mapping) else None
    return code if isinstance(code, str) else ""
