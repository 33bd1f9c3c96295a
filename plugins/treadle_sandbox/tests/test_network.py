"""Which URLs a block lets through, for tools, attachments and webhooks."""

import socket
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from typing import Any

import pytest
import trio
from hypothesis import example, given, settings
from hypothesis import strategies as st

from treadle import SandboxError, ToolError
from treadle_sandbox.addresses import is_internal, is_internal_name
from treadle_sandbox.block import PolicyBlock
from treadle_sandbox.network import NetworkRules
from treadle_sandbox.policy import PolicySandbox

NAMES: dict[str, list[str]] = {
    "public.test": ["93.184.215.14"],
    "internal.test": ["10.0.0.5"],
    "mixed.test": ["93.184.215.14", "169.254.169.254"],
    "mapped.test": ["::ffff:127.0.0.1"],
    "six.test": ["2606:2800:21f:cb07:6820:80da:af6b:8b2c"],
    "six-internal.test": ["fd00::1"],
    "127.0.0.1.nip.io": ["127.0.0.1"],
    "localtest.me": ["127.0.0.1"],
    "xn--bcher-kva.test": ["93.184.215.14"],
}


class Resolver(trio.abc.HostnameResolver):
    """A name server of few names."""

    async def getaddrinfo(self, host: Any, port: Any, *args: Any, **kwargs: Any) -> Any:
        name = host.decode() if isinstance(host, bytes) else host
        if name == "again.test":
            raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
        if name not in NAMES:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [(socket.AF_INET6 if ":" in each else socket.AF_INET, 1, 6, "", (each, port)) for each in NAMES[name]]

    async def getnameinfo(self, sockaddr: Any, flags: Any) -> Any:
        raise AssertionError


def _names_are_ours() -> None:
    trio.socket.set_custom_hostname_resolver(Resolver())


async def _check(url: str, purpose: Any = "tool", **fields: Any) -> str | None:
    """What the sandbox says against the URL; None where it lets it through."""
    _names_are_ours()
    block = PolicyBlock(**({"enabled": True} | fields))
    refused: str | None = None
    try:
        await PolicySandbox(block, Path()).check_url(url, purpose=purpose)
    except SandboxError as error:
        refused = str(error)
    assert refused is None or "sandbox" in refused
    return refused


# --- the table of rules -----------------------------------------------------------------------------------


async def test_a_disabled_block_lets_a_tool_reach_everything() -> None:
    for url in ("http://127.0.0.1/", "http://public.test/", "https://unknown.test/", "http://localhost:1/"):
        assert await _check(url, enabled=False, allow_network=False, allowed_domains=("a.test",)) is None


async def test_no_network_is_no_request() -> None:
    assert "allows no network" in (await _check("https://public.test/", allow_network=False) or "")


async def test_the_scheme_must_be_listed_and_only_http_and_https_ever_work() -> None:
    assert await _check("http://public.test/", allowed_schemes=("https",)) == (
        "the sandbox does not allow the scheme 'http': allowed_schemes has https"
    )
    assert await _check("HTTPS://public.test/", allowed_schemes=("HTTPS",)) is None
    assert await _check("http://public.test/", allowed_schemes=()) is None
    for url in ("ftp://public.test/", "file:///etc/passwd", "gopher://public.test/", "http+unix://%2Frun%2Fx.sock/"):
        text = await _check(url, allowed_schemes=("ftp", "file", "gopher", "http+unix"))
        assert "the sandbox refuses what is not a plain http or https URL" in (text or "")


