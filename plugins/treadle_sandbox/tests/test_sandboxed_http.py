"""Requests under a block: what was checked is what is connected to, on every hop.

The addresses 127.0.0.2 and above play the public internet, 127.0.0.1 is internal.
"""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
import trustme

from treadle import HttpReply, HttpRequest, SandboxError, ToolError
from treadle_sandbox import addresses, network
from treadle_sandbox.block import PolicyBlock
from treadle_sandbox.policy import PolicySandbox


class Names(trio.abc.HostnameResolver):
    """A name server. A name with several lists of addresses has the next one each time it is asked for."""

    def __init__(self) -> None:
        self.answers: dict[str, list[list[str]]] = {}
        self.asked: list[str] = []

    async def getaddrinfo(self, host: Any, port: Any, *args: Any, **kwargs: Any) -> Any:
        name = host.decode() if isinstance(host, bytes) else host
        self.asked.append(name)
        answers = self.answers.get(name)
        if answers is None:
            raise trio.socket.gaierror(trio.socket.EAI_NONAME, "Name or service not known")
        found = answers.pop(0) if len(answers) > 1 else answers[0]
        return [(trio.socket.AF_INET, 1, 6, "", (each, port)) for each in found]

    async def getnameinfo(self, sockaddr: Any, flags: Any) -> Any:
        raise AssertionError


class Site:
    """A server at two addresses: what it was asked, and at which of them."""

    def __init__(self) -> None:
        self.port = 0
        self.seen: list[tuple[str, str]] = []
        self.heads: list[str] = []
        self.moved_to = ""


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Names:
    def loopback_is_public(address: Any) -> bool:
        text = str(address)
        return text == "127.0.0.1" or (not text.startswith("127.0.0.") and addresses.is_internal(address))

    monkeypatch.setattr(network, "is_internal", loopback_is_public)
    return Names()


@asynccontextmanager
async def _site(names: Names, tls: ssl.SSLContext | None = None) -> AsyncIterator[Site]:
    trio.socket.set_custom_hostname_resolver(names)
    site = Site()

    async def handle(stream: trio.SocketStream) -> None:
        address = stream.socket.getsockname()[0]
        channel = stream if tls is None else trio.SSLStream(stream, tls, server_side=True, https_compatible=True)
        try:
            head = (await channel.receive_some(99999)).decode()
        except trio.BrokenResourceError:
            return
        if head:
            site.heads.append(head)
            site.seen.append((address, head.split("\r\n")[0]))
            moved = f"Location: {site.moved_to}\r\n" if "/moved" in head.split("\r\n")[0] else ""
            status = "302 Found" if moved else "200 OK"
            await channel.send_all(
                f"HTTP/1.1 {status}\r\n{moved}Content-Length: 2\r\nConnection: close\r\n\r\nok".encode()
            )
        await trio.aclose_forcefully(stream)

    async with trio.open_nursery() as nursery:
        listeners: Any = await nursery.start(partial(trio.serve_tcp, handle, 0, host="0.0.0.0"))
        site.port = listeners[0].socket.getsockname()[1]
        yield site
        nursery.cancel_scope.cancel()


async def _send(
    url: str, purpose: Any = "tool", *, redirects: int = 0, headers: Any = None, **fields: Any
) -> HttpReply:
    block = PolicyBlock(**({"enabled": True} | fields))
    request = HttpRequest(method="GET", url=url, max_redirects=redirects, headers=headers or {}, timeout=20)
    async with PolicySandbox(block, Path()).http(purpose) as client:
        return await client.send(request)


async def _refused(url: str, purpose: Any = "tool", **options: Any) -> str:
    with pytest.raises(SandboxError) as caught:
        await _send(url, purpose, **options)
    assert "sandbox" in str(caught.value)
    return str(caught.value)


async def test_a_public_host_is_reached_and_named_in_the_host_header(names: Names) -> None:
    names.answers["good.test"] = [["127.0.0.2"]]
    async with _site(names) as site:
        assert (await _send(f"http://good.test:{site.port}/a")).body == b"ok"
        assert site.seen == [("127.0.0.2", "GET /a HTTP/1.1")]
        assert f"Host: good.test:{site.port}" in site.heads[0]
    assert names.asked == ["good.test"]


@pytest.mark.parametrize("purpose", ["tool", "attachment", "webhook", "mcp"])
async def test_a_host_with_one_internal_address_among_others_is_never_connected_to(names: Names, purpose: Any) -> None:
    names.answers["mixed.test"] = [["127.0.0.2", "127.0.0.1"]]
    async with _site(names) as site:
        assert "'mixed.test (127.0.0.1)'" in await _refused(f"http://mixed.test:{site.port}/", purpose)
        assert site.seen == []


async def test_an_answer_that_changes_between_check_and_connection_changes_nothing(names: Names) -> None:
    """The name is looked up once; a second answer is never asked for."""
    names.answers["rebind.test"] = [["127.0.0.2"], ["127.0.0.1"]]
    async with _site(names) as site:
        await _send(f"http://rebind.test:{site.port}/first")
        assert names.asked == ["rebind.test"]
        assert "'rebind.test (127.0.0.1)'" in await _refused(f"http://rebind.test:{site.port}/second")
        assert [address for address, _ in site.seen] == ["127.0.0.2"]


