"""One connection that speaks HTTP/1.1: h11 says what the bytes mean, trio moves them, phases have their time limits.

Raises the HTTP client's own exceptions, so that nobody needs to know which transport was under a request.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass
from typing import TypeVar

import h11
import httpx2
import trio

__all__ = ["Connection", "Head", "Limits", "TotalTimeout"]

T = TypeVar("T")

_READ_BYTES = 64 * 1024
_HEAD_LIMIT = 100 * 1024
"""Most bytes of a reply's status line and headers, or of a chunk's head."""


class TotalTimeout(httpx2.TimeoutException):
    """The whole exchange, body included, took longer than it may."""


@dataclass(frozen=True, slots=True)
class Limits:
    """When each phase of one exchange must be over: seconds for each, and a moment of trio's clock for the whole."""

    connect: float
    read: float
    write: float
    pool: float
    deadline: float

    @classmethod
    def of(cls, timeouts: Mapping[str, float | None], total: float | None) -> Limits:
        """From what a request carries, and the client's limit for the whole."""

        def seconds(phase: str) -> float:
            given = timeouts.get(phase)
            return math.inf if given is None else given

        deadline = math.inf if total is None else trio.current_time() + total
        return cls(seconds("connect"), seconds("read"), seconds("write"), seconds("pool"), deadline)

    async def within(self, seconds: float, awaited: Awaitable[T], late: type[httpx2.TimeoutException]) -> T:
        """The awaited, unless it takes too long: then ``late``, or ``TotalTimeout`` where that came first.

        :raises TimeoutException: it took too long.
        """
        with trio.CancelScope(deadline=self.by(seconds)) as scope:
            return await awaited
        raise self.too_late(scope, late)

    def by(self, seconds: float) -> float:
        """The moment when a phase that begins now must be over."""
        return min(trio.current_time() + seconds, self.deadline)

    def too_late(self, scope: trio.CancelScope, late: type[httpx2.TimeoutException]) -> httpx2.TimeoutException:
        """What to raise where a scope's deadline has come: ``TotalTimeout`` if it was that of the whole."""
        return (TotalTimeout if scope.deadline >= self.deadline else late)("timed out")


@dataclass(frozen=True, slots=True)
class Head:
    """A reply's first part."""

    status: int
    reason: bytes
    headers: list[tuple[bytes, bytes]]
    http_version: bytes


class Connection:
    """An open stream to one server; one exchange at a time.

    :ivar ended: whether the reply's body has come to its end.
    :ivar idle_until: the moment after which nobody should use it again; whoever keeps it sets and heeds it.
    """

    __slots__ = ("_failure", "_h11", "_stream", "ended", "idle_until")

    def __init__(self, stream: trio.abc.Stream) -> None:
        self._stream = stream
        self._h11 = h11.Connection(h11.CLIENT, max_incomplete_event_size=_HEAD_LIMIT)
        self._failure: httpx2.RemoteProtocolError | None = None
        self.ended = False
        self.idle_until = math.inf

    async def send(self, request: httpx2.Request, limits: Limits, scope: trio.CancelScope) -> None:
        """Write the request. A server that stops reading may have answered already: that is no error here.

        :param scope: around this; its deadline is set for every piece. One scope for all phases is cheaper than many.
        :raises LocalProtocolError: it cannot be written as HTTP; nothing of it was sent.
        """
        try:
            data = self._said(
                h11.Request(method=request.method, target=request.url.raw_path, headers=request.headers.raw)
            )
            stream = request.stream
            if isinstance(stream, httpx2.ByteStream):  # known as a whole: in one write with the head
                data += self._said(h11.Data(data=b"".join(stream)))
            elif isinstance(stream, httpx2.AsyncByteStream):
                async for piece in stream:
                    scope.deadline = limits.by(limits.write)
                    await self._write(data + self._said(h11.Data(data=piece)))
                    data = b""
            data += self._said(h11.EndOfMessage())
        except h11.LocalProtocolError as error:
            raise httpx2.LocalProtocolError(str(error)) from error
        scope.deadline = limits.by(limits.write)
        await self._write(data)

    async def head(self, limits: Limits, scope: trio.CancelScope) -> Head:
        """Wait for the reply's status and headers; ``scope`` as in :meth:`send`."""
        while True:
            event = self._next()
            if event is h11.NEED_DATA:
                scope.deadline = limits.by(limits.read)
                await self._receive()
            elif isinstance(event, h11.Response):
                version = b"HTTP/" + event.http_version
                return Head(event.status_code, event.reason, event.headers.raw_items(), version)
            elif isinstance(event, h11.InformationalResponse) and event.status_code == 101:
                raise httpx2.RemoteProtocolError("the server changed the protocol without being asked")

    async def body(self, limits: Limits) -> bytes | None:
        """All of the body that has come since the last call, None at its end.

        What has come is never held back for more; and small chunks that came together are given as one piece.
        """
        pieces: list[bytes] = []
        while not self.ended:
            try:
                event = self._next()
            except httpx2.RemoteProtocolError as error:
                if not pieces:
                    raise
                self._failure = error  # told in the next call: what came before it is whole
                break
            if type(event) is h11.Data:
                pieces.append(bytes(event.data))
            elif event is not h11.NEED_DATA:
                self.ended = True
            elif pieces:
                break
            else:
                await limits.within(limits.read, self._receive(), httpx2.ReadTimeout)
        return b"".join(pieces) if pieces else None

    def is_dropped(self) -> bool:
        """Whether the server has closed an idle connection, or has sent what nobody asked for."""
        stream = self._stream
        while isinstance(stream, trio.SSLStream):
            stream = stream.transport_stream
        return isinstance(stream, trio.SocketStream) and stream.socket.is_readable()

    def ready_again(self) -> bool:
        """Whether another exchange may follow, now that one is over."""
        ours, theirs = self._h11.our_state, self._h11.their_state
        if ours is not h11.DONE or theirs is not h11.DONE or self._h11.trailing_data[0]:
            return False
        self._h11.start_next_cycle()
        self.ended = False
        return True

    async def close(self) -> None:
        """Close it at once, also in a task that is being cancelled."""
        with trio.CancelScope(shield=True):  # closing a socket, or TLS without a farewell, waits for nothing
            await self._stream.aclose()

    def _said(self, event: h11.Event) -> bytes:
        return self._h11.send(event) or b""

    async def _write(self, data: bytes) -> None:
        try:
            await self._stream.send_all(data)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return

    async def _receive(self) -> None:
        try:
            data = await self._stream.receive_some(_READ_BYTES)
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            raise httpx2.ReadError(str(error)) from error
        if not data and self._h11.their_state is h11.SEND_RESPONSE:
            raise httpx2.RemoteProtocolError("Server disconnected without sending a response.")
        self._h11.receive_data(bytes(data))

    def _next(self) -> h11.Event | type[h11.PAUSED] | type[h11.NEED_DATA]:
        if self._failure is not None:
            raise self._failure
        try:
            return self._h11.next_event()
        except h11.RemoteProtocolError as error:
            raise httpx2.RemoteProtocolError(str(error)) from error