@pytest.mark.parametrize(
    ("url", "passes"),
    [
        ("https://api.example.com/x", True),
        ("https://API.Example.COM/x", True),
        ("https://api.example.com:8443/", True),
        ("https://me:pass@api.example.com/", True),
        ("https://eu.api.example.com/", False),
        ("https://example.com/", False),
        ("https://api.example.com./", False),
        ("https://api.example.com.evil.test/", False),
        ("https://api.example.com@evil.test/", False),
        ("https://api.example.com:443@evil.test/", False),
        ("https://evil.test/api.example.com", False),
        ("https://evil.test?https://api.example.com", False),
        ("https://evil.test#@api.example.com", False),
        ("https://evil.test\\@api.example.com/", False),
        ("https://api.example.com\\@evil.test/", False),
        ("https:\\\\api.example.com/", False),
        ("https://api.example.com%2eevil.test/", False),
        ("https://api%2eexample.com/", False),
        ("https://api.example.com\u3002evil.test/", False),
        ("https://\u0430pi.example.com/", False),  # a Cyrillic letter
        ("https://api.example.com\n.evil.test/", False),
        ("https:///api.example.com/", False),
        ("https:api.example.com", False),
        ("//api.example.com/", False),
        (" https://api.example.com/", False),
        ("https://b\u00fccher.test/", True),
        ("https://xn--bcher-kva.test/", True),
        ("https://[::1]/", True),
        ("https://[0:0:0:0:0:0:0:1]/", True),
        ("https://[::2]/", False),
        ("https://10.0.0.5/", True),
        ("https://10.5/", False),
    ],
)
async def test_a_listed_host_is_meant_exactly(url: str, passes: bool) -> None:
    hosts = ("api.example.com", "B\u00fccher.test", "[::1]", "10.0.0.5")
    assert (await _check(url, allowed_domains=hosts) is None) is passes


@pytest.mark.parametrize(
    "entry", ["https://a.test", "a.test/x", "*.a.test", "a.test:80", "me@a.test", "", "a b", "[::1]:80"]
)
async def test_an_entry_that_is_no_host_admits_nothing_and_is_named(entry: str) -> None:
    text = await _check("https://a.test/", allowed_domains=("b.test", entry))
    assert (text or "").endswith(f"without scheme, port, path and wildcard: not {entry}")
    text = await _check("https://a.test/", allowed_domains=("b.test", "::1", "[::1]", "10.0.0.1", "b\u00fccher.test"))
    assert (text or "").endswith("allowed_domains has b.test, ::1, [::1], 10.0.0.1, b\u00fccher.test")


async def test_a_listed_host_is_reached_though_it_is_internal_unless_that_is_denied() -> None:
    for url, host in (("http://internal.test/", "internal.test"), ("http://127.0.0.1/", "127.0.0.1"),
                      ("http://localhost/", "localhost")):  # fmt: skip
        assert await _check(url, allowed_domains=(host,)) is None
        assert "refuses internal addresses" in (
            await _check(url, allowed_domains=(host,), deny_internal_hosts=True) or ""
        )
    assert await _check("http://public.test/", allowed_domains=("public.test",), deny_internal_hosts=True) is None


async def test_without_a_list_internal_hosts_are_refused_by_every_address_they_have() -> None:
    assert await _check("http://public.test/") is None
    assert await _check("http://six.test/") is None
    assert await _check("http://internal.test/") == (
        "the sandbox refuses internal addresses, and 'internal.test (10.0.0.5)' is one; list the host in "
        "allowed_domains if it is meant"
    )
    for name in ("mixed.test", "mapped.test", "six-internal.test", "127.0.0.1.nip.io", "localtest.me"):
        assert "refuses internal addresses" in (await _check(f"http://{name}/") or "")


async def test_a_host_that_does_not_resolve_is_refused() -> None:
    for host in ("unknown.test", "a" * 64 + ".test", "a..b"):
        assert await _check(f"http://{host}/") == f"the sandbox cannot check '{host}': the host does not resolve"


async def test_only_a_name_server_that_does_not_answer_is_asked_again() -> None:
    _names_are_ours()
    for host, transient in (("again.test", True), ("unknown.test", False)):
        with pytest.raises(SandboxError) as caught:
            await PolicySandbox(PolicyBlock(enabled=True), Path()).check_url(f"http://{host}/", purpose="tool")
        assert caught.value.transient is transient


