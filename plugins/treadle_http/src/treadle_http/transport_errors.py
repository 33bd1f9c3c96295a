"""What the HTTP client's exceptions mean: how far the exchange had come, whether the request was sent, and
whether trying again may help. One table; a test holds it against every exception class of the client."""

from __future__ import annotations

import re
import socket
import ssl
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import httpx2

from treadle.errors import (
    BadRequestError,
    Phase,
    ProviderError,
    ProviderTimeoutError,
    RedirectError,
    ResponseError,
    UnavailableError,
    UnreachableError,
)
from treadle_http.client import ANSWERED
from treadle_http.connection import TotalTimeout
from treadle_http.limits import BodyTooLargeError
from treadle_http.pinned import AddressRefusedError
from treadle_http.redaction import origin, redact
from treadle_http.status_errors import status_error

__all__ = ["FACTS", "Facts", "facts_of", "to_provider_error"]


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of a failed exchange.

    :param request_sent: None where some of it may have been sent.
    :param kind: the error that it becomes.
    :param says: the message; ``{host}`` is filled in, and ``{why}`` where there is more to say.
    """

    phase: Phase
    request_sent: bool | None
    transient: bool
    kind: type[ProviderError]
    says: str
    hint: str | None = None


_UNRESOLVED = Facts("connect", False, False, UnreachableError, "could not find the host of {host} ({why})")
_TLS = Facts("tls", False, False, UnreachableError, "could not agree on TLS with {host} ({why})")
_TLS_DROPPED = Facts("tls", False, True, UnavailableError, "{host} dropped the connection during the TLS handshake")
_PROXY = Facts("proxy", False, False, UnreachableError, "could not connect to {host} through the proxy ({why})")
_PROXY_DOWN = Facts("proxy", False, True, UnavailableError, "could not connect to the proxy {proxy} ({why})")
_MALFORMED = Facts("read", True, True, ResponseError, "{host} did not answer in HTTP ({why})")
_CUT = Facts("body", True, True, ResponseError, "{host} dropped the connection in the middle of its reply")
_FAULT = "the HTTP client was misused while talking to {host} ({why})"

FACTS: Mapping[type[Exception], Facts] = {
    httpx2.HTTPError: Facts("send", None, False, ProviderError, "the exchange with {host} failed ({why})"),
    httpx2.RequestError: Facts("send", None, False, ProviderError, "the exchange with {host} failed ({why})"),
    httpx2.TransportError: Facts("send", None, True, UnavailableError, "the exchange with {host} failed ({why})"),
    # time-outs
    httpx2.TimeoutException: Facts("read", None, True, ProviderTimeoutError, "{host} took too long"),
    httpx2.ConnectTimeout: Facts("connect", False, True, ProviderTimeoutError, "connecting to {host} took too long"),
    httpx2.ReadTimeout: Facts("read", True, True, ProviderTimeoutError, "waiting for a reply of {host} took too long"),
    httpx2.WriteTimeout: Facts("send", None, True, ProviderTimeoutError, "sending to {host} took too long"),
    httpx2.PoolTimeout: Facts(
        "connect", False, True, ProviderTimeoutError, "waiting for a free connection to {host} took too long"
    ),
    TotalTimeout: Facts("read", None, True, ProviderTimeoutError, "the whole exchange with {host} took too long"),
    # the network
    httpx2.NetworkError: Facts("send", None, True, UnavailableError, "the connection to {host} failed ({why})"),
    httpx2.ConnectError: Facts("connect", False, True, UnavailableError, "could not connect to {host} ({why})"),
    # What was sent may have met a closed end: a server that drops an idle connection does so unannounced.
    httpx2.ReadError: Facts("read", None, True, UnavailableError, "{host} dropped the connection before it replied"),
    httpx2.WriteError: Facts("send", None, True, UnavailableError, "{host} dropped the connection during the request"),
    httpx2.CloseError: Facts("body", True, True, UnavailableError, "the connection to {host} did not close ({why})"),
    httpx2.ProxyError: _PROXY,
    AddressRefusedError: Facts("connect", False, False, UnreachableError, "{host} may not be reached ({why})"),
    # the protocol
    httpx2.ProtocolError: _MALFORMED,
    httpx2.RemoteProtocolError: _MALFORMED,
    # Its text may quote a header, and with it a key: never shown.
    httpx2.LocalProtocolError: Facts(
        "send",
        False,
        False,
        BadRequestError,
        "the request to {host} cannot be written as HTTP",
        "look for line breaks and other odd characters in the key and the headers that are set",
    ),
    httpx2.UnsupportedProtocol: Facts(
        "connect", False, False, UnreachableError, "{host} cannot be reached", "a URL begins with http:// or https://"
    ),
    httpx2.SSEError: Facts("body", True, True, ResponseError, "{host} sent an unreadable stream ({why})"),
    httpx2.DecodingError: Facts("body", True, True, ResponseError, "{host} sent a damaged compressed reply"),
    BodyTooLargeError: Facts("body", True, False, ResponseError, "{host} sent too much ({why})"),
    httpx2.TooManyRedirects: Facts("redirect", True, False, RedirectError, "{host} redirects without end"),
    httpx2.HTTPStatusError: Facts("status", True, False, ProviderError, "{host} answered with an error"),
    httpx2.InvalidURL: Facts("connect", False, False, UnreachableError, "the server's URL is not a URL"),
    # misuse of the client: a fault in the plugin
    httpx2.CookieConflict: Facts("send", False, False, ProviderError, _FAULT),
    httpx2.StreamError: Facts("body", None, False, ProviderError, _FAULT),
    httpx2.StreamConsumed: Facts("body", True, False, ProviderError, _FAULT),
    httpx2.StreamClosed: Facts("body", True, False, ProviderError, _FAULT),
    httpx2.ResponseNotRead: Facts("body", True, False, ProviderError, _FAULT),
    httpx2.RequestNotRead: Facts("send", False, False, ProviderError, _FAULT),
    # what the client lets through as it is
    ssl.SSLError: _TLS,
    OSError: Facts("send", None, True, UnavailableError, "the connection to {host} failed ({why})"),
}
"""Every exception class of the client and of ours, and what it means where its causes say nothing more precise."""

_UNKNOWN = Facts("send", None, False, ProviderError, "the exchange with {host} failed ({why})")


def facts_of(error: BaseException) -> Facts:
    """What is known of the failed exchange: the table's line, made more precise by the causes behind it."""
    facts = next((FACTS[kind] for kind in type(error).__mro__ if kind in FACTS), _UNKNOWN)
    causes = list(_causes(error))
    if isinstance(error, httpx2.ConnectError):
        return _why_not_connected(error, causes, facts)
    answered = _was_answered(error)
    if isinstance(error, httpx2.RemoteProtocolError) and not answered and "disconnected" in str(error).lower():
        return FACTS[httpx2.ReadError]
    if answered and isinstance(error, httpx2.ReadError | httpx2.RemoteProtocolError | httpx2.CloseError):
        return _CUT
    if answered and isinstance(error, TotalTimeout):
        return replace(facts, phase="body", request_sent=True)
    if answered and isinstance(error, httpx2.ReadTimeout):
        return replace(facts, phase="body", says="{host} fell silent in the middle of its reply")
    return facts


