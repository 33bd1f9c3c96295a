"""The official SDK, used through its public low-level call.

Importing this module imports the SDK (about two seconds): it is done in a worker thread, on the first exchange.

``client.post(path, cast_to=httpx2.Response, ...)`` is the SDK's documented way to reach an endpoint without its
typed layer (its README, "Undocumented endpoints"). It keeps the SDK's authentication, base URL, headers and
errors; the typed layer, which builds an object for every event of a stream, is left out.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Literal

import anthropic
import httpx2

from treadle.errors import ProviderError
from treadle_anthropic.convert import Prepared
from treadle_anthropic.errors import error_in, error_of_status
from treadle_anthropic.replies import unreadable
from treadle_http.client import user_agent
from treadle_http.status_errors import is_error_body, request_id
from treadle_http.transport_errors import to_provider_error

__all__ = ["HANDLING", "MessagesClient", "encode", "handling_of"]

Handling = Literal["status", "transport", "reply", "fault"]

_MESSAGES = "/v1/messages"

HANDLING: Mapping[type[Exception], Handling] = {
    # an answer with an error status; every class for one status, or for one cause, is among its subclasses
    anthropic.APIStatusError: "status",
    # no answer; the HTTP client's own exception is the cause
    anthropic.APIConnectionError: "transport",
    anthropic.APITimeoutError: "transport",
    # an answer that says or is something else
    anthropic.APIError: "reply",
    anthropic.APIResponseValidationError: "reply",
    # parts of the SDK that are not used here: webhooks, middleware, credentials of a file
    anthropic.APIWebhookValidationError: "fault",
    anthropic.AnthropicError: "fault",
    anthropic.RetryableError: "fault",
    anthropic.CredentialsError: "fault",
    anthropic.IdentityTokenFileError: "fault",
}
"""What becomes of the SDK's exceptions, by class. A test fails when one is not here, nor a subclass of a status."""

_OWN_ERRORS = (
    anthropic.AnthropicError,
    httpx2.HTTPError,
    httpx2.StreamError,
    httpx2.InvalidURL,
    httpx2.CookieConflict,
    OSError,
)


class MessagesClient:
    """The Messages API, spoken to with the SDK.

    :param provider: the provider's name in this run, for errors.
    :param betas: go with every request.
    """

    def __init__(
        self,
        http: httpx2.AsyncClient,
        *,
        provider: str,
        base_url: str,
        key: str,
        headers: Mapping[str, str],
        betas: Sequence[str],
    ) -> None:
        self._provider = provider
        self._betas = tuple(betas)
        self._has_version = any(name.lower() == "anthropic-version" for name in headers)
        self.secrets = tuple(secret for secret in (key, *headers.values()) if secret)
        self._client = anthropic.AsyncAnthropic(
            api_key=key,
            base_url=base_url,
            timeout=http.timeout,
            max_retries=0,
            default_headers={"User-Agent": user_agent(), **headers},
            http_client=http,
        )

    async def post(self, prepared: Prepared) -> tuple[Any, Mapping[str, str]]:
        """The JSON of a whole answer, and its headers.

        :raises ProviderError: there is none, or it holds an error.
        """
        with self._translated():
            response = await self._client.post(
                _MESSAGES, cast_to=httpx2.Response, content=encode(prepared.body), options=self._options(prepared)
            )
        try:
            data = json.loads(response.content)
        except (ValueError, RecursionError):
            raise unreadable(
                self._provider, "answered with something that is not JSON", request_id(response.headers)
            ) from None
        if is_error_body(data):
            raise error_in(data, response.headers, self._provider, secrets=self.secrets)
        return data, response.headers

    @asynccontextmanager
    async def stream(self, prepared: Prepared) -> AsyncIterator[httpx2.Response]:
        """An answer whose body is still to be read. Leaving closes it.

        :raises ProviderError: entering, where there is no good answer; and for what reading the body raises.
        """
        with self._translated():
            response = await self._client.post(
                _MESSAGES,
                cast_to=httpx2.Response,
                content=encode(prepared.body),
                options=self._options(prepared),
                stream=True,
            )
            if not isinstance(response, httpx2.Response):
                raise TypeError(f"the SDK gave {type(response).__name__} for a response")
            try:
                yield response
            finally:
                await response.aclose()

    def _options(self, prepared: Prepared) -> Any:
        # The bytes are ours, so the SDK does not know that they are JSON.
        headers = {"Content-Type": "application/json"}
        if betas := dict.fromkeys((*self._betas, *prepared.betas)):
            headers["anthropic-beta"] = ",".join(betas)
        if prepared.version is not None and not self._has_version:
            headers["anthropic-version"] = prepared.version
        return {"headers": headers}

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except _OWN_ERRORS as error:
            translated = self._error(error)
            # Without the cause: its text is the vendor's, unredacted, and all of it that counts is in ours.
            raise translated from None

    def _error(self, error: Exception) -> ProviderError:
        handling = handling_of(type(error))
        if handling == "status" and isinstance(error, anthropic.APIStatusError):
            response = error.response
            body = error.body if not response.is_stream_consumed else response.content
            return error_of_status(
                response.status_code, response.headers, _json(body), self._provider, secrets=self.secrets
            )
        if handling == "transport":
            cause = error.__cause__ if isinstance(error, anthropic.APIConnectionError) else None
            return to_provider_error(cause or error, self._provider, secrets=self.secrets)
        if handling == "reply":
            said = {"error": getattr(error, "body", None) or str(error)}
            return error_in(said, {}, self._provider, secrets=self.secrets)
        return ProviderError(
            f"the Anthropic SDK failed with {type(error).__name__}", provider=self._provider, request_sent=False
        )


def handling_of(kind: type[BaseException]) -> Handling:
    """What becomes of an exception of this class: the SDK's by the table, the HTTP client's as transport."""
    return next((HANDLING[each] for each in kind.__mro__ if each in HANDLING), "transport")


def encode(body: Mapping[str, Any]) -> bytes:
    """A request's bytes. What UTF-8 cannot hold, as half a surrogate pair, becomes a question mark."""
    return json.dumps(body, ensure_ascii=False, separators=(",", ":"), default=dict).encode("utf-8", "replace")


def _json(body: Any) -> Any:
    try:
        return json.loads(body) if isinstance(body, bytes | str) else body
    except (ValueError, RecursionError):
        return body
