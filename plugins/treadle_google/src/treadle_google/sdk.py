"""The official SDK, used for what it knows of the API: authentication, addresses, versions, headers, error statuses.

Importing this module imports the SDK (about a second): it is done in a worker thread, on the first exchange.

The SDK has no public low-level call. It has two public ways around its typed layer, and both are used here:
``HttpOptions.extra_body`` puts a request's JSON in as it is, and ``HttpOptions.httpx_async_client`` takes a client of
ours, whose transport hands a good answer to whoever asked and gives the SDK an empty one. See docs/decisions/0025.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Literal

import httpx2
from google import genai
from google.genai import errors, types

from treadle.errors import BadRequestError, ProviderError
from treadle_google.errors import answer_error, reply_error
from treadle_http.client import user_agent
from treadle_http.limits import BodyTooLargeError
from treadle_http.redaction import redact
from treadle_http.status_errors import MESSAGE_LIMIT
from treadle_http.transport_errors import to_provider_error

__all__ = ["HANDLING", "GeminiClient"]

Handling = Literal["status", "reply", "fault"]

HANDLING: Mapping[type[Exception], Handling] = {
    # an answer with an error status
    errors.APIError: "status",
    errors.ClientError: "status",
    errors.ServerError: "status",
    # an answer that is something else
    errors.UnknownApiResponseError: "reply",
    # parts of the SDK that are not used here
    errors.ContinuationInterruptedError: "fault",
    errors.FunctionInvocationError: "fault",
    errors.UnknownFunctionCallArgumentError: "fault",
    errors.UnsupportedFunctionError: "fault",
}
"""Every exception class of the SDK. A test fails when it grows one that is not here."""

_OWN_ERRORS: tuple[type[Exception], ...] = (
    *HANDLING,
    httpx2.HTTPError,
    httpx2.StreamError,
    httpx2.InvalidURL,
    httpx2.CookieConflict,
    BodyTooLargeError,
    OSError,
)


@dataclass(slots=True)
class _Handover:
    """What one call of the SDK brought: a good answer whose body is still to be read, or one with an error status."""

    answer: httpx2.Response | None = None
    refused: tuple[int, Mapping[str, str], bytes] | None = None


_handover: ContextVar[_Handover] = ContextVar("treadle_google_handover")


class _Handing(httpx2.AsyncBaseTransport):
    """Sends the SDK's requests through our pool, and keeps the answers for those who asked."""

    def __init__(self, pool: httpx2.AsyncClient) -> None:
        self._pool = pool

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        kept = _handover.get()
        request.extensions["timeout"] = self._pool.timeout.as_dict()  # the SDK asks for none at all
        response = await self._pool.send(request, stream=True)
        if response.status_code == 200:
            kept.answer = response
            return httpx2.Response(200)
        try:
            body = await response.aread()
        finally:
            await response.aclose()
        kept.refused = (response.status_code, response.headers, body)
        return httpx2.Response(response.status_code, json={})


