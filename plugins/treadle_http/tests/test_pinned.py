"""Addresses are checked before a connection, all of them, and the one that was checked is the one that is dialled."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from ipaddress import IPv6Address, ip_address

import httpx2
import pytest
import trio
import trustme

from treadle.errors import UnreachableError
from treadle_http import AddressRefusedError, open_pinned_client, to_provider_error
from treadle_http.pinned import Address, embedded, resolve

NAMES = {
    "good.test": ["127.0.0.1"],
    "other.test": ["127.0.0.1"],
    "internal.test": ["10.0.0.5"],
    "mixed.test": ["127.0.0.1", "169.254.169.254"],
    "mapped.test": ["::ffff:169.254.169.254"],
    "half.test": ["127.0.0.99", "127.0.0.1"],
}


def loopback_is_public(host: str, address: Address) -> str | None:
    """127.0.0.x plays the public address."""
    if str(address).startswith("127.0.0."):
        return None
    for each in embedded(address):
        if not each.is_global:
            return "it is internal"
    return None


@dataclass
class Site:
    """A TLS server of two names; it notes what it was called, and how often it was connected to."""

    port: int = 0
    trusted: ssl.SSLContext = field(default_factory=ssl.create_default_context)
    connections: int = 0
    server_names: list[str | None] = field(default_factory=list)
    hosts: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    async def names(self, host: str, port: int) -> list[Address]:
        self.asked.append(host)
        if host == "rebind.test":  # a name server that changes its mind
            return [ip_address("127.0.0.1" if self.asked.count(host) == 1 else "10.0.0.9")]
        if host in NAMES:
            return [ip_address(each) for each in NAMES[host]]
        return await resolve(host, port)


@asynccontextmanager
async def site() -> AsyncIterator[Site]:
    authority, here = trustme.CA(), Site()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    contexts = {}
    for name in ("good.test", "other.test"):
        contexts[name] = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        authority.issue_cert(name).configure_cert(contexts[name])
    authority.issue_cert("nobody.test").configure_cert(context)
    authority.configure_trust(here.trusted)

    def choose(connection: ssl.SSLObject, name: str | None, _: ssl.SSLContext) -> None:
        here.server_names.append(name)
        connection.context = contexts.get(name or "", context)

    context.sni_callback = choose  # type: ignore[assignment]

    async def handle(stream: trio.SocketStream) -> None:
        here.connections += 1
        secured = trio.SSLStream(stream, context, server_side=True, https_compatible=True)
        try:
            head = (await secured.receive_some(9999)).decode()
        except trio.BrokenResourceError:
            return
        here.hosts.append(next(line for line in head.split("\r\n") if line.lower().startswith("host:"))[6:])
        onward = b"location: https://internal.test/\r\n" if "/moved" in head else b""
        status = b"302 Found" if onward else b"200 OK"
        await secured.send_all(
            b"HTTP/1.1 " + status + b"\r\nconnection: close\r\ncontent-length: 0\r\n" + onward + b"\r\n"
        )

    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(partial(trio.serve_tcp, handle, 0, host="127.0.0.1"))
        here.port = listeners[0].socket.getsockname()[1]
        yield here
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def client(
    here: Site, check: Callable[[str, Address], str | None] = loopback_is_public
) -> AsyncIterator[httpx2.AsyncClient]:
    async with open_pinned_client(check, resolve=here.names, tls=here.trusted) as http:
        yield http


async def test_host_server_name_and_certificate_come_from_the_url() -> None:
    async with site() as here, client(here) as http:
        for name in ("good.test", "other.test"):
            assert (await http.get(f"https://{name}:{here.port}/")).status_code == 200
        assert here.server_names == ["good.test", "other.test"]
        assert here.hosts == [f"good.test:{here.port}", f"other.test:{here.port}"]


async def test_a_certificate_for_another_name_is_refused() -> None:
    async with site() as here:
        here.names = lambda host, port: resolve("127.0.0.1", port)  # type: ignore[method-assign]
        async with open_pinned_client(loopback_is_public, resolve=here.names, tls=here.trusted) as other:
            with pytest.raises(httpx2.ConnectError) as caught:
                await other.get(f"https://wrong.test:{here.port}/")
    assert "certificate was refused" in str(to_provider_error(caught.value, "p"))


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("internal.test", "10.0.0.5"),
        ("mixed.test", "169.254.169.254"),
        ("mapped.test", "::ffff:169.254.169.254"),
        ("10.1.2.3", "10.1.2.3"),
        ("[::1]", "::1"),
        ("[64:ff9b::a00:1]", "64:ff9b::a00:1"),
        ("[2002:a00:1::]", "2002:a00:1::"),
    ],
)
async def test_one_bad_address_refuses_the_host_before_any_connection(host: str, address: str) -> None:
    async with site() as here, client(here) as http:
        with pytest.raises(AddressRefusedError) as caught:
            await http.get(f"https://{host}:{here.port}/")
        assert here.connections == 0
    assert (caught.value.address, caught.value.reason) == (ip_address(address), "it is internal")
    error = to_provider_error(caught.value, "p")
    assert type(error) is UnreachableError
    assert (error.phase, error.request_sent, error.transient) == ("connect", False, False)
    assert "may not be reached (" in error.message
    assert "it is internal)" in error.message


async def test_a_name_is_resolved_once_so_that_it_cannot_change_between_check_and_connection() -> None:
    async with site() as here, client(here) as http:
        here.trusted.check_hostname, here.trusted.verify_mode = False, ssl.CERT_NONE
        assert (await http.get(f"https://rebind.test:{here.port}/")).status_code == 200
        assert here.asked == ["rebind.test"]
        await http.aclose()
        async with client(here) as another:
            with pytest.raises(AddressRefusedError):
                await another.get(f"https://rebind.test:{here.port}/")


async def test_the_next_checked_address_is_tried_where_one_does_not_answer() -> None:
    async with site() as here, client(here) as http:
        here.trusted.check_hostname, here.trusted.verify_mode = False, ssl.CERT_NONE
        assert (await http.get(f"https://half.test:{here.port}/")).status_code == 200


async def test_a_refused_connection_is_told_as_one() -> None:
    async with open_pinned_client(loopback_is_public) as http:
        with pytest.raises(httpx2.ConnectError) as caught:
            await http.get("http://127.0.0.1:9/")
    assert str(to_provider_error(caught.value, "p")) == "could not connect to 127.0.0.1:9 (connection refused)"


async def test_a_redirect_is_not_followed_and_following_it_goes_through_the_check() -> None:
    async with site() as here, client(here) as http:
        reply = await http.get(f"https://good.test:{here.port}/moved")
        assert reply.status_code == 302
        with pytest.raises(AddressRefusedError, match=r"^internal\.test has the address 10\.0\.0\.5: it is internal$"):
            await http.get(reply.headers["location"])
        with pytest.raises(AddressRefusedError):
            await http.get(f"https://good.test:{here.port}/moved", follow_redirects=True)


async def test_what_the_check_raises_leaves_the_request_as_it_is() -> None:
    class Refused(Exception):
        pass

    def check(host: str, address: Address) -> str | None:
        raise Refused(host)

    async with site() as here, client(here, check) as http:
        with pytest.raises(Refused, match=r"^good\.test$"):
            await http.get(f"https://good.test:{here.port}/")


async def test_every_spelling_of_an_address_is_seen_as_that_address() -> None:
    seen: list[Address] = []

    def check(host: str, address: Address) -> str | None:
        seen.append(address)
        return "no"

    async with open_pinned_client(check) as http:
        for spelling in ("127.1", "0x7f000001", "2130706433", "127.0.1"):
            with pytest.raises(AddressRefusedError):
                await http.get(f"http://{spelling}/")
    assert seen == [ip_address("127.0.0.1")] * 4


def test_the_addresses_that_an_ipv6_one_stands_for() -> None:
    def stands_for(text: str) -> set[str]:
        return {str(each) for each in embedded(IPv6Address(text))[1:]}

    assert stands_for("::ffff:10.0.0.1") == {"10.0.0.1"}
    assert stands_for("64:ff9b::a9fe:a9fe") == {"169.254.169.254"}
    assert stands_for("2002:a00:1::") == {"10.0.0.1"}
    assert stands_for("2001:0:4136:e378:8000:63bf:f5ff:fffe") == {"65.54.227.120", "10.0.0.1"}
    assert stands_for("2001:4860::1") == set()
