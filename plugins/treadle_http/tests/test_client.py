"""The client's defaults."""

from __future__ import annotations

import subprocess
import sys
import threading
from functools import partial

import httpx2
import pytest
import trio

import treadle_http
from treadle_http import Timeouts, open_client, tls_context
from treadle_http import client as client_module


def test_the_package_loads_no_http_client_until_it_is_touched() -> None:
    code = (
        "import treadle_http, treadle_http.status_errors, treadle_http.sse, treadle_http.pump, sys; "
        "print('httpx2' in sys.modules); treadle_http.open_client; print('httpx2' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]


def test_every_public_name_is_there_and_no_other() -> None:
    for name in treadle_http.__all__:
        assert getattr(treadle_http, name) is not None
    with pytest.raises(AttributeError, match="module 'treadle_http' has no attribute 'unheard'"):
        _ = treadle_http.unheard


def test_the_tls_context_is_built_once_whatever_threads_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "_context", None)
    built = []
    real = httpx2.create_ssl_context

    def counted() -> object:
        context = real()
        built.append(context)
        return context

    monkeypatch.setattr(httpx2, "create_ssl_context", counted)
    gate = threading.Barrier(8)
    seen = []

    def ask() -> None:
        gate.wait()
        seen.append(tls_context())

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(built) == 1
    assert seen == built * 8


async def test_the_defaults() -> None:
    async with open_client() as http:
        assert http.timeout == httpx2.Timeout(connect=10, read=300, write=30, pool=10)
        assert http.follow_redirects is False
        assert http.trust_env is False  # proxies are read by ourselves, .netrc and the like by nobody
        assert http.headers["user-agent"].startswith("treadle/")
    assert http.is_closed
    async with open_client(timeouts=Timeouts(read=None), trust_env=False, headers={"User-Agent": "mine"}) as http:
        assert http.timeout.read is None
        assert http.headers["user-agent"] == "mine"


async def test_redirects_are_given_back_and_not_followed() -> None:
    asked = []

    async def handle(stream: trio.SocketStream) -> None:
        asked.append(await stream.receive_some(9999))
        await stream.send_all(b"HTTP/1.1 302 Found\r\nlocation: /other\r\ncontent-length: 0\r\n\r\n")

    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(partial(trio.serve_tcp, handle, 0, host="127.0.0.1"))
        port = listeners[0].socket.getsockname()[1]
        async with open_client(trust_env=False) as http:
            assert (await http.get(f"http://127.0.0.1:{port}/")).status_code == 302
        nursery.cancel_scope.cancel()
    assert len(asked) == 1


async def test_two_hundred_requests_at_once_do_not_queue() -> None:
    """Each answer is held back until all the requests are there: with a limit of connections it would hang."""
    there = 0
    all_there = trio.Event()

    async def handle(stream: trio.SocketStream) -> None:
        nonlocal there
        await stream.receive_some(9999)
        there += 1
        if there == 200:
            all_there.set()
        await all_there.wait()
        await stream.send_all(b"HTTP/1.1 204 No Content\r\n\r\n")

    with trio.fail_after(20):
        async with trio.open_nursery() as nursery:
            listeners = await nursery.start(partial(trio.serve_tcp, handle, 0, host="127.0.0.1"))
            port = listeners[0].socket.getsockname()[1]
            async with open_client(trust_env=False) as http, trio.open_nursery() as requests:
                for _ in range(200):
                    requests.start_soon(http.get, f"http://127.0.0.1:{port}/")
            nursery.cancel_scope.cancel()
    assert there == 200


async def test_a_request_by_the_short_way_is_the_one_that_the_client_would_build() -> None:
    url, given = "https://a.test/x?q=1", [("Accept", "text/plain"), ("X-SDK-OS", "Linux"), ("Content-Type", "text/x")]
    async with open_client(headers={"X-Mine": "1"}, unsent_headers=("X-SDK-",)) as http:
        short = http.build_request("POST", url, headers=list(given), content=b"abc", timeout=httpx2.Timeout(5))
        long = http.build_request("POST", url, headers=dict(given), content=b"abc", timeout=httpx2.Timeout(5))
        del long.headers["x-sdk-os"]
        assert dict(short.headers) == dict(long.headers)
        assert (short.method, short.url, short.content) == (long.method, long.url, long.content)
        assert short.extensions == long.extensions
        assert http.build_request("POST", url, headers=[], params={"a": "b"}).url.query == b"a=b"


async def test_no_cookies_are_kept_and_what_is_asked_for_specially_is_done() -> None:
    asked: list[bytes] = []

    async def handle(stream: trio.SocketStream) -> None:
        while data := await stream.receive_some(9999):
            asked.append(data)
            onward = b"302 Found\r\nlocation: /b" if b" /a " in data else b"200 OK"
            await stream.send_all(b"HTTP/1.1 " + onward + b"\r\nset-cookie: c=1\r\ncontent-length: 0\r\n\r\n")

    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(partial(trio.serve_tcp, handle, 0, host="127.0.0.1"))
        url = f"http://127.0.0.1:{listeners[0].socket.getsockname()[1]}"
        async with open_client(trust_env=False) as http:
            for _ in range(2):
                assert (await http.get(f"{url}/b")).status_code == 200
            assert (await http.get(f"{url}/a", follow_redirects=True)).status_code == 200
            assert (await http.get(f"{url}/b", auth=("me", "pw"))).status_code == 200
        nursery.cancel_scope.cancel()
    assert not any(b"cookie:" in each.lower() for each in asked[:3])
    assert b"authorization: basic" in asked[-1].lower()
