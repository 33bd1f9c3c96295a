"""Which addresses and host names are internal: not on the public internet.

The ranges are those of IANA's special-purpose address registries, kept here rather than asked of ``ipaddress``,
whose answers differ between versions of Python.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_network

from treadle_http.pinned import Address, embedded

__all__ = ["is_internal", "is_internal_name"]

_INTERNAL_4 = [
    ip_network(text)
    for text in (
        "0.0.0.0/8",  # this network
        "10.0.0.0/8",  # private
        "100.64.0.0/10",  # shared address space (RFC 6598)
        "127.0.0.0/8",  # loopback
        "169.254.0.0/16",  # link-local, with the metadata services of clouds
        "172.16.0.0/12",  # private
        "192.0.0.0/24",  # protocol assignments
        "192.0.2.0/24",  # documentation
        "192.88.99.0/24",  # 6to4 relays
        "192.168.0.0/16",  # private
        "198.18.0.0/15",  # benchmarks
        "198.51.100.0/24",  # documentation
        "203.0.113.0/24",  # documentation
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, and broadcast
    )
]
_UNICAST_6 = ip_network("2000::/3")
"""What is given out as global unicast (RFC 4291); all else is local, reserved or multicast."""

_INTERNAL_6 = [
    ip_network(text)
    for text in (
        "2001:db8::/32",  # documentation
        "3fff::/20",  # documentation
        "2001::/23",  # protocol assignments: Teredo, benchmarks, ORCHID
    )
]
_TRANSLATED_6 = (ip_network("::ffff:0:0/96"), ip_network("64:ff9b::/96"))
"""IPv4 in other clothes: judged by the IPv4 address alone."""

_ISATAP = (0x00005EFE, 0x02005EFE)
"""The upper half of an interface's identifier that ends in an IPv4 address (RFC 5214)."""

_NAMES = ("localhost", "localhost.localdomain", "ip6-localhost", "ip6-loopback")


def is_internal(address: Address) -> bool:
    """Whether a packet to the address may end up on this machine or a network of its own."""
    if isinstance(address, IPv4Address):
        return any(address in network for network in _INTERNAL_4)
    if any(isinstance(each, IPv4Address) and is_internal(each) for each in (*embedded(address), *_isatap(address))):
        return True
    if any(address in network for network in _TRANSLATED_6):
        return False
    return address not in _UNICAST_6 or any(address in network for network in _INTERNAL_6)


def is_internal_name(host: str) -> bool:
    """Whether the name means this machine whatever a name server says (RFC 6761)."""
    name = host.lower().rstrip(".")
    return name in _NAMES or name.endswith(".localhost")


def _isatap(address: IPv6Address) -> tuple[IPv4Address, ...]:
    number = int(address)
    return (IPv4Address(number & 0xFFFFFFFF),) if number >> 32 & 0xFFFFFFFF in _ISATAP else ()
