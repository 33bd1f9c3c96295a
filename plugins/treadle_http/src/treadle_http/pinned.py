"""Addresses that are checked before anything is sent to them, and dialled as they were checked.

A name is resolved once; *every* address that it has must pass the caller's check; the connection goes to one of just
these. So a name server that answers otherwise a moment later changes nothing. The ``Host`` header, the TLS server
name and the certificate's check come from the URL, as ever. Redirects are not followed by the client: whoever
follows one sends a request of its own, and so goes through the check again.

Through a proxy nothing is pinned, as the proxy resolves the name itself.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from ipaddress import IPv4Address, IPv6Address, ip_address

import httpx2
import trio

from treadle_http.client import Timeouts, open_client
from treadle_http.dialling import Dial, dial_address
from treadle_http.limits import BODY_LIMIT

__all__ = [
    "Address",
    "AddressRefusedError",
    "Check",
    "Resolve",
    "embedded",
    "open_pinned_client",
    "pinned_dial",
    "resolve",
]

Address = IPv4Address | IPv6Address

Check = Callable[[str, Address], str | None]
"""Given the host as the URL has it and one of its addresses, says why it may not be reached, or None where it may.
What it raises instead leaves the request as it is."""

Resolve = Callable[[str, int], Awaitable[Iterable[Address]]]
"""Gives all the addresses of a host. Raises ``OSError`` where there are none."""

_NAT64 = (int(IPv6Address("64:ff9b::")), 96)  # RFC 6052


class AddressRefusedError(httpx2.TransportError):
    """A host has an address that may not be reached; no connection was attempted.

    :param host: the host as the URL has it.
    :param address: the address that was refused.
    :param reason: what the check said.
    """

    def __init__(self, host: str, address: Address, reason: str) -> None:
        super().__init__(f"{host} has the address {address}: {reason}" if host != str(address) else reason)
        self.host = host
        self.address = address
        self.reason = reason


def embedded(address: Address) -> tuple[Address, ...]:
    """The address, and the IPv4 addresses that an IPv6 one stands for: a packet to it may end up at these.

    IPv4-mapped (RFC 4291), 6to4 (RFC 3056), Teredo's two (RFC 4380) and NAT64 (RFC 6052). For a check to look at.
    """
    if isinstance(address, IPv4Address):
        return (address,)
    prefix, bits = _NAT64
    nat64 = IPv4Address(int(address) & 0xFFFFFFFF) if int(address) >> (128 - bits) == prefix >> (128 - bits) else None
    others = (address.ipv4_mapped, address.sixtofour, *(address.teredo or ()), nat64)
    return (address, *(each for each in others if each is not None))


async def resolve(host: str, port: int) -> list[Address]:
    """All the addresses of a host, each once; an address stands for itself, in any spelling that the system takes.

    :raises OSError: the name is not known.
    """
    found = await trio.socket.getaddrinfo(host, port, type=trio.socket.SOCK_STREAM)
    return list(dict.fromkeys(ip_address(place[0]) for *_, place in found))


def pinned_dial(check: Check, resolve: Resolve = resolve) -> Dial:
    """Opens connections to addresses that have all passed the check. For ``open_client(dial=...)``."""

    async def dial(host: str, port: int) -> trio.SocketStream:
        addresses = list(await resolve(host, port))
        for address in addresses:
            if reason := check(host, address):
                raise AddressRefusedError(host, address, reason)
        failure: OSError = OSError("the name has no address")
        for address in addresses:
            try:
                return await dial_address(address, port)
            except OSError as error:
                failure = error
        raise failure

    return dial


@asynccontextmanager
async def open_pinned_client(
    check: Check,
    *,
    resolve: Resolve = resolve,
    timeouts: Timeouts | None = None,
    headers: Mapping[str, str] | None = None,
    tls: ssl.SSLContext | None = None,
    trust_env: bool = False,
    max_connections: int | None = None,
    body_limit: int = BODY_LIMIT,
) -> AsyncIterator[httpx2.AsyncClient]:
    """A client whose every connection goes to a checked address; otherwise as :func:`treadle_http.open_client`.

    :param check: asked for every address of a host, before the first connection to any of them.
    :param resolve: gives a host's addresses, for those who have looked them up already.
    :param trust_env: use the environment's proxies. What goes through one is neither resolved nor checked here.
    """
    async with open_client(
        timeouts=timeouts,
        headers=headers,
        tls=tls,
        trust_env=trust_env,
        max_connections=max_connections,
        body_limit=body_limit,
        dial=pinned_dial(check, resolve),
    ) as client:
        yield client