@pytest.mark.parametrize(
    "location",
    [
        "http://internal.test:{port}/",
        "http://127.0.0.1:{port}/",
        "http://127.1:{port}/",
        "//internal.test:{port}/",
        "http://0x7f000001:{port}/",
        "http://localhost:{port}/",
    ],
)
async def test_a_redirect_is_checked_like_a_request_of_its_own(names: Names, location: str) -> None:
    names.answers |= {"good.test": [["127.0.0.2"]], "internal.test": [["127.0.0.1"]]}
    async with _site(names) as site:
        site.moved_to = location.format(port=site.port)
        for purpose in ("attachment", "webhook", "tool"):
            assert "refuses internal" in await _refused(f"http://good.test:{site.port}/moved", purpose, redirects=5)
        assert {address for address, _ in site.seen} == {"127.0.0.2"}


async def test_a_redirect_to_a_host_that_is_not_listed_or_another_scheme_is_refused(names: Names) -> None:
    names.answers |= {"good.test": [["127.0.0.2"]], "other.test": [["127.0.0.3"]]}
    async with _site(names) as site:
        url = f"http://good.test:{site.port}/moved"
        site.moved_to = f"http://other.test:{site.port}/"
        assert (await _send(url, redirects=5)).body == b"ok"
        assert "does not allow the host 'other.test'" in await _refused(
            url, redirects=5, allowed_domains=("good.test",)
        )
        site.moved_to = "file:///etc/passwd"
        assert "not a plain http or https URL" in await _refused(url, redirects=5)
        site.moved_to = f"https://good.test:{site.port}/"
        assert "the scheme 'https'" in await _refused(url, redirects=5, allowed_schemes=("http",))


async def test_a_redirect_to_another_host_takes_no_credentials_along(names: Names) -> None:
    names.answers |= {"good.test": [["127.0.0.2"]], "other.test": [["127.0.0.3"]]}
    async with _site(names) as site:
        site.moved_to = f"http://other.test:{site.port}/"
        await _send(
            f"http://good.test:{site.port}/moved", redirects=1, headers={"Authorization": "s3cret", "Cookie": "c=1"}
        )
        assert "s3cret" in site.heads[0]
        assert "s3cret" not in site.heads[1]
        assert "c=1" not in site.heads[1]


async def test_a_listed_host_is_reached_though_it_is_internal(names: Names) -> None:
    names.answers["internal.test"] = [["127.0.0.1"]]
    async with _site(names) as site:
        url = f"http://internal.test:{site.port}/"
        assert (await _send(url, allowed_domains=("internal.test",))).body == b"ok"
        assert "refuses internal" in await _refused(url, allowed_domains=("internal.test",), deny_internal_hosts=True)
        assert (await _send(url, "webhook", allow_internal_webhook_targets=True)).body == b"ok"
        assert (await _send(url, enabled=False)).body == b"ok"
        assert "refuses internal" in await _refused(url, "attachment", enabled=False)
        assert len(site.seen) == 3


async def test_a_flood_ends_at_the_block_s_limit(names: Names) -> None:
    names.answers["good.test"] = [["127.0.0.2"]]
    async with _site(names) as site:
        with pytest.raises(ToolError) as caught:
            await _send(f"http://good.test:{site.port}/", max_body_bytes=1)
        assert str(caught.value) == (
            f"GET http://good.test:{site.port}/: the body is larger than sandbox.max_body_bytes (1); set "
            "config.sandbox.max_body_bytes higher, or to none"
        )
        assert caught.value.transient is False
        assert (await _send(f"http://good.test:{site.port}/", max_body_bytes=None)).body == b"ok"


async def test_through_a_proxy_the_name_is_checked_here_and_looked_up_again_there(
    names: Names, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The proxy listens on an internal address: it is the deployment's own, and no workflow chose it."""
    names.answers |= {"good.test": [["127.0.0.2"]], "internal.test": [["127.0.0.1"]]}
    async with _site(names) as proxy:
        monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{proxy.port}")
        assert (await _send("http://good.test:81/a")).body == b"ok"
        assert proxy.seen == [("127.0.0.1", "GET http://good.test:81/a HTTP/1.1")]
        for url in ("http://internal.test:81/", "http://127.0.0.1:81/", "http://127.1/", "http://localhost/"):
            assert "refuses internal addresses" in await _refused(url)
        assert "does not resolve" in await _refused("http://unknown.test/")
        assert "does not allow the host" in await _refused("http://good.test/", allowed_domains=("other.test",))
        assert (await _send("http://unknown.test/", allowed_domains=("unknown.test",))).body == b"ok"
        assert len(proxy.seen) == 2


async def test_tls_is_held_to_the_name_of_the_url_whatever_address_is_dialled(
    names: Names, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = trustme.CA()
    server, trusting = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH), ssl.create_default_context()
    authority.issue_cert("good.test").configure_cert(server)
    authority.configure_trust(trusting)
    asked: list[str | None] = []
    server.sni_callback = lambda connection, name, context: asked.append(name)  # type: ignore[assignment]
    monkeypatch.setattr("treadle_http.client.tls_context", lambda: trusting)
    names.answers |= {"good.test": [["127.0.0.2"]], "wrong.test": [["127.0.0.2"]]}
    async with _site(names, server) as site:
        assert (await _send(f"https://good.test:{site.port}/")).body == b"ok"
        with pytest.raises(ToolError, match="its certificate was refused"):
            await _send(f"https://wrong.test:{site.port}/")
        assert asked == ["good.test", "wrong.test"]
    monkeypatch.setattr("treadle_http.client.tls_context", ssl.create_default_context)
    async with _site(names, server) as site:
        with pytest.raises(ToolError, match="its certificate was refused"):
            await _send(f"https://good.test:{site.port}/")
