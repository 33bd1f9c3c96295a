"""Connections are used again, closed in time, and never handed out in a bad state; bodies and times have limits."""

from __future__ import annotations

import gzip
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import httpx2
import pytest
import trio
from trio.testing import MockClock

from treadle.errors import ProviderTimeoutError, ResponseError
from treadle_http import BodyTooLargeError, Timeouts, TotalTimeout, open_client, to_provider_error

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


class Server:
    """Answers every request of a connection with the next of some bytes; None closes the connection."""

    def __init__(self, *answers: bytes | None) -> None:
        self.answers = list(answers)
        self.opened = 0
        self.closed = 0
        self.url = ""

    async def handle(self, stream: trio.SocketStream) -> None:
        self.opened += 1
        try:
            while await stream.receive_some(99_999):
                answer = self.answers.pop(0) if self.answers else OK
                if answer is None:
                    return
                await stream.send_all(answer)
        except trio.BrokenResourceError:
            pass
        finally:
            self.closed += 1

    @asynccontextmanager
    async def client(self, **settings: Any) -> AsyncIterator[httpx2.AsyncClient]:
        async with trio.open_nursery() as nursery:
            listeners = await nursery.start(partial(trio.serve_tcp, self.handle, 0, host="127.0.0.1"))
            self.url = f"http://127.0.0.1:{listeners[0].socket.getsockname()[1]}/"
            async with open_client(trust_env=False, **settings) as http:
                yield http
            nursery.cancel_scope.cancel()


async def until(holds: Callable[[], bool]) -> None:
    with trio.fail_after(5):
        while not holds():  # noqa: ASYNC110 - what is waited for happens in a socket
            await trio.sleep(0.001)


async def test_one_connection_serves_one_request_after_the_other() -> None:
    server = Server()
    async with server.client() as http:
        for _ in range(5):
            assert (await http.post(server.url, content=b"x")).content == b"ok"
        assert server.opened == 1


async def test_no_more_connections_than_were_ever_needed_at_once() -> None:
    server = Server()
    async with server.client() as http:
        for _ in range(3):
            async with trio.open_nursery() as nursery:
                for _ in range(20):
                    nursery.start_soon(http.get, server.url)
        assert server.opened == 20


async def test_a_connection_that_the_server_closed_while_idle_is_not_used() -> None:
    server = Server(OK, None)
    async with server.client() as http:
        await http.get(server.url)
        with pytest.raises(httpx2.RemoteProtocolError):
            await http.get(server.url)
        await until(lambda: server.closed == 1)
        assert (await http.get(server.url)).content == b"ok"
        assert server.opened == 2


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok",
        b"HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nokHTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil",
    ],
    ids=["close", "1.0", "more than was asked for"],
)
async def test_connections_that_are_not_kept(answer: bytes) -> None:
    server = Server(answer)
    async with server.client() as http:
        assert (await http.get(server.url)).content == b"ok"
        await until(lambda: server.closed == 1)
        assert (await http.get(server.url)).content == b"ok"
        assert server.opened == 2


