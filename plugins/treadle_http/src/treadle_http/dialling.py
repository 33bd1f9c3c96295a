"""Connections opened: names resolved, TCP dialled, TLS agreed on."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Awaitable, Callable
from ipaddress import IPv4Address, IPv6Address, ip_address

import httpx2
import trio

__all__ = ["Dial", "dial", "dial_address", "open_stream"]

Dial = Callable[[str, int], Awaitable[trio.SocketStream]]
"""Opens a TCP connection to a host (a name, or an address without brackets) and port. Raises ``OSError``."""


async def dial(host: str, port: int) -> trio.SocketStream:
    """Open a connection to an address, or to one of those that a name resolves to (RFC 8305).

    :raises OSError: none could be reached, or the name is not known.
    """
    try:
        address = ip_address(host)
    except ValueError:
        return await trio.open_tcp_stream(host, port)
    return await dial_address(address, port)


async def dial_address(address: IPv4Address | IPv6Address, port: int) -> trio.SocketStream:
    """Open a connection to just this address, without the race that a name with several of them needs.

    :raises OSError: it could not be reached.
    """
    family = socket.AF_INET6 if address.version == 6 else socket.AF_INET
    opened = trio.socket.socket(family, socket.SOCK_STREAM)
    try:
        await opened.connect((str(address), port))
        return trio.SocketStream(opened)
    except BaseException:
        opened.close()
        raise


async def open_stream(url: httpx2.URL, *, by: Dial, tls: ssl.SSLContext, server_name: str) -> trio.abc.Stream:
    """A connection to the URL's host, with TLS where the URL says so.

    :param server_name: what the certificate must be for.
    :raises ConnectError: it could not be opened; the cause says why.
    """
    host = url.raw_host.decode("ascii")
    port = url.port or (443 if url.scheme == "https" else 80)
    try:
        stream = await by(host, port)
    except (OSError, trio.BrokenResourceError) as error:
        raise httpx2.ConnectError(str(error)) from error
    if url.scheme != "https":
        return stream
    secured = trio.SSLStream(stream, tls, server_hostname=server_name, https_compatible=True)
    try:
        await secured.do_handshake()
    except BaseException as error:
        with trio.CancelScope(shield=True):  # waits for nothing
            await stream.aclose()
        if isinstance(error, trio.BrokenResourceError | ssl.SSLError | ssl.CertificateError):
            raise httpx2.ConnectError(str(error)) from error
        raise
    return secured
