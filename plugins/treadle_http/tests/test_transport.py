"""What really goes wrong on a network, on the loopback, and what the errors say of it."""

from __future__ import annotations

import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import httpx2
import pytest
import trio
import trustme

from treadle.errors import (
    ProviderError,
    ProviderTimeoutError,
    ResponseError,
    UnavailableError,
    UnreachableError,
)
from treadle_http import Timeouts, facts_of, open_client, to_provider_error

Handler = Callable[[trio.SocketStream], Awaitable[None]]


@asynccontextmanager
async def serving(handler: Handler) -> AsyncIterator[int]:
    """A server on the loopback; gives its port."""
    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(partial(trio.serve_tcp, handler, 0, host="127.0.0.1"))
        yield listeners[0].socket.getsockname()[1]
        nursery.cancel_scope.cancel()


async def failure_at(url: str, **client: Any) -> ProviderError:
    client.setdefault("trust_env", False)
    async with open_client(**client) as http:
        with pytest.raises(httpx2.HTTPError) as caught:
            await http.post(url, content=b"question")
    return to_provider_error(caught.value, "p")


def told(error: ProviderError) -> tuple[type[ProviderError], str | None, bool | None, bool]:
    return type(error), error.phase, error.request_sent, error.transient


async def test_a_refused_connection() -> None:
    error = await failure_at("http://127.0.0.1:9/secret?key=k")
    assert str(error) == "could not connect to 127.0.0.1:9 (connection refused)"
    assert told(error) == (UnavailableError, "connect", False, True)


class Resolver(trio.abc.HostnameResolver):
    """Finds no name: fails with an error, or never answers."""

    def __init__(self, error: OSError | None) -> None:
        self.error = error

    async def getaddrinfo(self, *args: Any, **kwargs: Any) -> Any:
        if self.error is None:
            await trio.sleep_forever()
        raise self.error or AssertionError

    async def getnameinfo(self, *args: Any, **kwargs: Any) -> Any:
        raise AssertionError("not asked")


@pytest.mark.parametrize(
    ("code", "text", "transient"),
    [(socket.EAI_NONAME, "Name or service not known", False), (socket.EAI_AGAIN, "Temporary failure", True)],
)
async def test_a_name_that_is_not_found(code: int, text: str, transient: bool) -> None:
    trio.socket.set_custom_hostname_resolver(Resolver(socket.gaierror(code, text)))
    error = await failure_at("http://no-such-host.invalid/x")
    assert str(error) == f"could not find the host of no-such-host.invalid:80 ({text.lower()})"
    assert told(error) == (UnreachableError, "connect", False, transient)


async def reads_and_closes(stream: trio.SocketStream) -> None:
    await stream.receive_some(9999)


async def reads_and_resets(stream: trio.SocketStream) -> None:
    await stream.receive_some(9999)
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


@pytest.mark.parametrize("handler", [reads_and_closes, reads_and_resets])
async def test_a_connection_dropped_before_the_reply(handler: Handler) -> None:
    async with serving(handler) as port:
        error = await failure_at(f"http://127.0.0.1:{port}/")
    assert str(error) == f"127.0.0.1:{port} dropped the connection before it replied"
    assert told(error) == (UnavailableError, "read", None, True)


