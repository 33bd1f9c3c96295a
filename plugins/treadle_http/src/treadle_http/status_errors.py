"""What an answer that is an error means: one table from HTTP status, and from vendors' words, to our errors."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from treadle.errors import (
    AuthenticationError,
    BadRequestError,
    ContextLengthError,
    InsufficientCreditsError,
    ModelNotFoundError,
    ProviderError,
    ProviderTimeoutError,
    RateLimitError,
    RedirectError,
    ResponseError,
    UnavailableError,
)
from treadle_http.redaction import redact, shown_url
from treadle_http.waiting import retry_after

__all__ = ["MESSAGE_LIMIT", "body_error", "code_status", "is_error_body", "request_id", "status_error"]

MESSAGE_LIMIT = 500
"""Most characters of a vendor's message that are kept."""

_BY_STATUS: Mapping[int, type[ProviderError]] = {
    400: BadRequestError,
    401: AuthenticationError,
    402: InsufficientCreditsError,
    403: AuthenticationError,
    404: ModelNotFoundError,
    408: ProviderTimeoutError,
    409: UnavailableError,
    413: BadRequestError,
    422: BadRequestError,
    429: RateLimitError,
    529: UnavailableError,
}
_BY_HUNDRED: Mapping[int, type[ProviderError]] = {3: RedirectError, 4: BadRequestError, 5: UnavailableError}

# What OpenAI, Anthropic, Google and the compatible servers write into `code`, `type` or `status` of an error.
# https://platform.openai.com/docs/guides/error-codes, https://docs.anthropic.com/en/api/errors,
# https://cloud.google.com/apis/design/errors
_STATUS_OF_WORD: Mapping[str, int] = {
    "api_error": 500,
    "authentication_error": 401,
    "billing_error": 402,
    "billing_hard_limit_reached": 402,
    "billing_not_active": 402,
    "bio_policy": 400,
    "conflict_error": 409,
    "context_length_exceeded": 400,
    "data_residency_mismatch": 400,
    "deadline_exceeded": 408,
    "empty_image_file": 400,
    "failed_to_download_image": 400,
    "image_content_policy_violation": 400,
    "image_file_not_found": 400,
    "image_file_too_large": 400,
    "image_parse_error": 400,
    "image_too_large": 400,
    "image_too_small": 400,
    "insufficient_credits": 402,
    "insufficient_quota": 429,
    "internal": 500,
    "internal_error": 500,
    "internal_server_error": 500,
    "invalid_api_key": 401,
    "invalid_argument": 400,
    "invalid_base64_image": 400,
    "invalid_encrypted_content": 400,
    "invalid_image": 400,
    "invalid_image_format": 400,
    "invalid_image_mode": 400,
    "invalid_image_url": 400,
    "invalid_prompt": 400,
    "invalid_request_error": 400,
    "misalignment_policy_violation": 400,
    "model_not_found": 404,
    "not_found": 404,
    "not_found_error": 404,
    "overloaded": 529,
    "overloaded_error": 529,
    "permission_denied": 403,
    "permission_error": 403,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "request_too_large": 413,
    "resource_exhausted": 429,
    "server_error": 500,
    "service_unavailable": 503,
    "timeout": 408,
    "timeout_error": 408,
    "unauthenticated": 401,
    "unavailable": 503,
    "unsupported_image_media_type": 400,
    "vector_store_timeout": 408,
}
_OUT_OF_MONEY = frozenset(
    {"insufficient_quota", "insufficient_credits", "billing_error", "billing_hard_limit_reached", "billing_not_active"}
)
_TOO_LONG = frozenset({"context_length_exceeded", "exceed_context_size_error"})

_HINTS: Mapping[type[ProviderError], str] = {
    AuthenticationError: "check the key and what it may be used for",
    ModelNotFoundError: "check the model's name and the base URL",
    RedirectError: "set the base URL to where the server really is; a key is not carried along a redirect",
}