def to_provider_error(error: BaseException, provider: str, *, secrets: Iterable[str] = ()) -> ProviderError:
    """The provider's error for an exception of the HTTP client.

    Its message names the host and how far the exchange had come, and holds no key: of the URL only host and
    port are shown.
    """
    if isinstance(error, httpx2.HTTPStatusError):
        response = error.response
        body = response.content if response.is_stream_consumed else b""
        return status_error(response.status_code, response.headers, body, provider, secrets=secrets)
    facts = facts_of(error)
    return facts.kind(
        facts.says.format(host=_host(error), why=redact(_why(error), secrets)),
        provider=provider,
        phase=facts.phase,
        request_sent=facts.request_sent,
        transient=facts.transient,
        hint=facts.hint,
    )


def _why_not_connected(error: httpx2.ConnectError, causes: list[BaseException], facts: Facts) -> Facts:
    for cause in causes:
        if isinstance(cause, ssl.SSLEOFError | ssl.SSLZeroReturnError):
            return _TLS_DROPPED
        if isinstance(cause, ssl.SSLError):
            return _TLS
        if isinstance(cause, socket.gaierror):
            # "Try again" is a name server that did not answer, not a wrong name.
            return replace(_UNRESOLVED, transient=cause.errno == socket.EAI_AGAIN)
    dialled = _dialled(causes)
    if dialled and dialled != _host(error):
        return replace(_PROXY_DOWN, says=_PROXY_DOWN.says.replace("{proxy}", dialled))
    return facts


def _dialled(causes: list[BaseException]) -> str | None:
    """The address in trio's ``all attempts to connect to HOST:PORT failed``: the proxy's, where there is one."""
    for cause in causes:
        if found := re.fullmatch(r"all attempts to connect to (\S+) failed", str(cause)):
            return found[1]
    return None


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error and what it came from, through causes, contexts and groups; each once."""
    pending: list[BaseException | None] = [error]
    seen: set[int] = set()
    while pending:
        each = pending.pop(0)
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        yield each
        pending.append(each.__cause__ or each.__context__)
        if isinstance(each, BaseExceptionGroup):
            pending.extend(each.exceptions)


def _request(error: BaseException) -> httpx2.Request | None:
    try:
        return error.request if isinstance(error, httpx2.HTTPError) else None
    except RuntimeError:  # never set
        return None


def _was_answered(error: BaseException) -> bool:
    request = _request(error)
    return request is not None and bool(request.extensions.get(ANSWERED))


def _host(error: BaseException) -> str:
    request = _request(error)
    return "the server" if request is None else origin(str(request.url))


def _why(error: BaseException) -> str:
    """The shortest true reason: what the operating system or OpenSSL said, without our libraries' wrapping."""
    for cause in _causes(error):
        if isinstance(cause, ConnectionRefusedError):
            return "connection refused"
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"its certificate was refused: {getattr(cause, 'verify_message', None) or 'no reason given'}"
        if isinstance(cause, ssl.SSLError):
            return str(getattr(cause, "reason", None) or "TLS error").replace("_", " ").lower()
        if isinstance(cause, socket.gaierror):
            return (cause.strerror or "name not known").lower()
        if isinstance(cause, OSError) and cause.strerror:
            return cause.strerror.lower()
    return " ".join(str(error).split())[:200] or type(error).__name__
