"""HTTP for tools: replies, redirects, limits and failures."""

import gzip
import socket
from pathlib import Path
from typing import Any

import pytest
import trio

from treadle import HttpReply, HttpRequest, ToolError
from treadle_sandbox.block import PolicyBlock
from treadle_sandbox.policy import PolicySandbox


def _reply(status: str, body: bytes = b"", *headers: str) -> list[bytes]:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers, "", ""]
    return ["\r\n".join(lines).encode(), body] if body else ["\r\n".join(lines).encode()]


async def _send(request: HttpRequest, purpose: Any = "tool") -> HttpReply:
    async with PolicySandbox(PolicyBlock(), Path()).http(purpose) as client:
        return await client.send(request)


async def _error(request: HttpRequest) -> ToolError:
    with pytest.raises(ToolError) as caught:
        await _send(request)
    return caught.value


async def test_a_request_arrives_and_its_reply_comes_back_whole(serve: Any) -> None:
    seen: list[tuple[str, bytes]] = []

    def answer(head: str, body: bytes) -> list[bytes]:
        seen.append((head, body))
        return _reply("404 Not Found", "ü".encode(), "X-Two: a", "X-Two: b", "Content-Type: text/plain")

    async with serve(answer) as url:
        reply = await _send(HttpRequest(method="PUT", url=f"{url}/a?b=ü", headers={"X-A": "1"}, content="ö".encode()))
        assert reply.url == f"{url}/a?b=%C3%BC"
    assert (reply.status_code, reply.body) == (404, "ü".encode())
    assert reply.headers == {"content-length": "2", "x-two": "a, b", "content-type": "text/plain"}
    head, body = seen[0]
    assert head.startswith("PUT /a?b=%C3%BC HTTP/1.1\r\n")
    assert "X-A: 1" in head
    assert body == "ö".encode()


async def test_a_redirect_is_the_reply_unless_redirects_are_allowed(serve: Any) -> None:
    def answer(head: str, body: bytes) -> list[bytes]:
        place = head.split()[1]
        if place == "/end":
            return _reply("200 OK", b"end")
        return _reply("302 Found", b"", f"Location: {'/end' if place == '/2' else '/2'}")

    async with serve(answer) as url:
        reply = await _send(HttpRequest(method="GET", url=f"{url}/1"))
        assert (reply.status_code, reply.headers["location"]) == (302, "/2")
        reply = await _send(HttpRequest(method="GET", url=f"{url}/1", max_redirects=2))
        assert (reply.body, reply.url) == (b"end", f"{url}/end")
        error = await _error(HttpRequest(method="GET", url=f"{url}/1", max_redirects=1))
        assert (str(error), error.transient) == (f"GET {url}/2: more than 1 redirects", False)


@pytest.mark.parametrize("location", ["myapp://open", "http://[bad"])
async def test_a_redirect_to_an_odd_place_is_still_a_reply(serve: Any, location: str) -> None:
    async with serve(lambda head, body: _reply("302 Found", b"", f"Location: {location}")) as url:
        reply = await _send(HttpRequest(method="GET", url=url))
        assert (reply.status_code, reply.headers["location"]) == (302, location)


async def test_a_redirect_leads_to_http_only(serve: Any) -> None:
    async with serve(lambda head, body: _reply("302 Found", b"", "Location: file:///etc/passwd")) as url:
        error = await _error(HttpRequest(method="GET", url=url, max_redirects=3))
        assert (str(error), error.transient) == (
            "a URL must begin with http:// or https://; its scheme is 'file'",
            False,
        )


async def test_a_body_larger_than_its_limit_is_refused_after_decompression(serve: Any) -> None:
    packed = gzip.compress(b"0" * 1_000_000)
    async with serve(lambda head, body: _reply("200 OK", packed, "Content-Encoding: gzip")) as url:
        assert len((await _send(HttpRequest(method="GET", url=url))).body) == 1_000_000
        error = await _error(HttpRequest(method="GET", url=url, max_bytes=5000))
        assert (str(error), error.transient) == (f"GET {url}/: the body is larger than the limit of 5000 bytes", False)


