"""One HTTP request on one connection: read within limits, answered, and the connection closed.

h11 knows HTTP/1.1 (RFC 9112) and refuses what is malformed. One request a connection leaves nothing that could be
taken for the beginning of another one.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import h11
import trio

__all__ = ["Answer", "Request", "exchange"]

MOST_HEADER_BYTES = 16 * 1024
MOST_BODY_BYTES = 64 * 1024
SECONDS_TO_SEND = 10.0
"""A whole request arrives in this time, and its answer leaves in as much."""
_SECONDS_TO_LEAVE = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What was asked. Header names are small; of a header that stands twice the values are joined by ``, ``."""

    method: str
    target: str
    headers: Mapping[str, bytes]
    body: bytes


@dataclass(frozen=True, slots=True)
class Answer:
    """What is answered, as JSON."""

    status: int
    data: Mapping[str, Any]


class _RefusedError(Exception):
    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.answer = Answer(status, {"error": why})


async def exchange(stream: trio.abc.HalfCloseableStream, answer: Callable[[Request], Awaitable[Answer]]) -> None:
    """Read a request, answer it and close the connection. What the other side does wrong ends with it."""
    connection = h11.Connection(h11.SERVER, max_incomplete_event_size=MOST_HEADER_BYTES)
    try:
        async with stream:
            made: Answer | None = None
            methods: list[bytes] = []
            with trio.move_on_after(SECONDS_TO_SEND):
                try:
                    request = await _request(connection, stream, methods)
                except h11.RemoteProtocolError as error:
                    made = Answer(error.error_status_hint, {"error": f"not HTTP/1.1: {error}"})
                except _RefusedError as error:
                    made = error.answer
                else:
                    if request is None:
                        return  # it left without asking
                    made = await answer(request)
            with trio.move_on_after(SECONDS_TO_SEND):
                made = made or Answer(408, {"error": "the request took too long"})
                await _respond(connection, stream, made, is_head=b"HEAD" in methods)
    except (trio.BrokenResourceError, trio.ClosedResourceError):
        return  # nobody is there any more


async def _request(connection: h11.Connection, stream: trio.abc.Stream, methods: list[bytes]) -> Request | None:
    """The whole request, None where the client has left. ``methods`` has its method as soon as that is known."""
    head: h11.Request | None = None
    body = bytearray()
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            if connection.they_are_waiting_for_100_continue:
                go_on = h11.InformationalResponse(status_code=100, headers=[])
                await stream.send_all(connection.send(go_on) or b"")
            connection.receive_data(bytes(await stream.receive_some(16 * 1024)))
        elif isinstance(event, h11.Request):
            head = event
            methods.append(event.method)
            _check_length(event)
        elif isinstance(event, h11.Data):
            body += event.data
            if len(body) > MOST_BODY_BYTES:
                raise _RefusedError(413, f"a body has at most {MOST_BODY_BYTES} bytes")
        elif isinstance(event, h11.EndOfMessage) and head is not None:
            return Request(
                method=head.method.decode("ascii"),
                target=head.target.decode("latin-1"),
                headers=_headers(head),
                body=bytes(body),
            )
        else:
            return None


def _check_length(head: h11.Request) -> None:
    """Refuse what two readers may read in two ways, and what is too long, before it has arrived."""
    if sum(len(name) + len(value) for name, value in head.headers) + len(head.target) > MOST_HEADER_BYTES:
        raise _RefusedError(431, f"a head has at most {MOST_HEADER_BYTES} bytes")
    names = [name for name, _ in head.headers]
    if b"transfer-encoding" in names and b"content-length" in names:
        raise _RefusedError(400, "Content-Length and Transfer-Encoding exclude each other")
    if b"transfer-encoding" in names and head.http_version == b"1.0":
        raise _RefusedError(400, "HTTP/1.0 has no Transfer-Encoding")
    length = next((value for name, value in head.headers if name == b"content-length"), b"0")
    if int(length) > MOST_BODY_BYTES:
        raise _RefusedError(413, f"a body has at most {MOST_BODY_BYTES} bytes")


def _headers(head: h11.Request) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for raw, value in head.headers:
        name = raw.decode("ascii")
        found[name] = found[name] + b", " + value if name in found else value
    return found


async def _respond(
    connection: h11.Connection, stream: trio.abc.HalfCloseableStream, made: Answer, *, is_head: bool
) -> None:
    body = json.dumps(made.data).encode("ascii") + b"\n"
    headers = [
        ("Content-Type", "application/json"),
        ("Content-Length", str(len(body))),
        ("Cache-Control", "no-store"),
        ("X-Content-Type-Options", "nosniff"),
        ("Connection", "close"),
    ]
    if made.status == 401:
        headers.append(("WWW-Authenticate", "Bearer"))
    if made.status == 405:
        headers.append(("Allow", made.data["allow"]))
    reason = HTTPStatus(made.status).phrase.encode("ascii")
    response = h11.Response(status_code=made.status, headers=headers, reason=reason)
    content = [] if is_head else [h11.Data(data=body)]  # RFC 9110, 9.3.2
    sent = [connection.send(each) or b"" for each in (response, *content, h11.EndOfMessage())]
    await stream.send_all(b"".join(sent))
    await stream.send_eof()
    # What has not been read would reset the connection, and the answer with it.
    with trio.move_on_after(_SECONDS_TO_LEAVE):
        for _ in range(16):
            if not await stream.receive_some(16 * 1024):
                break