async def test_an_interim_answer_is_passed_over() -> None:
    server = Server(b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" + OK)
    async with server.client() as http:
        assert (await http.get(server.url)).content == b"ok"


async def test_idle_connections_are_closed_when_their_time_is_over() -> None:
    server = Server()
    async with server.client(keepalive_seconds=0.05) as http:
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(http.get, server.url)
        await trio.sleep(0.1)
        await http.get(server.url)  # which finds an expired one, and sweeps the others out
        await until(lambda: server.closed == 3)
        assert server.opened == 4


async def test_idle_connections_to_servers_that_are_asked_no_more_are_closed_too() -> None:
    first, second = Server(), Server()
    async with first.client(keepalive_seconds=0.05) as http, second.client():
        await http.get(first.url)
        await trio.sleep(0.1)
        assert first.closed == 0
        await http.get(second.url)
        await until(lambda: first.closed == 1)


async def test_a_limit_of_connections_makes_requests_wait() -> None:
    server = Server()
    async with server.client(max_connections=2) as http:
        async with trio.open_nursery() as nursery:
            for _ in range(6):
                nursery.start_soon(http.get, server.url)
        assert server.opened <= 2


async def test_a_time_limit_ends_the_wait_for_a_free_connection() -> None:
    server = Server()
    async with server.client(max_connections=2, timeouts=Timeouts(pool=0.05)) as http:
        async with http.stream("GET", server.url), http.stream("GET", server.url):
            with pytest.raises(httpx2.PoolTimeout) as caught:
                await http.get(server.url)
        assert (await http.get(server.url)).content == b"ok"
    error = to_provider_error(caught.value, "p")
    assert (error.phase, error.request_sent) == ("connect", False)


async def test_a_cancelled_request_closes_its_connection_and_frees_its_place() -> None:
    server = Server(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf")
    async with server.client(max_connections=1) as http:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(http.get, server.url)
            await until(lambda: not server.answers)
            nursery.cancel_scope.cancel()
        await until(lambda: server.closed == 1)
        assert (await http.get(server.url)).content == b"ok"


async def test_a_stream_that_is_left_closes_its_connection_and_one_read_to_its_end_keeps_it() -> None:
    chunked = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n3\r\ndef\r\n0\r\n\r\n"
    server = Server(chunked, chunked[:-5])
    async with server.client() as http:
        async with http.stream("GET", server.url) as reply:
            assert b"".join([piece async for piece in reply.aiter_bytes()]) == b"abcdef"
        async with http.stream("GET", server.url):
            pass
        assert server.opened == 1
        await until(lambda: server.closed == 1)


async def test_chunks_that_came_together_are_one_piece_and_what_is_there_is_not_held_back() -> None:
    head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
    server = Server(head + b"1\r\na\r\n" * 50)
    async with server.client() as http, http.stream("GET", server.url) as reply:
        pieces = reply.aiter_raw()
        with trio.fail_after(5):
            assert await anext(pieces) == b"a" * 50
        await pieces.aclose()


async def test_what_came_before_a_broken_chunk_is_not_lost() -> None:
    server = Server(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\nnonsense\r\n")
    async with server.client() as http, http.stream("GET", server.url) as reply:
        pieces = reply.aiter_raw()
        assert await anext(pieces) == b"abc"
        with pytest.raises(httpx2.RemoteProtocolError):
            await anext(pieces)


def reply_of(body: bytes, *headers: bytes) -> bytes:
    return b"\r\n".join((b"HTTP/1.1 200 OK", b"content-length: %d" % len(body), *headers, b"", body))


@pytest.mark.parametrize("packed", [False, True])
async def test_a_body_that_is_read_whole_is_limited_as_it_comes_in(packed: bool) -> None:
    def answer(size: int) -> bytes:
        body = b"x" * size
        return reply_of(gzip.compress(body), b"content-encoding: gzip") if packed else reply_of(body)

    server = Server(answer(2048), answer(2049), answer(2049))
    async with server.client(body_limit=2048) as http:
        assert len((await http.get(server.url)).content) == 2048
        with pytest.raises(BodyTooLargeError, match=r"^the reply is longer than 2 kB$") as caught:
            await http.get(server.url)
        async with http.stream("GET", server.url) as reply:  # whoever streams has a limit of its own
            assert len(b"".join([piece async for piece in reply.aiter_bytes()])) == 2049
    error = to_provider_error(caught.value, "p")
    assert type(error) is ResponseError
    assert (str(error), error.transient) == ("the server sent too much (the reply is longer than 2 kB)", False)


async def test_the_limit_is_64_megabytes_unless_said_otherwise() -> None:
    server = Server(reply_of(b"x" * (64 * 1024 * 1024 + 1)))
    async with server.client() as http:
        with pytest.raises(BodyTooLargeError, match="64 MB"):
            await http.get(server.url, follow_redirects=True)  # by the client's longer way


async def test_the_content_of_a_reply_is_where_the_client_keeps_it() -> None:
    """``Reply.aread`` sets the attribute that ``httpx2.Response.content`` and ``text`` read: a private one."""
    server = Server(reply_of(b'{"a": 1}', b"content-type: application/json"))
    async with server.client() as http:
        reply = await http.get(server.url)
        assert (reply.content, reply.text, reply.json()) == (b'{"a": 1}', '{"a": 1}', {"a": 1})
        assert await reply.aread() == reply.content
        assert reply.is_closed
        assert reply.is_stream_consumed


async def silent(stream: Any) -> None:
    await trio.sleep_forever()


@pytest.mark.parametrize(
    ("timeouts", "kind", "says"),
    [
        (Timeouts(connect=1), httpx2.ConnectTimeout, "connecting to a.test:80 took too long"),
        (Timeouts(connect=9, total=1), TotalTimeout, "the whole exchange with a.test:80 took too long"),
    ],
)
async def test_each_phase_has_its_time_limit_and_so_has_the_whole(
    autojump_clock: MockClock, timeouts: Timeouts, kind: type[Exception], says: str
) -> None:
    async def dial(host: str, port: int) -> trio.SocketStream:
        await trio.sleep_forever()

    async with open_client(timeouts=timeouts, trust_env=False, dial=dial) as http:
        with pytest.raises(kind) as caught:
            await http.get("http://a.test/")
    assert trio.current_time() == pytest.approx(1)
    error = to_provider_error(caught.value, "p")
    assert (type(error), str(error)) == (ProviderTimeoutError, says)


async def test_the_limit_of_the_whole_holds_in_the_middle_of_a_stream() -> None:
    server = Server(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf")
    async with server.client(timeouts=Timeouts(total=0.1)) as http, http.stream("GET", server.url) as reply:
        with pytest.raises(TotalTimeout) as caught:
            await reply.aread()
    error = to_provider_error(caught.value, "p")
    assert (error.phase, error.request_sent, error.transient) == ("body", True, True)


async def test_a_body_in_pieces_is_sent_as_they_come() -> None:
    server = Server()

    async def pieces() -> AsyncIterator[bytes]:
        yield b"one"
        yield b"two"

    async with server.client() as http:
        assert (await http.post(server.url, content=pieces())).content == b"ok"


async def test_a_server_that_answers_before_it_has_read_everything_is_heard() -> None:
    """Such as one that refuses a body for its length, and closes."""

    async def handle(stream: trio.SocketStream) -> None:
        await stream.receive_some(100)
        await stream.send_all(b"HTTP/1.1 413 Too Large\r\ncontent-length: 3\r\nconnection: close\r\n\r\nbig")

    server = Server()
    server.handle = handle  # type: ignore[method-assign]
    async with server.client() as http:
        try:
            reply = await http.post(server.url, content=b"x" * 5_000_000)
        except httpx2.ReadError:
            return  # the reset overtook the answer, which no client can help
        assert reply.status_code == 413


async def test_a_url_that_is_not_http_is_refused() -> None:
    async with open_client(trust_env=False) as http:
        with pytest.raises(httpx2.UnsupportedProtocol):
            await http.get("ftp://a.test/")
