"""Our own transport under the HTTP client.

A pool that looks through all its connections for every request costs the square of their number. Here the idle
connections of a server lie on a stack: the one that was used last is taken, in a time that does not depend on how
many there are, and the oldest are closed when their time is over.
"""

from __future__ import annotations

import math
import ssl
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator
from types import TracebackType
from typing import Self

import httpx2
import trio

from treadle_http.connection import Connection, Head, Limits
from treadle_http.dialling import Dial, dial, open_stream
from treadle_http.limits import BODY_LIMIT
from treadle_http.proxies import Proxies
from treadle_http.reply import Reply

__all__ = ["Transport"]

_Place = tuple[str, bytes, int | None, str]


class Transport(httpx2.AsyncBaseTransport):
    """Sends requests over connections of its own, and through proxies where those are set.

    :param tls: what TLS connections trust.
    :param dial: opens TCP connections.
    :param proxies: which proxy a URL is reached through; without it none.
    :param total: most seconds of an exchange, its body included.
    :param body_limit: most bytes of a reply that is read whole.
    :param max_connections: most exchanges at a time, and most idle connections; None has no limit.
    :param keepalive_seconds: how long an idle connection is kept.
    """

    def __init__(
        self,
        *,
        tls: ssl.SSLContext,
        dial: Dial = dial,
        proxies: Proxies | None = None,
        total: float | None = None,
        body_limit: int = BODY_LIMIT,
        max_connections: int | None = None,
        keepalive_seconds: float = 30.0,
    ) -> None:
        tls.set_alpn_protocols(["http/1.1"])
        self._tls = tls
        self._dial = dial
        self._proxies = proxies
        self._total = total
        self._body_limit = body_limit
        self._slots = None if max_connections is None else trio.Semaphore(max_connections)
        self._most_idle = math.inf if max_connections is None else max_connections
        self._keepalive_seconds = keepalive_seconds
        self._idle: dict[_Place, deque[Connection]] = {}
        self._idle_count = 0
        self._next_sweep = -math.inf
        self._through: dict[str, httpx2.AsyncHTTPTransport] = {}
        self._closed = False

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send one request; the body of the response is still to be read."""
        url = request.url
        if url.scheme not in ("http", "https") or not url.host:
            raise httpx2.UnsupportedProtocol("only http:// and https:// URLs with a host are spoken")
        limits = Limits.of(request.extensions.get("timeout", {}), self._total)
        proxy = self._proxies.of(url) if self._proxies else None
        if proxy is not None:
            return await self._by_proxy(proxy, request, limits)
        if self._slots is not None:
            await limits.within(limits.pool, self._slots.acquire(), httpx2.PoolTimeout)
        name = request.extensions.get("sni_hostname") or url.raw_host.decode("ascii")
        place = (url.scheme, url.raw_host, url.port, name)
        connection: Connection | None = None
        late: type[httpx2.TimeoutException] = httpx2.ConnectTimeout
        head: Head | None = None
        try:
            with trio.CancelScope(deadline=limits.by(limits.connect)) as scope:
                connection = await self._idle_at(place) or await self._opened(url, name)
                late = httpx2.WriteTimeout
                await connection.send(request, limits, scope)
                late = httpx2.ReadTimeout
                head = await connection.head(limits, scope)
            if head is None or connection is None:
                raise limits.too_late(scope, late)
        except BaseException:
            if connection is not None:
                await connection.close()
            self._free_slot()
            raise
        body = _Body(self, place, connection, limits)
        return self._reply(
            head.status, head.headers, body, {"http_version": head.http_version, "reason_phrase": head.reason}
        )

    def _reply(
        self, status: int, headers: object, stream: httpx2.AsyncByteStream, extensions: dict[str, object]
    ) -> Reply:
        reply = Reply(status, headers=headers, stream=stream, extensions=extensions)  # type: ignore[arg-type]
        reply.body_limit = self._body_limit
        return reply

    async def _by_proxy(self, proxy: httpx2.Proxy, request: httpx2.Request, limits: Limits) -> httpx2.Response:
        through = self._through.get(str(proxy.url))
        if through is None:
            every = httpx2.Limits(max_connections=None, max_keepalive_connections=None, keepalive_expiry=5.0)
            through = self._through[str(proxy.url)] = httpx2.AsyncHTTPTransport(
                verify=self._tls, proxy=proxy, trust_env=False, limits=every
            )
        found = await limits.within(math.inf, through.handle_async_request(request), httpx2.ReadTimeout)
        assert isinstance(found.stream, httpx2.AsyncByteStream)
        return self._reply(found.status_code, found.headers, _Timed(found.stream, limits), found.extensions)

    async def _opened(self, url: httpx2.URL, server_name: str) -> Connection:
        return Connection(await open_stream(url, by=self._dial, tls=self._tls, server_name=server_name))

    async def _idle_at(self, place: _Place) -> Connection | None:
        """The idle connection that was used last, if the server has not closed it meanwhile."""
        stack = self._idle.get(place)
        now = trio.current_time()
        while stack:
            connection = stack.pop()
            self._idle_count -= 1
            if now <= connection.idle_until and not connection.is_dropped():
                return connection
            await connection.close()
        return None

    async def give_back(self, place: _Place, connection: Connection) -> None:
        """An exchange is over: its connection is kept for the next one, or closed."""
        self._free_slot()
        if self._closed or not connection.ended or not connection.ready_again():
            await connection.close()
            return
        now = trio.current_time()
        connection.idle_until = now + self._keepalive_seconds
        stack = self._idle.setdefault(place, deque())
        stack.append(connection)
        self._idle_count += 1
        if now >= self._next_sweep:
            self._next_sweep = now + self._keepalive_seconds
            await self._sweep(now)
        while stack and self._idle_count > self._most_idle:
            self._idle_count -= 1
            await stack.popleft().close()

    async def _sweep(self, now: float) -> None:
        """Close what has been idle for too long, at servers that are asked no more too."""
        for place, stack in list(self._idle.items()):
            while stack and stack[0].idle_until < now:
                self._idle_count -= 1
                await stack.popleft().close()
            if not stack and self._idle.get(place) is stack:
                del self._idle[place]

    def _free_slot(self) -> None:
        if self._slots is not None:
            self._slots.release()

    async def aclose(self) -> None:
        """Close what is idle; what is under way is closed when it is over."""
        self._closed = True
        while self._idle:
            _, stack = self._idle.popitem()
            for connection in stack:
                await connection.close()
        with trio.CancelScope(shield=True):  # waits for nothing
            while self._through:
                _, through = self._through.popitem()
                await through.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        trace: TracebackType | None = None,
    ) -> None:
        await self.aclose()


class _Body(httpx2.AsyncByteStream):
    """The rest of a reply. It gives its connection back at its end, or when it is closed before."""

    def __init__(self, transport: Transport, place: _Place, connection: Connection, limits: Limits) -> None:
        self._transport = transport
        self._place = place
        self._connection: Connection | None = connection
        self._limits = limits

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        connection = self._connection
        if connection is None:
            raise StopAsyncIteration
        try:
            piece = await connection.body(self._limits)
        except BaseException:
            await self.aclose()
            raise
        if connection.ended:
            await self.aclose()
        if piece is None:
            raise StopAsyncIteration
        return piece

    async def aclose(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await self._transport.give_back(self._place, connection)


class _Timed(httpx2.AsyncByteStream):
    """A body that comes by another transport, held to the limit for the whole exchange."""

    def __init__(self, stream: httpx2.AsyncByteStream, limits: Limits) -> None:
        self._stream = stream
        self._limits = limits
        self._parts: AsyncIterator[bytes] | None = None

    def __aiter__(self) -> AsyncIterator[bytes]:
        self._parts = aiter(self._stream)
        return self

    async def __anext__(self) -> bytes:
        assert self._parts is not None
        return await self._limits.within(math.inf, anext(self._parts), httpx2.ReadTimeout)

    async def aclose(self) -> None:
        if isinstance(self._parts, AsyncGenerator):  # left before its end, it would be closed by the garbage collector
            await self._parts.aclose()
        await self._stream.aclose()
