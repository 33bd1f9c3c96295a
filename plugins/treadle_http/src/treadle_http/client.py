"""The HTTP client with Treadle's defaults, and the one TLS context under all of them."""

from __future__ import annotations

import ssl
import threading
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import httpx2
import trio

from treadle_http.dialling import Dial, dial
from treadle_http.limits import BODY_LIMIT
from treadle_http.proxies import Proxies
from treadle_http.transport import Transport

__all__ = ["ANSWERED", "Timeouts", "open_client", "tls_context", "user_agent"]

ANSWERED = "treadle.answered"
"""Key in a request's extensions: set once the response's status and headers have been read."""

_KEEPALIVE_SECONDS = 30.0
_PLAIN = ("headers", "content", "timeout")

_context_lock = threading.Lock()
_context: ssl.SSLContext | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """Most seconds that each phase of an exchange may take. None waits for ever.

    ``connect`` includes the name's resolution and TLS. ``read`` is the longest silence, not the length of the whole
    reply: every piece of a stream starts it anew. ``total`` bounds the whole exchange, its body included.
    """

    connect: float | None = 10.0
    read: float | None = 300.0
    write: float | None = 30.0
    pool: float | None = 10.0
    total: float | None = None

    def for_httpx(self) -> httpx2.Timeout:
        """The same as the client's own type, which has no ``total``: that one is the transport's."""
        return httpx2.Timeout(connect=self.connect, read=self.read, write=self.write, pool=self.pool)


def tls_context() -> ssl.SSLContext:
    """The TLS context of this process, built on first use (about 30 ms, blocking) and shared by every client.

    It trusts what the machine trusts; ``SSL_CERT_FILE`` or ``SSL_CERT_DIR`` name other authorities. May be
    called from any thread.
    """
    global _context
    with _context_lock:
        if _context is None:
            _context = httpx2.create_ssl_context()
        return _context


@lru_cache(maxsize=1)
def user_agent() -> str:
    """What our requests say they are: ``treadle/<version of the kernel>``."""
    try:
        return f"treadle/{version('treadle-kernel')}"
    except PackageNotFoundError:  # run from a source tree that is not installed
        return "treadle/0"


@lru_cache(maxsize=256)
def _parsed(url: str) -> httpx2.URL:
    return httpx2.URL(url)


async def _mark_answered(response: httpx2.Response) -> None:
    # What fails from here on fails in the body; nothing in the exception itself says so.
    response.request.extensions[ANSWERED] = True


class _Client(httpx2.AsyncClient):
    """Sends by the shortest way: what a plain request does not need (redirects, login flows, cookies) is left out."""

    def __init__(self, transport: Transport, unsent: tuple[str, ...], **settings: Any) -> None:
        super().__init__(
            transport=transport,
            follow_redirects=False,
            trust_env=False,
            event_hooks={"response": [_mark_answered]},
            **settings,
        )
        self._sending = transport
        self._unsent = unsent

    def build_request(self, method: str, url: httpx2.URL | str, **given: Any) -> httpx2.Request:
        """Build a request. A URL that was seen before is not taken apart again, nor the headers joined twice."""
        known = _parsed(url) if isinstance(url, str) else url
        headers = given.get("headers")
        if not isinstance(headers, list) or any(value for name, value in given.items() if name not in _PLAIN):
            return super().build_request(method, known, **given)
        names = {name.lower() for name, _ in headers}
        joined = [pair for pair in self.headers.multi_items() if pair[0] not in names]
        joined += (
            [pair for pair in headers if not pair[0].lower().startswith(self._unsent)] if self._unsent else headers
        )
        timeout = given.get("timeout", self.timeout)
        timeout = self.timeout if timeout is httpx2.USE_CLIENT_DEFAULT else httpx2.Timeout(timeout)
        extensions = {"timeout": timeout.as_dict()}
        return httpx2.Request(method, known, headers=joined, content=given.get("content"), extensions=extensions)

    async def send(self, request: httpx2.Request, *, stream: bool = False, **special: Any) -> httpx2.Response:
        """Send a request; the same as ever where anything special is asked for it."""
        special = {name: value for name, value in special.items() if value is not httpx2.USE_CLIENT_DEFAULT}
        if special or self.is_closed or request.url.userinfo or "timeout" not in request.extensions:
            return await super().send(request, stream=stream, **special)
        try:
            response = await self._sending.handle_async_request(request)
        except httpx2.RequestError as error:
            error.request = request
            raise
        response.request = request
        request.extensions[ANSWERED] = True
        if not stream:
            try:
                await response.aread()
            except BaseException:
                await response.aclose()
                raise
        return response


@asynccontextmanager
async def open_client(
    *,
    timeouts: Timeouts | None = None,
    headers: Mapping[str, str] | None = None,
    tls: ssl.SSLContext | None = None,
    trust_env: bool = True,
    max_connections: int | None = None,
    keepalive_seconds: float = _KEEPALIVE_SECONDS,
    body_limit: int = BODY_LIMIT,
    dial: Dial = dial,
    unsent_headers: Iterable[str] = (),
) -> AsyncIterator[httpx2.AsyncClient]:
    """One HTTP client, closed on leaving. Enter and leave it in the same task; use it from any number of tasks.

    It follows no redirect, as a key would travel with it, keeps no cookies and does not retry. A request that asks for
    something special (``auth=``, ``follow_redirects=``) gets it.

    :param timeouts: most seconds for each phase; connect 10, read 300, write 30, pool 10 without it.
    :param headers: sent with every request, besides a ``User-Agent`` that they may replace.
    :param tls: trusts these certificates instead of the machine's.
    :param trust_env: read proxies from ``HTTPS_PROXY``, ``HTTP_PROXY``, ``ALL_PROXY`` and ``NO_PROXY``, as
        companies set them. Must be False wherever the address of the server is checked, since a proxy would
        look the name up again. Credentials from ``.netrc`` are never read.
    :param max_connections: a limit that makes requests wait in a queue without a word; None has no limit.
    :param keepalive_seconds: how long an idle connection stays open for the next request.
    :param body_limit: most bytes of a reply that is read whole, decompressed; a longer one is a
        ``BodyTooLargeError`` as soon as that is known. Replies that are streamed have no limit.
    :param unsent_headers: beginnings of names of headers that an SDK adds and that are not sent, such as what it tells
        of the machine.
    :param dial: opens the TCP connections; see :mod:`treadle_http.pinned` for addresses that are checked.
    """
    context = tls if tls is not None else await trio.to_thread.run_sync(tls_context)
    timeouts = timeouts or Timeouts()
    transport = Transport(
        tls=context,
        dial=dial,
        proxies=Proxies.from_environment() if trust_env else None,
        total=timeouts.total,
        body_limit=body_limit,
        max_connections=max_connections,
        keepalive_seconds=keepalive_seconds,
    )
    async with _Client(
        transport,
        tuple(name.lower() for name in unsent_headers),
        timeout=timeouts.for_httpx(),
        headers={"User-Agent": user_agent(), **(headers or {})},
    ) as client:
        yield client