@pytest.mark.parametrize("enabled", [False, True])
async def test_attachments_have_network_and_hosts_in_either_case_and_never_internal_addresses(enabled: bool) -> None:
    async def check(url: str, **fields: Any) -> str | None:
        return await _check(url, "attachment", enabled=enabled, **fields)

    assert await check("https://public.test/") is None
    assert "allows no network" in (await check("https://public.test/", allow_network=False) or "")
    assert "does not allow the host" in (await check("https://public.test/", allowed_domains=("a.test",)) or "")
    assert await check("https://public.test/", allowed_domains=("public.test",)) is None
    assert await check("http://public.test/", allowed_schemes=("https",)) is None
    for host in ("internal.test", "127.0.0.1", "localhost", "mixed.test"):
        for domains in ((), (host,)):
            assert "refuses internal addresses" in (await check(f"http://{host}/", allowed_domains=domains) or "")
    assert "not a plain http" in (await check("ftp://public.test/") or "")


@pytest.mark.parametrize("enabled", [False, True])
async def test_webhooks_reach_internal_addresses_only_where_allowed(enabled: bool) -> None:
    async def check(url: str, **fields: Any) -> str | None:
        return await _check(url, "webhook", enabled=enabled, **fields)

    assert await check("https://public.test/") is None
    text = await check("http://127.0.0.1:8000/hook", allowed_domains=("127.0.0.1",)) or ""
    assert text == (
        "the sandbox refuses internal addresses, and '127.0.0.1' is one; allow_internal_webhook_targets allows them"
    )
    assert await check("http://127.0.0.1/", allow_internal_webhook_targets=True) is None
    assert await check("http://internal.test/", allow_internal_webhook_targets=True, deny_internal_hosts=True) is None
    limits = ({"allow_network": False}, {"allowed_schemes": ("https",)}, {"allowed_domains": ("a.test",)})
    for limit in limits:
        assert (await check("http://public.test/", **limit) is None) is not enabled


# --- spellings of internal addresses ----------------------------------------------------------------------

SPELLINGS = [
    "127.0.0.1", "127.1", "127.0.1", "0x7f000001", "0x7f.0.0.1", "0177.0.0.1", "2130706433", "017700000001", "0",
    "0.0.0.0", "127.255.255.254", "10.0.0.1", "10.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "169.254.169.254",
    "0xa9fea9fe", "2852039166", "100.64.0.1", "100.127.255.255", "192.0.0.192", "198.18.0.1", "224.0.0.1", "240.0.0.1",
    "255.255.255.255", "[::1]", "[::]", "[0:0:0:0:0:0:0:1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::127.0.0.1]",
    "[64:ff9b::127.0.0.1]", "[64:ff9b::a9fe:a9fe]", "[64:ff9b:1::1]", "[2002:7f00:1::]", "[2002:a00:1::1]",
    "[2001:0:7f00:1::]", "[fe80::1]", "[fc00::1]", "[fd12::1]", "[fec0::1]", "[ff02::1]", "[2001:db8::1]", "[100::1]",
    "[2606:4700::5efe:10.0.0.1]", "[::ffff:0:127.0.0.1]", "localhost", "LOCALHOST", "localhost.", "a.localhost",
    "localhost.localdomain", "127\u30020\u30020\u30021",
]  # fmt: skip


@pytest.mark.parametrize("host", SPELLINGS)
async def test_an_internal_address_is_refused_in_any_spelling(host: str) -> None:
    for purpose in ("tool", "attachment", "webhook", "mcp"):
        text = await _check(f"http://{host}:80/latest/meta-data", purpose)
        assert text is not None
        assert "refuses internal addresses" in text or "Invalid IPv4 address" in text


@pytest.mark.parametrize(
    "address",
    ["1.1.1.1", "93.184.215.14", "172.32.0.1", "100.63.255.255", "100.128.0.1", "11.0.0.1", "2606:4700::1",
     "::ffff:1.1.1.1", "64:ff9b::1.1.1.1", "2002:101:101::1", "2001:4860:4860::8888"],
)  # fmt: skip
def test_a_public_address_is_not_internal(address: str) -> None:
    assert is_internal(ip_address(address)) is False


@given(st.ip_addresses(v=4))
def test_ipv4_agrees_with_the_standard_library(address: IPv4Address) -> None:
    if not address.is_global or address.is_multicast:
        # 192.0.0.9 and .10 are anycast of protocols, which newer libraries call global.
        assert is_internal(address)


