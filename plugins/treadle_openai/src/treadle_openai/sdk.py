"""The official SDK, used through its public low-level call.

Importing this module imports the SDK (about a second): it is done in a worker thread, on the first exchange.

``client.post(path, cast_to=httpx2.Response, ...)`` is the SDK's documented way to reach an endpoint without its
typed layer (its README, "Undocumented endpoints"). It keeps the SDK's authentication, base URL, headers and
errors; the typed layer, which walks the whole history on every call and builds an object for every chunk, is
left out.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Literal

import httpx2
import openai

from treadle.errors import BadRequestError, ProviderError, ResponseError
from treadle_http.client import user_agent
from treadle_http.history import encoded
from treadle_http.status_errors import body_error, is_error_body, request_id, status_error
from treadle_http.transport_errors import to_provider_error

__all__ = ["HANDLING", "Client", "StaleReasoningError"]

Handling = Literal["status", "transport", "reply", "fault"]

HANDLING: Mapping[type[Exception], Handling] = {
    # an answer with an error status
    openai.APIStatusError: "status",
    openai.AuthenticationError: "status",
    openai.BadRequestError: "status",
    openai.ConflictError: "status",
    openai.InternalServerError: "status",
    openai.NotFoundError: "status",
    openai.OAuthError: "status",
    openai.PermissionDeniedError: "status",
    openai.RateLimitError: "status",
    openai.UnprocessableEntityError: "status",
    # no answer; the HTTP client's own exception is the cause
    openai.APIConnectionError: "transport",
    openai.APITimeoutError: "transport",
    # an answer that says or is something else
    openai.APIError: "reply",
    openai.APIResponseValidationError: "reply",
    openai.ContentFilterFinishReasonError: "reply",
    openai.LengthFinishReasonError: "reply",
    # parts of the SDK that are not used here
    openai.InvalidWebhookSignatureError: "fault",
    openai.OpenAIError: "fault",
    openai.WebSocketConnectionClosedError: "fault",
    openai.WebSocketQueueFullError: "fault",
}
"""Every exception class of the SDK. A test fails when it grows one that is not here."""


class StaleReasoningError(BadRequestError):
    """The server cannot read the encrypted reasoning of earlier turns: another account's, or another model's."""


_STALE = "invalid_encrypted_content"

_OWN_ERRORS = (
    openai.OpenAIError,
    httpx2.HTTPError,
    httpx2.StreamError,
    httpx2.InvalidURL,
    httpx2.CookieConflict,
    OSError,
)

_PATHS = ("chat/completions", "responses", "embeddings")
_SDK_HEADERS = ("accept", "content-type", "user-agent", "authorization")


class Client:
    """One server, spoken to with the SDK.

    :param provider: the provider's name in this run, for errors.
    :param key: None sends no ``Authorization`` at all.
    :param is_openai: the server is OpenAI's, or set to stand for it: then what the SDK reads from the environment
        for OpenAI (organization, project, ``OPENAI_CUSTOM_HEADERS``) is sent, else none of it.
    """

    def __init__(
        self,
        http: httpx2.AsyncClient,
        *,
        provider: str,
        base_url: str,
        key: str | None,
        headers: Mapping[str, str],
        is_openai: bool,
        organization: str | None = None,
        project: str | None = None,
    ) -> None:
        self._provider = provider
        self.secrets = tuple(secret for secret in (key, *headers.values()) if secret)
        self._client = openai.AsyncOpenAI(
            api_key=key or "none",  # the SDK demands one; without ours the header is left out below
            organization=organization,
            project=project,
            base_url=base_url,
            timeout=http.timeout,
            max_retries=0,
            default_headers={"User-Agent": user_agent(), **headers},
            http_client=http,
        )
        ours = {name.lower() for name in headers}
        left_out: dict[str, Any] = {}
        if key is None and "authorization" not in ours:
            left_out["Authorization"] = openai.omit
        if not is_openai:
            # What the environment holds for OpenAI is nobody else's business.
            for name in self._client.default_headers:
                known = name.lower() in ours or name.lower() in _SDK_HEADERS or name.lower().startswith("x-stainless-")
                if not known:
                    left_out[name] = openai.omit
        # The key is named as the only credential: the SDK would fall back on OPENAI_ADMIN_KEY. The rest says what is
        # the default anyway; what is not said, the SDK copies deeply for every call.
        self._options: Any = {
            "headers": left_out,
            "security": {"bearer_auth": True},
            "params": {},
            "max_retries": 0,
            "timeout": http.timeout,
        }
        base = self._client.base_url
        self._urls = {path: str(base.copy_with(raw_path=base.raw_path + path.encode())) for path in _PATHS}

    def is_stale(self, error: Exception) -> bool:
        """Whether the server has refused encrypted reasoning of earlier turns."""
        return isinstance(error, StaleReasoningError)

    async def post(self, path: str, body: Mapping[str, Any]) -> tuple[Any, Mapping[str, str]]:
        """The JSON of a whole answer, and its headers.

        :raises ProviderError: there is none, or it holds an error.
        """
        with self._translated():
            response = await self._client.post(
                self._urls[path], cast_to=httpx2.Response, content=encoded(body), options=self._options
            )
        try:
            data = json.loads(response.content)
        except (ValueError, RecursionError):
            raise ResponseError(
                f"provider '{self._provider}' answered with something that is not JSON",
                provider=self._provider,
                request_id=request_id(response.headers),
                phase="body",
                request_sent=True,
            ) from None
        if is_error_body(data):
            raise _recognized(body_error(data, response.headers, self._provider, secrets=self.secrets), data)
        return data, response.headers

    @asynccontextmanager
    async def stream(self, path: str, body: Mapping[str, Any]) -> AsyncIterator[httpx2.Response]:
        """An answer whose body is still to be read. Leaving closes it.

        :raises ProviderError: entering, where there is no good answer; and for what reading the body raises.
        """
        with self._translated():
            response = await self._client.post(
                self._urls[path], cast_to=httpx2.Response, content=encoded(body), options=self._options, stream=True
            )
            if not isinstance(response, httpx2.Response):
                raise TypeError(f"the SDK gave {type(response).__name__} for a response")
            try:
                yield response
            finally:
                await response.aclose()

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except _OWN_ERRORS as error:
            translated = self._error(error)
            # Without the cause: its text is the vendor's, unredacted, and all of it that counts is in ours.
            raise translated from None

    def _error(self, error: Exception) -> ProviderError:
        handling = next((HANDLING[kind] for kind in type(error).__mro__ if kind in HANDLING), "transport")
        if handling == "status" and isinstance(error, openai.APIStatusError):
            response = error.response
            body = error.body if not response.is_stream_consumed else response.content
            known = status_error(response.status_code, response.headers, body, self._provider, secrets=self.secrets)
            return _recognized(known, body)
        if handling == "transport":
            cause = error.__cause__ if isinstance(error, openai.APIConnectionError) else None
            return to_provider_error(cause or error, self._provider, secrets=self.secrets)
        if handling == "reply":
            return body_error(
                {"error": getattr(error, "body", None) or str(error)}, {}, self._provider, secrets=self.secrets
            )
        return ProviderError(
            f"the OpenAI SDK failed with {type(error).__name__}", provider=self._provider, request_sent=False
        )


def _recognized(error: ProviderError, body: Any) -> ProviderError:
    """The error, or the one that says that reasoning was refused."""
    if type(error) is not BadRequestError or _STALE not in str(body):
        return error
    return StaleReasoningError(
        error.message,
        provider=error.provider,
        status_code=error.status_code,
        request_id=error.request_id,
        phase=error.phase,
        request_sent=True,
        hint="leave the reasoning of earlier turns out",
    )