def status_error(
    status: int,
    headers: Mapping[str, str],
    body: Any,
    provider: str,
    *,
    secrets: Iterable[str] = (),
) -> ProviderError:
    """The error that an HTTP answer with a status of 300 or more stands for.

    :param body: the answer's body: bytes, text, or what its JSON says.
    :param secrets: taken out of the vendor's message, which may repeat the key it refuses.
    """
    data = _parsed(body)
    words = _words(data)
    kind = _BY_STATUS.get(status) or _BY_HUNDRED.get(status // 100, ResponseError)
    if status in (400, 403, 429) and words & _OUT_OF_MONEY:
        kind = InsufficientCreditsError
    elif kind is BadRequestError and words & _TOO_LONG:
        kind = ContextLengthError
    said = _message(data, secrets)
    if kind is RedirectError and (location := _header(headers, "location")):
        said = said or f"to {redact(shown_url(location), secrets)}"
    return kind(
        f"provider '{provider}' answered {status}" + (f": {said}" if said else ""),
        provider=provider,
        status_code=status,
        retry_after=retry_after(headers),
        request_id=request_id(headers),
        phase="redirect" if kind is RedirectError else "status",
        request_sent=True,
        hint=_HINTS.get(kind),
    )


def is_error_body(data: Any) -> bool:
    """Whether the JSON of a successful answer, or of an event in a stream, is an error all the same."""
    return isinstance(data, Mapping) and bool(data.get("error"))


def body_error(data: Any, headers: Mapping[str, str], provider: str, *, secrets: Iterable[str] = ()) -> ProviderError:
    """The error inside an answer of status 200, or inside a stream, classified by the code in it.

    Its ``status_code`` is the one that the code stands for, so that whoever decides by status decides alike;
    None, and a transient ``ResponseError``, where the code says nothing.
    """
    status = code_status(data)
    if status is not None:
        error = status_error(status, headers, data, provider, secrets=secrets)
        error.message = error.message.replace(f"answered {status}", f"answered 200 with an error of kind {status}", 1)
        error.phase = "body"
        return error
    said = _message(_parsed(data), secrets) or "it does not say which"
    return ResponseError(
        f"provider '{provider}' answered 200 with an error: {said}",
        provider=provider,
        retry_after=retry_after(headers),
        request_id=request_id(headers),
        phase="body",
        request_sent=True,
    )


def code_status(data: Any) -> int | None:
    """The HTTP status that the code in an error's JSON stands for, None where it stands for none."""
    error = _error_object(_parsed(data))
    for key in ("code", "status", "type"):
        code = error.get(key)
        if isinstance(code, str) and code.isascii() and code.isdigit():
            code = int(code)
        if isinstance(code, int) and not isinstance(code, bool) and 300 <= code <= 599:
            return code
        if isinstance(code, str) and code.lower() in _STATUS_OF_WORD:
            return _STATUS_OF_WORD[code.lower()]
    return None


def request_id(headers: Mapping[str, str]) -> str | None:
    """The vendor's own id of the request: ``x-request-id``, or Anthropic's ``request-id``."""
    return _header(headers, "x-request-id") or _header(headers, "request-id")


def _header(headers: Mapping[str, str], name: str) -> str | None:
    value = headers.get(name)
    if value is None:  # a plain mapping tells case apart, the client's own does not
        value = next((each for key, each in headers.items() if key.lower() == name), None)
    return value


def _parsed(body: Any) -> Any:
    if isinstance(body, bytes | bytearray):
        body = bytes(body).decode("utf-8", "replace")
    if not isinstance(body, str):
        return body
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return body


def _error_object(data: Any) -> Mapping[str, Any]:
    if isinstance(data, list) and data:  # Google wraps the error of a stream in a list
        data = data[0]
    if not isinstance(data, Mapping):
        return {}
    inner = data.get("error")
    return inner if isinstance(inner, Mapping) else data


def _words(data: Any) -> set[str]:
    error = _error_object(data)
    return {value.lower() for key in ("code", "type", "status") if isinstance(value := error.get(key), str)}


def _message(data: Any, secrets: Iterable[str]) -> str:
    text = " ".join(redact(_raw_message(data), secrets).split())
    return text if len(text) <= MESSAGE_LIMIT else text[: MESSAGE_LIMIT - 1] + "…"


def _raw_message(data: Any) -> str:
    """The vendor's words, from the shapes in use: ``{error: {message}}``, ``{error: text}``, ``{message}``,
    ``{detail: text}`` and FastAPI's ``{detail: [{loc, msg}]}``; plain text as it is, a web page not at all."""
    if isinstance(data, str):
        return "" if data.lstrip()[:1] == "<" else data
    if isinstance(data, Mapping) and isinstance(data.get("error"), str):
        return str(data["error"])
    error = _error_object(data)
    message = error.get("message") or error.get("detail") or error.get("title")
    if isinstance(message, str):
        return message
    if isinstance(message, list):
        return "; ".join(_detail(each) for each in message)
    return ""


def _detail(each: Any) -> str:
    if not isinstance(each, Mapping):
        return str(each)
    place = ".".join(str(step) for step in each.get("loc") or ())
    return f"{place}: {each.get('msg', '')}" if place else str(each.get("msg", ""))