@example(IPv6Address("2002:5d3d:e5d8:53ff:ffff:ffff:e000:0"))
@given(st.ip_addresses(v=6))
def test_ipv6_agrees_with_the_standard_library(address: IPv6Address) -> None:
    if (
        address.is_loopback
        or address.is_link_local
        or address.is_private
        or address.is_multicast
        or address.is_reserved
    ):
        # Mapped, or by NAT64; or by 6to4 (RFC 3056), all of which newer libraries call private.
        inner = IPv4Address(int(address) >> (80 if int(address) >> 112 == 0x2002 else 0) & 0xFFFFFFFF)
        assert is_internal(address) or not is_internal(inner)


@given(st.ip_addresses(v=4))
def test_ipv4_in_other_clothes_is_judged_as_itself(address: IPv4Address) -> None:
    number = int(address)
    for dressed in (
        IPv6Address((0xFFFF << 32) | number),
        IPv6Address((0x64FF9B << 96) | number),
    ):
        assert is_internal(dressed) is is_internal(address)
    if is_internal(address):
        assert is_internal(IPv6Address((0x2002 << 112) | (number << 80) | 1))
        assert is_internal(IPv6Address((0x20010000 << 96) | (number ^ 0xFFFFFFFF)))


def _spelled(address: IPv4Address, style: int) -> str:
    number, parts = int(address), str(address).split(".")
    return (
        str(address),
        str(number),
        hex(number),
        f"0{number:o}",
        ".".join(hex(int(part)) for part in parts),
        ".".join(f"0{int(part):o}" for part in parts),
        f"{parts[0]}.{number & 0xFFFFFF}",
        f"{parts[0]}.{parts[1]}.{number & 0xFFFF}",
        f"[::ffff:{address}]",
        f"[::ffff:{number >> 16:x}:{number & 0xFFFF:x}]",
    )[style]


@settings(deadline=None, max_examples=60)
@given(st.ip_addresses(v=4), st.integers(0, 9))
def test_every_spelling_of_an_ipv4_address_is_judged_as_the_system_reads_it(address: IPv4Address, style: int) -> None:
    text = trio.run(_check, f"http://{_spelled(address, style)}/")
    if text is None or "Invalid IPv4 address" not in text:
        assert (text is None) is not is_internal(address)


_URL_PIECES = st.sampled_from(
    ["http://", "https://", "//", "ok.test", "evil.test", "127.0.0.1", "@", ":", "/", "\\", "?", "#", "%2e", "%40", ".",
     "[::1]", "80", "user", "\u3002", "\t", "\n", " ", "\u00e9", "localhost", "0x7f.1", ";", "&"]
)  # fmt: skip


@settings(deadline=None, max_examples=300)
@given(st.lists(_URL_PIECES, min_size=1, max_size=8).map("".join))
def test_no_url_passes_for_another_host_than_the_one_it_is_sent_to(url: str) -> None:
    """The oracle reads the request that would be sent."""
    rules = NetworkRules(PolicyBlock(enabled=True, allowed_domains=("ok.test",)), "tool")
    try:
        parsed = rules.parsed(url)
        rules.check_url(parsed)
    except SandboxError:
        return
    assert parsed.raw_host == b"ok.test"
    assert parsed.scheme in ("http", "https")
    assert "\\" not in url.partition("//")[2].partition("/")[0].partition("?")[0].partition("#")[0]


@given(st.text(max_size=40))
def test_no_text_makes_the_check_fail_otherwise_than_by_a_refusal(text: str) -> None:
    rules = NetworkRules(PolicyBlock(enabled=True), "tool")
    for url in (text, f"http://{text}", f"http://{text}/"):
        try:
            rules.check_url(rules.parsed(url))
        except SandboxError:
            continue


async def test_a_disabled_block_still_says_what_is_no_url() -> None:
    with pytest.raises(ToolError, match="a URL must begin with http"):
        await PolicySandbox(PolicyBlock(), Path()).check_url("ftp://x.test", purpose="tool")


def test_a_name_that_only_begins_like_localhost_is_a_name_like_others() -> None:
    assert not is_internal_name("localhost.example.com")
    assert not is_internal_name("notlocalhost")