async def answers_half(stream: trio.SocketStream) -> None:
    await stream.receive_some(9999)
    await stream.send_all(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf")


async def answers_half_a_chunk(stream: trio.SocketStream) -> None:
    await stream.receive_some(9999)
    await stream.send_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nhalf\r\n")


async def answers_half_and_resets(stream: trio.SocketStream) -> None:
    await answers_half(stream)
    await trio.sleep(0.05)
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


@pytest.mark.parametrize("handler", [answers_half, answers_half_a_chunk, answers_half_and_resets])
async def test_a_connection_dropped_in_the_middle_of_the_reply(handler: Handler) -> None:
    async with serving(handler) as port:
        error = await failure_at(f"http://127.0.0.1:{port}/")
    assert str(error) == f"127.0.0.1:{port} dropped the connection in the middle of its reply"
    assert told(error) == (ResponseError, "body", True, True)


async def answers_nonsense(stream: trio.SocketStream) -> None:
    await stream.receive_some(9999)
    await stream.send_all(b"SSH-2.0-thing\r\n\r\n")


async def test_a_server_of_another_protocol() -> None:
    async with serving(answers_nonsense) as port:
        error = await failure_at(f"http://127.0.0.1:{port}/")
    assert str(error).startswith(f"127.0.0.1:{port} did not answer in HTTP (illegal status line")
    assert told(error) == (ResponseError, "read", True, True)


async def answers_damaged(stream: trio.SocketStream) -> None:
    await stream.receive_some(9999)
    await stream.send_all(b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 3\r\n\r\nabc")


# The client leaves a generator of its own to the garbage collector here (its response is closed all the same).
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
async def test_a_damaged_compressed_reply() -> None:
    async with serving(answers_damaged) as port:
        error = await failure_at(f"http://127.0.0.1:{port}/")
    assert str(error) == f"127.0.0.1:{port} sent a damaged compressed reply"
    assert told(error) == (ResponseError, "body", True, True)


async def stays_silent(stream: trio.SocketStream) -> None:
    await trio.sleep_forever()


async def falls_silent(stream: trio.SocketStream) -> None:
    await answers_half(stream)
    await trio.sleep_forever()


async def test_a_silent_server_times_out_while_waiting_or_in_the_middle() -> None:
    quick = Timeouts(read=0.1)
    async with serving(stays_silent) as port:
        error = await failure_at(f"http://127.0.0.1:{port}/", timeouts=quick)
        assert str(error) == f"waiting for a reply of 127.0.0.1:{port} took too long"
        assert told(error) == (ProviderTimeoutError, "read", True, True)
    async with serving(falls_silent) as port:
        error = await failure_at(f"http://127.0.0.1:{port}/", timeouts=quick)
        assert str(error) == f"127.0.0.1:{port} fell silent in the middle of its reply"
        assert told(error) == (ProviderTimeoutError, "body", True, True)


async def test_a_server_that_does_not_read_times_out_the_sending() -> None:
    async with serving(stays_silent) as port, open_client(timeouts=Timeouts(write=0.1), trust_env=False) as http:
        with pytest.raises(httpx2.WriteTimeout) as caught:
            await http.post(f"http://127.0.0.1:{port}/", content=b"x" * 50_000_000)
    error = to_provider_error(caught.value, "p")
    assert str(error) == f"sending to 127.0.0.1:{port} took too long"
    assert told(error) == (ProviderTimeoutError, "send", None, True)


async def test_a_connection_that_is_not_made_in_time() -> None:
    trio.socket.set_custom_hostname_resolver(Resolver(None))
    error = await failure_at("http://slow.invalid/", timeouts=Timeouts(connect=0.05))
    assert str(error) == "connecting to slow.invalid:80 took too long"
    assert told(error) == (ProviderTimeoutError, "connect", False, True)


async def test_a_full_pool_times_out_where_a_limit_was_asked_for() -> None:
    limited = partial(open_client, max_connections=1, timeouts=Timeouts(pool=0.05), trust_env=False)
    async with serving(stays_silent) as port, limited() as http, trio.open_nursery() as nursery:
        nursery.start_soon(http.get, f"http://127.0.0.1:{port}/")
        await trio.testing.wait_all_tasks_blocked(0.05)
        with pytest.raises(httpx2.PoolTimeout) as caught:
            await http.get(f"http://127.0.0.1:{port}/")
        nursery.cancel_scope.cancel()
    assert told(to_provider_error(caught.value, "p")) == (ProviderTimeoutError, "connect", False, True)


# --- TLS --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


def tls_server(authority: trustme.CA, *names: str) -> Handler:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(*names).configure_cert(context)

    async def handle(stream: trio.SocketStream) -> None:
        secure = trio.SSLStream(stream, context, server_side=True, https_compatible=True)
        try:
            await secure.receive_some(9999)
            await secure.send_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
        except trio.BrokenResourceError:
            return  # the client refused our certificate

    return handle


def trusting(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


async def test_a_certificate_of_a_trusted_authority_is_taken(authority: trustme.CA) -> None:
    async with (
        serving(tls_server(authority, "127.0.0.1")) as port,
        open_client(tls=trusting(authority), trust_env=False) as http,
    ):
        assert (await http.get(f"https://127.0.0.1:{port}/")).text == "ok"


async def test_a_certificate_that_is_not_trusted_is_a_tls_error_and_permanent(authority: trustme.CA) -> None:
    async with serving(tls_server(authority, "127.0.0.1")) as port:
        error = await failure_at(f"https://127.0.0.1:{port}/")
    assert str(error).startswith(f"could not agree on TLS with 127.0.0.1:{port} (its certificate was refused: ")
    assert told(error) == (UnreachableError, "tls", False, False)


async def test_a_certificate_of_another_name_is_a_tls_error(authority: trustme.CA) -> None:
    async with serving(tls_server(authority, "other.example")) as port:
        error = await failure_at(f"https://127.0.0.1:{port}/", tls=trusting(authority))
    assert "its certificate was refused: IP address mismatch" in str(error)
    assert told(error) == (UnreachableError, "tls", False, False)


async def test_a_server_without_tls_is_a_tls_error_and_one_that_drops_it_a_passing_failure() -> None:
    async with serving(answers_nonsense) as port:
        error = await failure_at(f"https://127.0.0.1:{port}/")
        assert str(error) == f"could not agree on TLS with 127.0.0.1:{port} (wrong version number)"
        assert told(error) == (UnreachableError, "tls", False, False)
    async with serving(reads_and_closes) as port:
        error = await failure_at(f"https://127.0.0.1:{port}/")
        assert str(error) == f"127.0.0.1:{port} dropped the connection during the TLS handshake"
        assert told(error) == (UnavailableError, "tls", False, True)


# --- proxies ----------------------------------------------------------------------------------------


async def refuses_to_tunnel(stream: trio.SocketStream) -> None:
    await stream.receive_some(9999)
    await stream.send_all(b"HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n")


@pytest.fixture
def _no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@pytest.mark.usefixtures("_no_proxies")
async def test_a_proxy_that_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(refuses_to_tunnel) as port:
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{port}")
        error = await failure_at("https://vendor.example/v1", trust_env=True)
    assert str(error) == (
        "could not connect to vendor.example:443 through the proxy (407 Proxy Authentication Required)"
    )
    assert told(error) == (UnreachableError, "proxy", False, False)


@pytest.mark.usefixtures("_no_proxies")
async def test_a_proxy_that_is_down_is_named_and_not_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://user:secret@127.0.0.1:9")
    error = await failure_at("https://vendor.example/v1", trust_env=True)
    assert str(error) == "could not connect to the proxy 127.0.0.1:9 (connection refused)"
    assert told(error) == (UnavailableError, "proxy", False, True)


@pytest.mark.usefixtures("_no_proxies")
async def test_proxies_of_the_environment_are_ignored_where_they_must_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    async with serving(answers_half) as port:
        error = await failure_at(f"http://127.0.0.1:{port}/", trust_env=False)
    assert error.phase == "body"  # it reached the server


async def test_what_is_no_http_address() -> None:
    error = await failure_at("ftp://example.com/x")
    assert str(error) == "example.com cannot be reached; a URL begins with http:// or https://"
    assert told(error) == (UnreachableError, "connect", False, False)


def test_causes_that_go_round_in_a_circle_end() -> None:
    first, second = httpx2.ConnectError("a"), OSError("b")
    first.__cause__, second.__cause__ = second, first
    assert facts_of(first).phase == "connect"
