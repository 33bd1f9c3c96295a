"""Which proxy a URL is reached through, read from the environment by ourselves.

The rules are those that curl and most programs share: ``HTTPS_PROXY`` for https, ``HTTP_PROXY`` for http,
``ALL_PROXY`` for either, ``NO_PROXY`` for hosts that are reached directly; names in small letters win; an empty
variable is not set. ``HTTP_PROXY`` in capitals is not read in a CGI process (where a client's ``Proxy`` header
would set it: https://httpoxy.org).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from ipaddress import ip_address, ip_network
from typing import Self

import httpx2

__all__ = ["Proxies"]


class Proxies:
    """The proxies of an environment. What is wrong with one is told when it is first needed.

    :param by_scheme: the proxy's URL for ``http`` and ``https``.
    :param direct: hosts without a proxy, as ``NO_PROXY`` has them: ``*``, a domain (with all below it, whether or
        not it begins with a dot), an address, a network (``10.0.0.0/8``), each with ``:port`` if wanted.
    """

    def __init__(self, by_scheme: Mapping[str, str], direct: str = "") -> None:
        self._urls = by_scheme
        self._direct = [entry for part in direct.split(",") if (entry := part.strip().lower())]
        self._known: dict[str, httpx2.Proxy] = {}

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> Self | None:
        """What the environment says, None where it names no proxy."""
        env = os.environ if environment is None else environment

        def first(*names: str) -> str:
            return next((value for name in names if (value := env.get(name, "").strip())), "")

        every = first("all_proxy", "ALL_PROXY")
        plain = first("http_proxy", *(() if "REQUEST_METHOD" in env else ("HTTP_PROXY",))) or every
        secure = first("https_proxy", "HTTPS_PROXY") or every
        found = {scheme: url for scheme, url in (("http", plain), ("https", secure)) if url}
        return cls(found, first("no_proxy", "NO_PROXY")) if found else None

    def of(self, url: httpx2.URL) -> httpx2.Proxy | None:
        """The proxy for a URL, None where it is reached directly.

        :raises ProxyError: the proxy's own URL cannot be used.
        """
        address = self._urls.get(url.scheme)
        if address is None or self._is_direct(url):
            return None
        known = self._known.get(url.scheme)
        if known is None:
            known = self._known[url.scheme] = _proxy(address)
        return known

    def _is_direct(self, url: httpx2.URL) -> bool:
        host = url.host.lower().rstrip(".")
        port = url.port or (443 if url.scheme == "https" else 80)
        return any(_matches(entry, host, port) for entry in self._direct)


def _matches(entry: str, host: str, port: int) -> bool:
    if entry == "*":
        return True
    name, colon, number = entry.rpartition(":")
    if colon and number.isdigit() and (":" not in name or name.endswith("]")):
        if int(number) != port:
            return False
        entry = name
    entry = entry.strip("[]")
    try:
        address = ip_address(host)
    except ValueError:
        domain = entry.removeprefix("*").strip(".")
        return bool(domain) and (host == domain or host.endswith("." + domain))
    try:
        return address in ip_network(entry, strict=False)
    except ValueError:
        return False


def _proxy(address: str) -> httpx2.Proxy:
    text = address if "://" in address else f"http://{address}"
    scheme = text.partition("://")[0].lower()
    if scheme not in ("http", "https"):
        raise httpx2.ProxyError(f"a proxy is reached by http:// or https://, not by {scheme}://")
    try:
        proxy = httpx2.Proxy(text)
    except (httpx2.InvalidURL, ValueError):
        raise httpx2.ProxyError("the proxy's URL is not a URL") from None  # it may hold a password
    if not proxy.url.host:
        raise httpx2.ProxyError("the proxy's URL names no host")
    return proxy
