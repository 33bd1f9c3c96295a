"""A scripted HTTP/1.1 server on the loopback: what every vendor's test double is built on.

It runs in the test's own trio loop. Replies are scripted one by one; requests are recorded; and while a reply is
being written the server watches for the client's going away, so a test can wait for that.
"""

from __future__ import annotations

import json
import struct
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from socket import SO_LINGER, SOL_SOCKET
from typing import Any, ClassVar, Protocol, Self

import trio

__all__ = [
    "Bytes",
    "Connection",
    "Drop",
    "Hang",
    "Json",
    "Recorded",
    "Reply",
    "Streamed",
    "Text",
    "WireServer",
    "header_names",
    "in_json",
]

_REASONS = {
    200: "OK",
    302: "Found",
    400: "Bad Request",
    401: "Unauthorized",
    404: "Not Found",
    429: "Too Many Requests",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """A request as it arrived. Header names are in lower case."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """Its body's JSON."""
        return json.loads(self.body)


class Connection:
    """One connection of a client."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self.stream = stream
        self._buffer = bytearray()

    async def request(self) -> Recorded | None:
        """The next request, None where the client has gone."""
        while (end := self._buffer.find(b"\r\n\r\n")) < 0:
            if not await self._more():
                return None
        first, *rest = self._buffer[:end].decode("latin-1").split("\r\n")
        method, path, _ = first.split(" ", 2)
        headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in rest)}
        length = end + 4 + int(headers.get("content-length", "0"))
        while len(self._buffer) < length:
            if not await self._more():
                return None
        body = bytes(self._buffer[end + 4 : length])
        del self._buffer[:length]
        return Recorded(method=method, path=path, headers=headers, body=body)

    async def gone(self) -> None:
        """Return once the client has closed its end."""
        while await self._more():
            pass

    async def head(self, status: int, headers: Mapping[str, str]) -> None:
        """Write a reply's status and headers."""
        lines = [f"HTTP/1.1 {status} {_REASONS.get(status, 'Status')}", *(f"{k}: {v}" for k, v in headers.items())]
        await self.stream.send_all("\r\n".join((*lines, "", "")).encode("latin-1"))

    async def chunk(self, data: bytes) -> None:
        """Write a piece of a chunked body; an empty one ends it."""
        await self.stream.send_all(b"%x\r\n%s\r\n" % (len(data), data))

    def reset_on_close(self) -> None:
        """Make closing an abrupt reset instead of an orderly end."""
        self.stream.setsockopt(SOL_SOCKET, SO_LINGER, struct.pack("ii", 1, 0))

    async def _more(self) -> bool:
        try:
            data = await self.stream.receive_some(65536)
        except trio.BrokenResourceError:
            return False
        self._buffer += data
        return bool(data)


class Reply(Protocol):
    """A scripted reply. ``send`` says whether the connection may be used again."""

    async def send(self, connection: Connection, request: Recorded) -> bool:
        """Write it."""
        ...


@dataclass(frozen=True, slots=True)
class Bytes:
    """A body of any type, in one piece. ``cut`` sends only so many of its bytes and closes."""

    body: bytes
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    content_type: str = "application/octet-stream"
    delay: float = 0.0
    cut: int | None = None

    async def send(self, connection: Connection, request: Recorded) -> bool:
        await trio.sleep(self.delay)
        head = {"content-type": self.content_type, "content-length": str(len(self.body)), **self.headers}
        await connection.head(self.status, head)
        await connection.stream.send_all(self.body if self.cut is None else self.body[: self.cut])
        return self.cut is None


def Json(
    data: Any,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
    *,
    delay: float = 0.0,
    cut: int | None = None,
) -> Bytes:
    """A reply of JSON."""
    return Bytes(json.dumps(data).encode(), status, headers or {}, "application/json", delay, cut)


def Text(
    text: str, status: int = 200, headers: Mapping[str, str] | None = None, *, content_type: str = "text/plain"
) -> Bytes:
    """A reply of text."""
    return Bytes(text.encode(), status, headers or {}, content_type)


@dataclass(frozen=True, slots=True)
class Hang:
    """Read the request and never reply."""

    async def send(self, connection: Connection, request: Recorded) -> bool:
        await trio.sleep_forever()


@dataclass(frozen=True, slots=True)
class Drop:
    """Read the request and close, in order or by a reset."""

    reset: bool = False

    async def send(self, connection: Connection, request: Recorded) -> bool:
        if self.reset:
            connection.reset_on_close()
        return False


@dataclass(frozen=True, slots=True)
class Streamed:
    """A streamed reply, as server-sent events; a vendor with other frames says how it writes one.

    :param pieces: each is sent in a frame: JSON, or text as it stands (a piece that is not JSON). Bytes are sent as
        they stand, without a frame (anything at all).
    :param pause: seconds before each.
    :param then: what follows them: ``end`` closes the body in order, ``cut`` drops the connection inside it, ``reset``
        does so abruptly, ``hang`` sends nothing more.
    """

    pieces: Iterable[Mapping[str, Any] | str | bytes]
    pause: float = 0.0
    then: str = "end"
    headers: Mapping[str, str] = field(default_factory=dict)

    content_type: ClassVar[str] = "text/event-stream"

    def framed(self, piece: Mapping[str, Any] | str) -> str:
        """A piece in its frame."""
        return f"data: {in_json(piece)}\n\n"

    def frames(self) -> list[bytes]:
        """All that is written."""
        return [each if isinstance(each, bytes) else self.framed(each).encode() for each in self.pieces]

    async def send(self, connection: Connection, request: Recorded) -> bool:
        """Write it."""
        head = {"content-type": self.content_type, "transfer-encoding": "chunked", **self.headers}
        await connection.head(200, head)
        for each in self.frames():
            await trio.sleep(self.pause)
            await connection.chunk(each)
        if self.then == "hang":
            await trio.sleep_forever()
        if self.then == "reset":
            await trio.sleep(0.05)  # a reset discards what the client has not read yet
            connection.reset_on_close()
        if self.then != "end":
            return False
        await connection.chunk(b"")
        return True


def in_json(piece: Mapping[str, Any] | str) -> str:
    """The text of a piece: letters of all languages stand as they are, as vendors write them."""
    return piece if isinstance(piece, str) else json.dumps(piece, ensure_ascii=False)


def header_names(headers: Mapping[str, str]) -> dict[str, str]:
    """Keyword arguments as headers: ``retry_after="3"`` is ``retry-after: 3``."""
    return {name.replace("_", "-"): value for name, value in headers.items()}


class WireServer:
    """The server. Open it with ``async with Server.open() as server``.

    Replies come from :attr:`replies`, first in first out, and from :meth:`default_reply` where there are none left.

    :ivar requests: everything that was asked, in order of arrival.
    :ivar disconnects: how often a client went away before its reply was complete.
    :ivar connections: how many connections are open.
    """

    def __init__(self) -> None:
        self.replies: deque[Reply | Callable[[Recorded], Reply]] = deque()
        self.requests: list[Recorded] = []
        self.disconnects = 0
        self.connections = 0
        self.accepted = 0
        self.port = 0
        self._changed = trio.Condition()

    @classmethod
    @asynccontextmanager
    async def open(cls) -> AsyncIterator[Self]:
        """Serve until the body is left."""
        server = cls()
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        server.port = listeners[0].socket.getsockname()[1]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.serve_listeners, server._serve, listeners)
            yield server
            nursery.cancel_scope.cancel()

    @property
    def url(self) -> str:
        """Its address, without a path."""
        return f"http://127.0.0.1:{self.port}"

    def reply(self, *replies: Reply | Callable[[Recorded], Reply]) -> None:
        """Script the next replies; a function makes its reply from the request."""
        self.replies.extend(replies)

    def default_reply(self, request: Recorded) -> Reply:
        """What is answered where nothing is scripted."""
        return Json({"error": {"message": f"no reply is scripted for {request.path}"}}, 500)

    @property
    def last(self) -> Recorded:
        """The last request."""
        return self.requests[-1]

    def bodies(self) -> Sequence[Any]:
        """The JSON of every request."""
        return [request.json for request in self.requests]

    async def until(self, holds: Callable[[Self], bool], *, seconds: float = 5.0) -> None:
        """Wait until something is true of the server; fails the test where it does not come true."""
        with trio.fail_after(seconds):
            async with self._changed:
                while not holds(self):
                    await self._changed.wait()

    async def _notify(self) -> None:
        with trio.CancelScope(shield=True):  # the lock is never held across anything that waits
            async with self._changed:
                self._changed.notify_all()

    async def _serve(self, stream: trio.SocketStream) -> None:
        self.connections += 1
        self.accepted += 1
        await self._notify()
        try:
            connection = Connection(stream)
            while (request := await connection.request()) is not None:
                self.requests.append(request)
                await self._notify()
                scripted = self.replies.popleft() if self.replies else self.default_reply
                reply = scripted(request) if callable(scripted) else scripted
                if not await self._answer(connection, request, reply):
                    break
        finally:
            self.connections -= 1
            await self._notify()

    async def _answer(self, connection: Connection, request: Recorded, reply: Reply) -> bool:
        """Write the reply while watching for the client's going away."""
        again = finished = False

        async def watch(scope: trio.CancelScope) -> None:
            await connection.gone()
            scope.cancel()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(watch, nursery.cancel_scope)
            try:
                again = await reply.send(connection, request)
                finished = True
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                finished = False
            nursery.cancel_scope.cancel()
        if not finished:
            self.disconnects += 1
            await self._notify()
        return again and finished
