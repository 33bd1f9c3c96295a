"""HTTP under a block's rules: every hop is checked, and what is dialled is what was checked."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx2
import trio

from treadle import HttpReply, HttpRequest, ToolError
from treadle_http import Proxies, open_client, open_pinned_client, to_provider_error
from treadle_sandbox.network import NetworkRules

__all__ = ["PolicyHttpClient", "open_policy_client"]

_PIECE = 16 * 1024
"""Compressed bytes that are unpacked at a time; a piece becomes at most about a thousand times as much."""


@asynccontextmanager
async def open_policy_client(rules: NetworkRules, max_body_bytes: int | None) -> AsyncIterator[PolicyHttpClient]:
    """A client for requests under these rules; proxies of the environment are used.

    :param max_body_bytes: most bytes of a reply whose request sets no limit of its own.
    """
    if rules.open:
        async with open_client() as client:
            yield PolicyHttpClient(client, rules, None, max_body_bytes)
        return
    proxies = Proxies.from_environment()
    async with open_pinned_client(rules.check_address, resolve=rules.resolve, trust_env=True) as client:
        yield PolicyHttpClient(client, rules, proxies, max_body_bytes)


class PolicyHttpClient:
    """Sends requests, and follows redirects, where the rules allow it.

    :param client: dials only addresses that the rules allow.
    :param proxies: which URLs go through a proxy, where the address is looked up once more and cannot be pinned.
    """

    def __init__(
        self, client: httpx2.AsyncClient, rules: NetworkRules, proxies: Proxies | None, max_body_bytes: int | None
    ) -> None:
        self._client = client
        self._rules = rules
        self._proxies = proxies
        self._max_body_bytes = max_body_bytes

    async def send(self, request: HttpRequest) -> HttpReply:
        """Send one request and read the reply whole, decompressed.

        A redirect is followed up to ``max_redirects`` times, checked like a request of its own; with 0 of them it is
        the reply.

        :raises SandboxError: the rules refuse the URL, an address of its host or one of the redirects.
        :raises ToolError: the URL or a header is wrong, the network failed, the body is larger than ``max_bytes``
            or there were too many redirects.
        """
        url = self._rules.parsed(request.url)
        try:
            outgoing = self._client.build_request(
                request.method,
                url,
                headers=dict(request.headers),
                content=request.content,
                timeout=request.timeout,
            )
        except (ValueError, TypeError) as error:
            raise ToolError(f"the request cannot be written as HTTP: {error}", transient=False) from error
        redirects = 0
        while True:
            place = _place(outgoing)
            try:
                await self._check(outgoing.url)
                reply, onward = await self._exchange(outgoing, request)
            except (httpx2.HTTPError, httpx2.StreamError, OSError) as error:
                # One table says what the client's errors mean, for models and for tools; it shows no secret.
                known = to_provider_error(error, "http")
                raise ToolError(f"{place}: {known.message}", hint=known.hint, transient=known.transient) from error
            if onward is None or request.max_redirects == 0:
                return reply
            redirects += 1
            if redirects > request.max_redirects:
                raise ToolError(f"{place}: more than {request.max_redirects} redirects", transient=False)
            self._rules.parsed(str(onward.url))
            outgoing = onward

    async def _check(self, url: httpx2.URL) -> None:
        self._rules.check_url(url)
        if self._proxies is not None and self._proxies.of(url) is not None:
            await self._rules.check_host(url)

    async def _exchange(
        self, outgoing: httpx2.Request, request: HttpRequest
    ) -> tuple[HttpReply, httpx2.Request | None]:
        response = await self._client.send(outgoing, stream=True, follow_redirects=False)
        own = request.max_bytes is not None
        limit = request.max_bytes if own else self._max_body_bytes
        try:
            body = await _body(response, limit)
        finally:
            await response.aclose()
        if body is None:
            name = f"the limit of {limit} bytes" if own else f"sandbox.max_body_bytes ({limit})"
            hint = None if own else "set config.sandbox.max_body_bytes higher, or to none"
            raise ToolError(f"{_place(outgoing)}: the body is larger than {name}", hint=hint, transient=False)
        reply = HttpReply(
            status_code=response.status_code,
            headers={name.lower(): value for name, value in response.headers.items()},
            body=body,
            url=str(response.url),
        )
        return reply, response.next_request


def _place(request: httpx2.Request) -> str:
    """Method and address for messages, without user name, password and query, which may hold secrets."""
    url = request.url
    host = f"[{url.host}]" if ":" in url.host else url.host
    return f"{request.method} {url.scheme}://{host}{'' if url.port is None else f':{url.port}'}{url.path}"


async def _body(response: httpx2.Response, max_bytes: int | None) -> bytes | None:
    """The body, decompressed; None where it is larger than ``max_bytes``, as received or decompressed."""
    limit = math.inf if max_bytes is None else max_bytes
    received = bytearray()
    # A generator that is left between two items is closed by the garbage collector, too late. One that is
    # cancelled in the middle of its read unwinds at once, so that is how this stops early. For the same reason
    # unpacking, which may fail, waits until the generator has ended.
    with trio.CancelScope() as scope:
        async for piece in response.aiter_raw():
            received += piece
            if len(received) > limit:
                scope.cancel()
    if len(received) > limit:
        return None
    if "content-encoding" not in response.headers:
        return bytes(received)
    pieces = (bytes(received[start : start + _PIECE]) for start in range(0, len(received), _PIECE))
    unpacked = bytearray()
    packed = httpx2.Response(response.status_code, headers=response.headers, content=pieces, request=response.request)
    for piece in packed.iter_bytes():
        unpacked += piece
        if len(unpacked) > limit:
            return None
    return bytes(unpacked)