async def test_an_endless_body_is_cut_at_its_limit(serve: Any) -> None:
    def answer(head: str, body: bytes) -> list[bytes]:
        return [b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", *[b"400\r\n" + b"x" * 1024 + b"\r\n"] * 5000]

    async with serve(answer) as url:
        error = await _error(HttpRequest(method="GET", url=url, max_bytes=2000))
        assert "larger than the limit of 2000 bytes" in str(error)


async def test_a_body_that_does_not_decompress_may_be_asked_for_again(serve: Any) -> None:
    async with serve(lambda head, body: _reply("200 OK", b"no gzip", "Content-Encoding: gzip")) as url:
        error = await _error(HttpRequest(method="GET", url=url))
        assert str(error).startswith(f"GET {url}/: ")
        assert "sent a damaged compressed reply" in str(error)
        assert error.transient is True


async def test_a_refused_connection_is_transient_and_shows_no_secret() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: refused
        port = taken.getsockname()[1]
        error = await _error(HttpRequest(method="GET", url=f"http://user:pa55@127.0.0.1:{port}/a?key=s3cret"))
    assert str(error).startswith(f"GET http://127.0.0.1:{port}/a: could not connect to 127.0.0.1:{port}")
    assert error.transient is True
    assert "pa55" not in str(error)
    assert "s3cret" not in str(error)


async def test_silence_is_a_time_out() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        error = await _error(HttpRequest(method="GET", url=f"http://127.0.0.1:{silent.getsockname()[1]}/", timeout=0.2))
    assert "/: waiting for a reply of 127.0.0.1:" in str(error)
    assert error.transient is True


async def test_a_connection_that_breaks_off_is_transient(serve: Any) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\nConnection: close\r\n\r\npart"
    async with serve(lambda _, body: [head]) as url:
        error = await _error(HttpRequest(method="GET", url=url))
        assert str(error).startswith(f"GET {url}/: ")
        assert "dropped the connection in the middle of its reply" in str(error)
        assert error.transient is True


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("ftp://x.test/a", "a URL must begin with http:// or https://; its scheme is 'ftp'"),
        ("file:///etc/passwd", "a URL must begin with http:// or https://; its scheme is 'file'"),
        ("/only/a/path", "a URL must begin with http:// or https://; its scheme is none"),
        ("", "a URL must begin with http:// or https://; its scheme is none"),
        ("http:///a", "the URL names no host"),
        ("http://[::1", "not a URL: Invalid"),
        ("http://127.0.0.1:99999/", "the URL's port 99999 is not between 1 and 65535"),
        ("http://127.0.0.1:x/", "not a URL: "),
    ],
)
async def test_a_bad_url_is_permanent(url: str, text: str) -> None:
    error = await _error(HttpRequest(method="GET", url=url))
    assert str(error).startswith(text)
    assert error.transient is False
    with pytest.raises(ToolError):
        await PolicySandbox(PolicyBlock(), Path()).check_url(url, purpose="tool")


@pytest.mark.parametrize("headers", [{"X-A": "a\r\nX-B: b"}, {"X-A": "ü"}, {"X A": "b"}])
async def test_a_header_that_cannot_be_sent_is_permanent(serve: Any, headers: dict[str, str]) -> None:
    seen: list[str] = []

    def answer(head: str, body: bytes) -> list[bytes]:
        seen.append(head)
        return _reply("200 OK")

    async with serve(answer) as url:
        error = await _error(HttpRequest(method="GET", url=url, headers=headers))
    assert "cannot be written as HTTP" in str(error)
    assert error.transient is False
    assert "X-B" not in str(error)
    assert seen == []


async def test_a_waiting_request_can_be_cancelled() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        with trio.move_on_after(0.2) as scope:
            await _send(HttpRequest(method="GET", url=f"http://127.0.0.1:{silent.getsockname()[1]}/"), "mcp")
    assert scope.cancelled_caught