class GeminiClient:
    """One server, spoken to with the SDK.

    :param pool: where requests go through; it is not closed here.
    :param provider: the provider's name in this run, for errors.
    """

    def __init__(
        self,
        pool: httpx2.AsyncClient,
        *,
        provider: str,
        base_url: str,
        api_version: str,
        key: str,
        headers: Mapping[str, str],
    ) -> None:
        self._provider = provider
        self.secrets = tuple(secret for secret in (key, *headers.values()) if secret)
        self._http = httpx2.AsyncClient(transport=_Handing(pool), trust_env=False)
        self._no_threads = httpx2.Client(transport=httpx2.MockTransport(_refuse), trust_env=False)
        options = types.HttpOptions(
            base_url=base_url,
            api_version=api_version,
            headers={"user-agent": user_agent(), **headers},
            httpx_async_client=self._http,
            httpx_client=self._no_threads,  # the SDK would build one, with a TLS context of its own
        )
        with _unheard():
            self._client = genai.Client(api_key=key, vertexai=False, http_options=options)

    async def aclose(self) -> None:
        """Let go of the SDK's clients. They have no connections of their own."""
        self._no_threads.close()
        await self._http.aclose()

    @asynccontextmanager
    async def generate(self, model: str, body: dict[str, Any], *, stream: bool) -> AsyncIterator[httpx2.Response]:
        """An answer whose body is still to be read. Leaving closes it.

        :raises ProviderError: entering, where there is no good answer; and for what reading the body raises.
        """
        models = self._client.aio.models
        # A mapping, as the SDK copies a typed one to its depth.
        config: Any = {
            "automatic_function_calling": types.AutomaticFunctionCallingConfig(disable=True),
            "automatic_continuation": False,
            "http_options": types.HttpOptions(extra_body=body),
        }

        async def ask() -> None:
            if stream:
                async for _ in await models.generate_content_stream(model=model, contents="-", config=config):
                    pass
            else:
                await models.generate_content(model=model, contents="-", config=config)

        async with self._answered(ask) as response:
            yield response

    @asynccontextmanager
    async def embed(self, model: str, body: dict[str, Any]) -> AsyncIterator[httpx2.Response]:
        """The same for vectors."""
        config: Any = {"http_options": types.HttpOptions(extra_body=body)}

        async def ask() -> None:
            await self._client.aio.models.embed_content(model=model, contents="-", config=config)

        async with self._answered(ask) as response:
            yield response

    @asynccontextmanager
    async def _answered(self, ask: Callable[[], Awaitable[None]]) -> AsyncIterator[httpx2.Response]:
        kept = _Handover()
        with self._translated(kept):
            try:
                token = _handover.set(kept)
                try:
                    await ask()
                except ValueError as error:
                    # Such as a model's name that is none: the SDK looks before it asks.
                    if isinstance(error, _OWN_ERRORS):
                        raise
                    raise self._refusal(error) from None
                finally:
                    _handover.reset(token)
                if kept.answer is None:
                    raise TypeError("the SDK did not ask the server")
                yield kept.answer
            finally:
                if kept.answer is not None:
                    await kept.answer.aclose()

    def _refusal(self, error: ValueError) -> BadRequestError:
        said = " ".join(redact(str(error), self.secrets).split())[:MESSAGE_LIMIT]
        return BadRequestError(
            f"the Google SDK refuses the request: {said}", provider=self._provider, request_sent=False
        )

    @contextmanager
    def _translated(self, kept: _Handover) -> Iterator[None]:
        try:
            yield
        except _OWN_ERRORS as error:
            translated = self._error(error, kept)
            # Without the cause: its text is the vendor's, unredacted, and all of it that counts is in ours.
            raise translated from None

    def _error(self, error: Exception, kept: _Handover) -> ProviderError:
        handling = next((HANDLING[kind] for kind in type(error).__mro__ if kind in HANDLING), None)
        if handling is None:
            return to_provider_error(error, self._provider, secrets=self.secrets)
        if handling == "status" and kept.refused is not None:
            return answer_error(*kept.refused, self._provider, secrets=self.secrets)
        if handling == "reply" or handling == "status":
            said = getattr(error, "details", None) or {"error": str(error)}
            return reply_error(said, {}, self._provider, secrets=self.secrets)
        return ProviderError(
            f"the Google SDK failed with {type(error).__name__}", provider=self._provider, request_sent=False
        )


@contextmanager
def _unheard() -> Iterator[None]:
    """Without what the SDK logs of keys in the environment, which are not asked for."""
    logger = logging.getLogger("google_genai._api_client")
    logger.addFilter(_nothing)
    try:
        yield
    finally:
        logger.removeFilter(_nothing)


def _nothing(record: logging.LogRecord) -> bool:
    return False


def _refuse(request: httpx2.Request) -> httpx2.Response:
    raise TypeError("the SDK's blocking half is not used")
