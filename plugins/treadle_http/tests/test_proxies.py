"""Which proxy a URL is reached through, by the environment's variables."""

from __future__ import annotations

import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import httpx2
import pytest
import trio

from treadle_http import Proxies, Timeouts, open_client, pumped, to_provider_error


def proxy_of(url: str, **environment: str) -> str | None:
    proxies = Proxies.from_environment(environment)
    proxy = proxies.of(httpx2.URL(url)) if proxies else None
    return None if proxy is None else str(proxy.url)


def test_each_scheme_has_its_variable_and_all_proxy_stands_in() -> None:
    assert proxy_of("https://a.test/", HTTPS_PROXY="http://p:1") == "http://p:1"
    assert proxy_of("http://a.test/", HTTPS_PROXY="http://p:1") is None
    assert proxy_of("http://a.test/", HTTP_PROXY="http://p:1") == "http://p:1"
    assert proxy_of("http://a.test/", ALL_PROXY="http://p:1") == "http://p:1"
    assert proxy_of("https://a.test/", ALL_PROXY="http://p:1", HTTPS_PROXY="http://q:2") == "http://q:2"
    assert proxy_of("https://a.test/") is None


def test_small_letters_win_and_an_empty_variable_is_not_set() -> None:
    assert proxy_of("https://a.test/", https_proxy="http://small:1", HTTPS_PROXY="http://large:1") == "http://small:1"
    assert proxy_of("https://a.test/", https_proxy=" ", HTTPS_PROXY="http://large:1") == "http://large:1"


def test_a_proxy_without_a_scheme_is_an_http_one() -> None:
    assert proxy_of("https://a.test/", HTTPS_PROXY="p.test:3128") == "http://p.test:3128"


def test_a_request_header_cannot_set_the_proxy_of_a_cgi_process() -> None:
    assert proxy_of("http://a.test/", REQUEST_METHOD="GET", HTTP_PROXY="http://evil:1") is None
    assert proxy_of("http://a.test/", REQUEST_METHOD="GET", http_proxy="http://p:1") == "http://p:1"


@pytest.mark.parametrize(
    ("url", "entry"),
    [
        ("http://a.test/", "*"),
        ("http://a.test/", "a.test"),
        ("http://A.TEST/", "a.test"),
        ("http://a.test./", "a.test"),
        ("http://www.a.test/", "a.test"),
        ("http://www.a.test/", ".a.test"),
        ("http://www.a.test/", "*.a.test"),
        ("http://www.a.test/", "b.test, A.Test ,c.test"),
        ("http://a.test/", "a.test:80"),
        ("http://a.test:8080/", "a.test:8080"),
        ("http://10.1.2.3/", "10.1.2.3"),
        ("http://10.1.2.3/", "10.0.0.0/8"),
        ("http://10.1.2.3:99/", "10.1.2.3:99"),
        ("http://[::1]/", "::1"),
        ("http://[::1]:99/", "[::1]:99"),
        ("http://[fd00::5]/", "fd00::/8"),
    ],
)
def test_hosts_that_are_reached_directly(url: str, entry: str) -> None:
    assert proxy_of(url, HTTP_PROXY="http://p:1", NO_PROXY=entry) is None


@pytest.mark.parametrize(
    ("url", "entry"),
    [
        ("http://ba.test/", "a.test"),
        ("http://a.test.evil/", "a.test"),
        ("http://a.test/", "a.test:8080"),
        ("http://10.1.2.3/", "11.0.0.0/8"),
        ("http://10.1.2.3/", "10.1.2"),
        ("http://10.1.2.3/", "nonsense/99"),
        ("http://[::1]/", "::2"),
        ("http://a.test/", "."),
    ],
)
def test_hosts_that_are_not(url: str, entry: str) -> None:
    assert proxy_of(url, HTTP_PROXY="http://p:1", NO_PROXY=entry) == "http://p:1"


@pytest.mark.parametrize(
    ("address", "says"),
    [
        ("socks5://p:1", "a proxy is reached by http:// or https://, not by socks5://"),
        ("http://user:secret@[zz]:1", "the proxy's URL is not a URL"),
        ("http://", "the proxy's URL names no host"),
    ],
)
async def test_a_proxy_that_cannot_be_used_is_told_when_it_is_needed(
    monkeypatch: pytest.MonkeyPatch, address: str, says: str
) -> None:
    monkeypatch.setenv("HTTP_PROXY", address)
    async with open_client() as http:
        with pytest.raises(httpx2.ProxyError) as caught:
            await http.get("http://a.test/")
    error = to_provider_error(caught.value, "p")
    assert str(error) == f"could not connect to a.test:80 through the proxy ({says})"
    assert not error.transient


async def test_a_request_goes_through_the_proxy_with_its_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bytes] = []

    async def handle(stream: trio.SocketStream) -> None:
        asked.append(await stream.receive_some(9999))
        await stream.send_all(b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\nconnection: close\r\n\r\nabc")
        if b"/slow" in asked[-1]:
            await trio.sleep_forever()
        await stream.send_all(b"def")

    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(partial(trio.serve_tcp, handle, 0, host="127.0.0.1"))
        port = listeners[0].socket.getsockname()[1]
        monkeypatch.setenv("HTTP_PROXY", f"http://me:pw@127.0.0.1:{port}")
        async with open_client(body_limit=6) as http:
            assert (await http.get("http://a.test/x")).content == b"abcdef"
        async with open_client(timeouts=Timeouts(total=0.2)) as http:
            with pytest.raises(httpx2.TimeoutException) as caught:
                await http.get("http://a.test/slow")
        nursery.cancel_scope.cancel()
    assert asked[0].startswith(b"GET http://a.test/x HTTP/1.1\r\n")
    assert b"proxy-authorization: basic" in asked[0].lower()
    assert to_provider_error(caught.value, "p").message == "the whole exchange with a.test:80 took too long"


async def test_a_stream_through_a_proxy_may_be_left_early(
    monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder
) -> None:
    gone = trio.Event()

    async def handle(stream: trio.SocketStream) -> None:
        await stream.receive_some(9999)
        await stream.send_all(b"HTTP/1.1 200 OK\r\ncontent-length: 600\r\n\r\nabc")
        await stream.receive_some(1)
        gone.set()

    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(partial(trio.serve_tcp, handle, 0, host="127.0.0.1"))
        monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{listeners[0].socket.getsockname()[1]}")
        async with open_client() as http:

            @asynccontextmanager
            async def source() -> AsyncIterator[AsyncIterator[bytes]]:
                async with http.stream("GET", "http://a.test/x") as reply:
                    yield reply.aiter_bytes()

            async with pumped(source) as pieces:
                assert await anext(pieces) == b"abc"
            with trio.fail_after(5):
                await gone.wait()
        nursery.cancel_scope.cancel()
    gc.collect()
    await trio.lowlevel.checkpoint()
    assert [str(each.message) for each in recwarn] == []
