"""Which URLs may be reached, for what."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterable
from ipaddress import ip_address

import httpx2

from treadle import SandboxError, ToolError
from treadle.contracts.sandbox import Purpose
from treadle_http.pinned import Address, resolve
from treadle_sandbox.addresses import is_internal, is_internal_name
from treadle_sandbox.block import PolicyBlock

__all__ = ["NetworkRules", "parsed_url"]

_SCHEMES = ("http", "https")
_ODD_HOST = re.compile(r"[^/?#]*//[^/?#]*\\")
"""A backslash before the path: where one program sees the host's end, another sees a user name."""

_NO_HOST = re.compile(r"[/@*\\\s]|^$")
_WITH_PORT = re.compile(r"[^:]+:\d*|\[.*\]:\d*")


def parsed_url(url: str) -> httpx2.URL:
    """The URL, which must be a whole one with the scheme http or https.

    :raises ToolError: it is not.
    """
    if _ODD_HOST.match(url):
        raise ToolError("not a URL: there is a backslash in its host", transient=False)
    try:
        parsed = httpx2.URL(url)
    except (httpx2.InvalidURL, ValueError) as error:
        raise ToolError(f"not a URL: {error}", transient=False) from error
    if parsed.scheme not in _SCHEMES:
        got = f"'{parsed.scheme}'" if parsed.scheme else "none"
        raise ToolError(f"a URL must begin with http:// or https://; its scheme is {got}", transient=False)
    if not parsed.host:
        raise ToolError("the URL names no host", transient=False)
    if parsed.port is not None and not 0 < parsed.port < 65536:
        raise ToolError(f"the URL's port {parsed.port} is not between 1 and 65535", transient=False)
    return parsed


class NetworkRules:
    """A block's rules for requests of one purpose.

    | purpose | while disabled | while enabled |
    | --- | --- | --- |
    | tool, mcp | any URL | network, schemes, hosts; internal ones only where listed and not denied |
    | attachment | network, hosts; no internal ones | the same |
    | webhook | internal ones only where allowed | also network, schemes, hosts |

    :ivar open: whether nothing is checked.
    """

    def __init__(self, block: PolicyBlock, purpose: Purpose) -> None:
        self._block = block
        self._purpose = purpose
        self._hosts = frozenset(map(_plain, block.allowed_domains))
        self._schemes = frozenset(each.lower() for each in block.allowed_schemes)
        self.open = not block.enabled and purpose in ("tool", "mcp")

    def parsed(self, url: str) -> httpx2.URL:
        """The URL, read once: what is checked is what is then requested.

        :raises ToolError: it is no URL, or not one of http or https. ``SandboxError`` where anything is checked.
        """
        try:
            return parsed_url(url)
        except ToolError as error:
            if self.open:
                raise
            raise SandboxError(f"the sandbox refuses what is not a plain http or https URL: {error.message}") from error

    def check_url(self, url: httpx2.URL) -> None:
        """What can be told without a look at the host's addresses.

        :raises SandboxError: the URL may not be reached.
        """
        block = self._block
        if self.open:
            return
        if not block.allow_network and (block.enabled or self._purpose == "attachment"):
            raise SandboxError(
                "the sandbox allows no network: allow_network is false, or lists have no entry in common"
            )
        if block.enabled and self._purpose != "attachment" and self._schemes and url.scheme not in self._schemes:
            raise SandboxError(
                f"the sandbox does not allow the scheme '{url.scheme}': {_listed('allowed_schemes', block)}"
            )
        if (
            (block.enabled or self._purpose == "attachment")
            and self._hosts
            and _plain(url.raw_host.decode("ascii")) not in self._hosts
        ):
            raise SandboxError(
                f"the sandbox does not allow the host '{url.host}': {_listed('allowed_domains', block)}",
                hint=_never_equal(block.allowed_domains),
            )
        if not self.allows_internal() and is_internal_name(url.host):
            raise SandboxError(self._internal(url.host))

    def allows_internal(self) -> bool:
        """Whether a host that passed :meth:`check_url` may be an internal one."""
        if self.open:
            return True
        if self._purpose == "attachment":
            return False
        if self._purpose == "webhook":
            return self._block.allow_internal_webhook_targets
        return bool(self._hosts) and not self._block.deny_internal_hosts

    def check_address(self, host: str, address: Address) -> None:
        """Asked for every address of a host before any of them is dialled.

        :raises SandboxError: it is internal.
        """
        if not self.allows_internal() and is_internal(address):
            raise SandboxError(self._internal(host if host == str(address) else f"{host} ({address})"))

    async def resolve(self, host: str, port: int) -> list[Address]:
        """All addresses of a host; the one place where names are looked up.

        :raises SandboxError: it has none that could be checked. May be tried again where the name server is at fault.
        """
        try:
            found = await resolve(host, port)
        except (OSError, UnicodeError, ValueError) as error:
            if self.allows_internal() and isinstance(error, OSError):
                raise  # an error like any other: there was nothing to refuse
            raise _unresolved(host, error) from error
        if not found:
            raise _unresolved(host, None)
        return found

    async def check_host(self, url: httpx2.URL, *, unknown: bool = False) -> None:
        """Look the host up and check every address of it, for what will not be dialled here.

        :param unknown: let a host pass that does not resolve.
        :raises SandboxError: an address is internal, or there is none.
        """
        if self.allows_internal():
            return
        host = url.raw_host.decode("ascii")
        try:
            found = await self.resolve(host, url.port or (443 if url.scheme == "https" else 80))
        except SandboxError:
            if unknown:
                return
            raise
        for address in found:
            self.check_address(host, address)

    def _internal(self, what: str) -> str:
        text = f"the sandbox refuses internal addresses, and '{what}' is one"
        if self._purpose == "webhook":
            return f"{text}; allow_internal_webhook_targets allows them"
        if self._purpose == "attachment" or self._block.deny_internal_hosts:
            return text
        return f"{text}; list the host in allowed_domains if it is meant"


def _plain(host: str) -> str:
    """A host as it is compared: in small ASCII letters (IDNA), an IPv6 address bare and in its one spelling."""
    bare = host.lower().removeprefix("[").removesuffix("]")
    if ":" in bare:
        try:
            return str(ip_address(bare))
        except ValueError:
            return bare
    if bare.isascii():
        return bare
    try:
        return httpx2.URL(f"http://{bare}/").raw_host.decode("ascii").lower()
    except httpx2.InvalidURL:
        return bare


def _listed(name: str, block: PolicyBlock) -> str:
    return f"{name} has {', '.join(getattr(block, name))}"


def _never_equal(hosts: Iterable[str]) -> str | None:
    """What is wrong with entries that are no hosts, and so admit nothing."""
    odd = [each for each in hosts if _NO_HOST.search(each) or _WITH_PORT.fullmatch(each)]
    if not odd:
        return None
    return f"an entry is a whole host name or address, without scheme, port, path and wildcard: not {', '.join(odd)}"


def _unresolved(host: str, error: Exception | None) -> SandboxError:
    # "Try again" is a name server that did not answer: no refusal by a rule, which would be for ever.
    may_change = isinstance(error, socket.gaierror) and error.errno == socket.EAI_AGAIN
    return SandboxError(f"the sandbox cannot check '{host}': the host does not resolve", transient=may_change)
