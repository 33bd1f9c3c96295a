"""HTTP for tools, over the shared client."""

from __future__ import annotations

import math

import httpx2
import trio

from treadle import HttpReply, HttpRequest, ToolError
from treadle_http import to_provider_error

__all__ = ["PolicyHttpClient", "check_address"]

_SCHEMES = ("http", "https")

_PIECE = 16 * 1024
"""Compressed bytes that are unpacked at a time; a piece becomes at most about a thousand times as much."""


def check_address(url: str) -> httpx2.URL:
    """The URL, which must be a whole one with the scheme http or https.

    :raises ToolError: it is not.
    """
    try:
        parsed = httpx2.URL(url)
    except (httpx2.InvalidURL, ValueError) as error:
        raise ToolError(f"not a URL: {error}", transient=False) from error
    if parsed.scheme not in _SCHEMES:
        got = f"'{parsed.scheme}'" if parsed.scheme else "none"
        raise ToolError(f"a URL must begin with http:// or https://; its scheme is {got}", transient=False)
    if not parsed.host:
        raise ToolError("the URL names no host", transient=False)
    if parsed.port is not None and not 0 < parsed.port < 65536:
        raise ToolError(f"the URL's port {parsed.port} is not between 1 and 65535", transient=False)
    return parsed


class PolicyHttpClient:
    """Sends requests with the access of this process."""

    def __init__(self, client: httpx2.AsyncClient) -> None:
        self._client = client

    async def send(self, request: HttpRequest) -> HttpReply:
        """Send one request and read the reply whole, decompressed.

        A redirect is followed up to ``max_redirects`` times; with 0 of them it is the reply.

        :raises ToolError: the URL or a header is wrong, the network failed, the body is larger than ``max_bytes``
            or there were too many redirects.
        """
        url = check_address(request.url)
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
            check_address(str(onward.url))
            outgoing = onward

    async def _exchange(
        self, outgoing: httpx2.Request, request: HttpRequest
    ) -> tuple[HttpReply, httpx2.Request | None]:
        response = await self._client.send(outgoing, stream=True, follow_redirects=False)
        try:
            body = await _body(response, request.max_bytes)
        finally:
            await response.aclose()
        if body is None:
            limit = f"the limit of {request.max_bytes} bytes"
            raise ToolError(f"{_place(outgoing)}: the body is larger than {limit}", transient=False)
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
