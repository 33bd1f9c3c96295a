"""What goes wrong on the wire, and what every provider makes of it."""

from __future__ import annotations

import socket
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
import trio

from providers.vendors import EMBEDDING, EVERY, KEY, SECRET, VENDORS, Vendor, ask
from treadle.contracts.secrets import SecretRef
from treadle.errors import (
    AuthenticationError,
    BadRequestError,
    ContextLengthError,
    CredentialError,
    InsufficientCreditsError,
    ModelNotFoundError,
    ProviderError,
    ProviderTimeoutError,
    RateLimitError,
    RedirectError,
    ResponseError,
    UnavailableError,
    UnreachableError,
)
from treadle.messages import Completed, EmbedRequest, StreamEvent

from wire.exchanges import PLAIN_AND_STREAMED, collect, events_of
from wire.http_server import Bytes, Drop, Hang, Json, Text

INVALID_KEY = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}
RETRY = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.5s"}
TOO_LONG = "The input token count (1048577) exceeds the maximum number of tokens allowed (1048576)."
LOCATION = "User location is not supported for the API use."


@dataclass(frozen=True, slots=True)
class Failure:
    """An answer with an error status, and what it becomes; ``words`` are the vendor's own."""

    status: int
    kind: type[ProviderError]
    says: str = "no"
    words: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.status}-{self.kind.__name__}"


STATUSES = [
    *(Failure(status, BadRequestError) for status in (400, 412, 413, 418, 422, 431, 499)),
    *(Failure(status, AuthenticationError) for status in (401, 403)),
    Failure(402, InsufficientCreditsError),
    Failure(404, ModelNotFoundError, "model 'x:1b' not found"),
    Failure(408, ProviderTimeoutError),
    Failure(429, RateLimitError),
    *(Failure(status, UnavailableError) for status in (409, 500, 501, 502, 503, 504, 529)),
]

_OPENAI = [
    Failure(400, ContextLengthError, words={"code": "context_length_exceeded"}),
    Failure(401, AuthenticationError, words={"code": "invalid_api_key"}),
    Failure(404, ModelNotFoundError, words={"code": "model_not_found"}),
    Failure(429, RateLimitError, words={"code": "rate_limit_exceeded"}),
    Failure(429, InsufficientCreditsError, words={"code": "insufficient_quota"}),
]
WORDED: Mapping[str, Sequence[Failure]] = {
    "openai": _OPENAI,
    "openai responses": _OPENAI,
    "anthropic": [
        Failure(400, ContextLengthError, "prompt is too long: 2 tokens > 1 maximum"),
        Failure(400, InsufficientCreditsError, "Your credit balance is too low"),
        Failure(401, AuthenticationError, words={"kind": "authentication_error"}),
        Failure(402, InsufficientCreditsError, words={"kind": "billing_error"}),
        Failure(403, AuthenticationError, words={"kind": "permission_error"}),
        Failure(404, ModelNotFoundError, words={"kind": "not_found_error"}),
        Failure(408, ProviderTimeoutError, words={"kind": "timeout_error"}),
        Failure(409, UnavailableError, words={"kind": "conflict_error"}),
        Failure(412, BadRequestError, words={"kind": "precondition"}),
        Failure(413, BadRequestError, words={"kind": "request_too_large"}),
        Failure(418, BadRequestError, words={"kind": "teapot"}),
        Failure(429, RateLimitError, words={"kind": "rate_limit_error"}),
        *(Failure(status, UnavailableError, words={"kind": "api_error"}) for status in (500, 501, 503)),
        Failure(504, UnavailableError, words={"kind": "timeout_error"}),
        Failure(529, UnavailableError, words={"kind": "overloaded_error"}),
    ],
    "google": [
        Failure(400, AuthenticationError, words={"details": [INVALID_KEY]}),
        Failure(400, AuthenticationError, "API key not valid. Please pass a valid API key."),
        Failure(400, ContextLengthError, TOO_LONG),
        Failure(400, BadRequestError, LOCATION, {"word": "FAILED_PRECONDITION"}),
        Failure(401, AuthenticationError, words={"word": "UNAUTHENTICATED"}),
        Failure(403, AuthenticationError, words={"word": "PERMISSION_DENIED"}),
        Failure(
            403,
            InsufficientCreditsError,
            words={"word": "PERMISSION_DENIED", "details": [{"reason": "BILLING_DISABLED"}]},
        ),
        Failure(404, ModelNotFoundError, "models/x is not found for API version v1beta", {"word": "NOT_FOUND"}),
        Failure(429, RateLimitError, words={"word": "RESOURCE_EXHAUSTED", "details": [RETRY]}),
        Failure(429, InsufficientCreditsError, "Your prepayment credits are depleted.", {"word": "RESOURCE_EXHAUSTED"}),
        Failure(500, UnavailableError, words={"word": "INTERNAL"}),
        Failure(503, UnavailableError, "The model is overloaded.", {"word": "UNAVAILABLE"}),
        Failure(504, UnavailableError, words={"word": "DEADLINE_EXCEEDED"}),
    ],
    "ollama": [
        Failure(400, BadRequestError, '"gemma" does not support thinking'),
        Failure(400, ContextLengthError, "the input length exceeds the context length"),
    ],
}


@pytest.mark.parametrize(
    ("vendor", "failure"),
    [(vendor, each) for vendor in VENDORS.values() for each in (*STATUSES, *WORDED.get(vendor.name, ()))],
    ids=str,
)
async def test_an_error_status_becomes_its_error(vendor: Vendor, failure: Failure) -> None:
    """Plain and streamed."""
    more = {vendor.request_id.replace("-", "_"): "req_9"} if vendor.request_id else {}
    words = {**failure.words, **more}
    async with vendor.server.open() as server, vendor.build(server.url) as provider:
        for asked, stream in enumerate((False, True)):
            server.reply(vendor.failure(f"{failure.says} {KEY}", status=failure.status, retry_after="7", **words))
            with pytest.raises(ProviderError) as caught:
                await events_of(provider, ask(vendor, stream=stream))
            error = caught.value
            assert type(error) is failure.kind
            assert error.message == f"provider '{provider.name}' answered {failure.status}: {failure.says} ***"
            assert (error.transient, error.status_code) == (failure.kind.transient, failure.status)
            assert (error.provider, error.phase, error.request_sent) == (provider.name, "status", True)
            assert (error.retry_after, error.request_id) == (7.0, "req_9" if vendor.request_id else None)
            assert len(server.requests) == asked + 1, "the SDK's own retries are off"


@PLAIN_AND_STREAMED
@EVERY
async def test_an_error_that_is_no_json_is_an_error_of_its_status(vendor: Vendor, stream: bool) -> None:
    async with vendor.server.open() as server, vendor.build(server.url) as provider:
        for body in (b"<html>bad gateway</html>", b"\xff\xfe", b"[]", b'[{"a": 1}, 2]', b"null", b""):
            server.reply(Bytes(body, 502))
            with pytest.raises(UnavailableError, match=f"provider '{provider.name}' answered 502"):
                await events_of(provider, ask(vendor, stream=stream))


@PLAIN_AND_STREAMED
@EVERY
async def test_a_redirect_is_not_followed(vendor: Vendor, stream: bool) -> None:
    async with vendor.server.open() as server, vendor.build(server.url) as provider:
        server.reply(Text("", 302, {"location": f"{server.url}/elsewhere?key=secret-in-query"}))
        with pytest.raises(RedirectError) as caught:
            await events_of(provider, ask(vendor, stream=stream))
    assert str(caught.value) == (
        f"provider '{provider.name}' answered 302: to {server.url}/elsewhere; "
        "set the base URL to where the server really is; a key is not carried along a redirect"
    )
    assert len(server.requests) == 1


# --- errors inside a good status --------------------------------------------------------------------

_CODED: Sequence[tuple[Mapping[str, Any], type[ProviderError], str]] = [
    ({"code": 429, "retry_after_ms": "1500"}, RateLimitError, "answered 200 with an error of kind 429: it broke"),
    ({"code": "server_error"}, UnavailableError, "answered 200 with an error of kind 500: it broke"),
    ({}, ResponseError, "answered 200 with an error: it broke"),
]
INSIDE: Mapping[str, Sequence[tuple[Mapping[str, Any], type[ProviderError], str]]] = {
    "openai": _CODED,
    "openai responses": _CODED,
    "generic_openai": _CODED,
    "anthropic": [
        ({"kind": "rate_limit_error", "retry_after_ms": "1500"}, RateLimitError, "with an error of kind 429: it broke"),
        ({"kind": "overloaded_error"}, UnavailableError, "with an error of kind 529: it broke"),
        ({"kind": "something_new"}, ResponseError, "answered 200 with an error: it broke"),
    ],
    "google": [
        (
            {"code": 429, "word": "RESOURCE_EXHAUSTED", "details": [RETRY]},
            RateLimitError,
            "error of kind 429: it broke",
        ),
        ({"code": 500, "word": "INTERNAL"}, UnavailableError, "answered 200 with an error of kind 500: it broke"),
        ({"code": None, "word": None}, ResponseError, "answered 200 with an error: it broke"),
    ],
    "ollama": [({}, ResponseError, "answered 200 with an error: it broke")],
}


@PLAIN_AND_STREAMED
@EVERY
async def test_an_error_inside_a_good_status_is_classified_by_its_words(vendor: Vendor, stream: bool) -> None:
    async with vendor.server.open() as server, vendor.build(server.url) as provider:
        for words, kind, says in INSIDE[vendor.name]:
            server.reply(vendor.failure("it broke", status=200, **words))
            with pytest.raises(ProviderError, match=says) as caught:
                await events_of(provider, ask(vendor, stream=stream))
            assert type(caught.value) is kind
            assert (caught.value.transient, caught.value.phase) == (True, "body")
            if kind is RateLimitError:
                assert caught.value.retry_after == (34.5 if vendor.name == "google" else 1.5)
                assert caught.value.request_id == ("req_body" if vendor.name == "anthropic" else None)


@EVERY
async def test_an_error_inside_a_stream_ends_it_after_what_came_before(vendor: Vendor) -> None:
    seen: list[StreamEvent] = []
    async with vendor.server.open() as server, vendor.build(server.url) as provider:
        server.reply(vendor.streamed([*vendor.begun("half"), vendor.error_piece("too busy"), *vendor.begun("more")]))
        with pytest.raises(ProviderError, match="too busy") as caught:
            await collect(provider, ask(vendor, stream=True), seen)
    assert type(caught.value) is vendor.error_kind
    assert caught.value.phase == "body"
    assert not any(isinstance(each, Completed) for each in seen)


@EMBEDDING
async def test_an_error_instead_of_vectors_is_an_error(vendor: Vendor) -> None:
    words, inside, _ = INSIDE[vendor.name][-1]
    async with vendor.server.open() as server, vendor.build(server.url) as provider:
        server.reply(
            vendor.failure("no", status=401),
            vendor.failure("no", status=501),
            vendor.failure("no", status=200, **words),
            Text("<p>"),
        )
        for kind in (AuthenticationError, UnavailableError, inside, ResponseError):
            with pytest.raises(ProviderError) as caught:
                await provider.embed(EmbedRequest(model="e", inputs=("x",)))
            assert type(caught.value) is kind


# --- what is no reply -------------------------------------------------------------------------------

NO_REPLY = ["<html>hello</html>", '"text"', "{}", "[1]", ""]
NEARLY: Mapping[str, Sequence[str]] = {
    **dict.fromkeys(("openai", "generic_openai"), ('{"choices": []}', '{"choices": [{}]}')),
    "openai responses": ['{"output": 3}'],
    "anthropic": ['{"content": null}'],
    "google": ['{"candidates": []}'],
    "ollama": ['{"message": 7}'],
}


@EVERY
async def test_a_reply_that_is_none_is_unreadable(vendor: Vendor) -> None:
    # Ollama reads a stream of lines whatever the reply says that it is.
    lines = ("sent a line that is not JSON", "ended its stream before") if vendor.name == "ollama" else ()
    says = ("answered without a", "answered with something that is not JSON", *lines)
    async with vendor.server.open() as server, vendor.build(server.url) as provider:
        for body in (*NO_REPLY, *NEARLY.get(vendor.name, ())):
            for stream in (False, True):
                server.reply(Text(body, content_type="application/json"))
                with pytest.raises(ResponseError) as caught:
                    await events_of(provider, ask(vendor, stream=stream))
                assert caught.value.message.removeprefix(f"provider '{provider.name}' ").startswith(says)
                assert caught.value.transient


ENDED = "ended its stream before the reply was complete"
CUT = "dropped the connection in the middle of its reply"


@pytest.mark.parametrize("how", ["ended", "cut", "reset", "empty", "not-json", "half-a-piece", "not-a-stream"])
@EVERY
async def test_a_stream_that_is_not_whole_is_no_success(vendor: Vendor, how: str) -> None:
    half, lines = vendor.begun("half"), vendor.name == "ollama"
    piece = b"".join(vendor.streamed(vendor.begun("more")).frames())
    reply, says = {
        "ended": (vendor.streamed(half), ENDED),
        "cut": (vendor.streamed(half, then="cut"), CUT),
        "reset": (vendor.streamed(half, then="reset"), CUT),
        "empty": (vendor.streamed([]), ENDED),
        "not-json": (vendor.streamed([*half, "{not json"]), vendor.garbled),
        "half-a-piece": (vendor.streamed([*half, piece[:-10]]), vendor.garbled if lines else ENDED),
        "not-a-stream": (Text("not a stream at all"), vendor.garbled if lines else ENDED),
    }[how]
    seen: list[StreamEvent] = []
    async with vendor.server.open() as server, vendor.build(server.url) as provider:
        server.reply(reply)
        with pytest.raises(ResponseError, match=says) as caught:
            await collect(provider, ask(vendor, stream=True), seen)
    assert (caught.value.transient, caught.value.phase, caught.value.request_sent) == (True, "body", True)
    assert not any(isinstance(event, Completed) for event in seen)


@PLAIN_AND_STREAMED
@EVERY
async def test_a_connection_dropped_before_the_reply_is_a_passing_failure(vendor: Vendor, stream: bool) -> None:
    async with vendor.server.open() as server, vendor.build(server.url) as provider:
        server.reply(Drop(), Drop(reset=True))
        for _ in range(2):
            with pytest.raises(UnavailableError) as caught:
                await events_of(provider, ask(vendor, stream=stream))
            assert caught.value.message == f"127.0.0.1:{server.port} dropped the connection before it replied"
            assert (caught.value.phase, caught.value.transient, caught.value.status_code) == ("read", True, None)


@PLAIN_AND_STREAMED
@EVERY
async def test_a_body_cut_short_is_unreadable(vendor: Vendor, stream: bool) -> None:
    async with vendor.server.open() as server, vendor.build(server.url) as provider:
        server.reply(Json({"a": "long enough to be cut"}, cut=20))
        with pytest.raises(ResponseError, match=CUT):
            await events_of(provider, ask(vendor, stream=stream))


# --- silence, and nobody there ----------------------------------------------------------------------


@PLAIN_AND_STREAMED
@EVERY
async def test_a_silent_server_times_out(vendor: Vendor, stream: bool) -> None:
    async with vendor.server.open() as server, vendor.build(server.url, timeout=0.1) as provider:
        server.reply(Hang())
        says = r"waiting for a reply of 127\.0\.0\.1:\d+ took too long"
        with pytest.raises(ProviderTimeoutError, match=says) as caught:
            await events_of(provider, ask(vendor, stream=stream))
    assert (caught.value.phase, caught.value.request_sent) == ("read", True)


@EVERY
async def test_a_stream_that_falls_silent_times_out(vendor: Vendor) -> None:
    async with vendor.server.open() as server, vendor.build(server.url, timeout=0.1) as provider:
        server.reply(vendor.streamed(vendor.begun("half"), then="hang"))
        with pytest.raises(ProviderTimeoutError, match="fell silent in the middle of its reply"):
            await events_of(provider, ask(vendor, stream=True))


@PLAIN_AND_STREAMED
@pytest.mark.parametrize(
    ("url", "kind", "says"),
    [
        ("http://127.0.0.1:9", UnavailableError, "could not connect to 127.0.0.1:9 (connection refused)"),
        ("http://no-such-host.invalid", UnreachableError, "could not find the host of no-such-host.invalid:80"),
    ],
    ids=["nobody", "dns"],
)
@EVERY
async def test_a_server_that_is_not_there_is_told_by_address(
    vendor: Vendor, monkeypatch: pytest.MonkeyPatch, stream: bool, url: str, kind: type[ProviderError], says: str
) -> None:
    async def unknown(*_: Any, **__: Any) -> Any:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(trio.socket, "getaddrinfo", unknown if "invalid" in url else trio.socket.getaddrinfo)
    async with vendor.build(url) as provider:
        with pytest.raises(kind) as caught:
            await events_of(provider, ask(vendor, stream=stream))
    assert caught.value.message.startswith(says)
    assert (caught.value.phase, caught.value.request_sent) == ("connect", False)


# --- keys and settings ------------------------------------------------------------------------------


@EVERY
async def test_neither_the_key_nor_a_header_is_in_an_error_text(vendor: Vendor) -> None:
    secret = "a-gateway-token"
    for reply in (
        vendor.failure(f"Incorrect API key provided: {KEY}.", status=401),
        Text(f"bad token {secret} Bearer {KEY}", 500),
        vendor.failure(f"{KEY} {secret}", status=200),
        vendor.streamed([vendor.error_piece(f"{KEY} {secret}")]),
    ):
        async with vendor.server.open() as server:
            server.reply(reply)
            async with vendor.build(server.url, headers={"X-Token": secret}) as provider:
                with pytest.raises(ProviderError) as caught:
                    await events_of(provider, ask(vendor, stream=hasattr(reply, "then")))
        assert server.last.headers["x-token"] == secret
        shown = "".join(traceback.format_exception(caught.value)) + repr(caught.value) + repr(caught.value.__dict__)
        assert KEY not in shown
        assert secret not in shown
        assert "***" in shown


DEFAULT_KEYS = [each for each in VENDORS.values() if each.needs_key]


@PLAIN_AND_STREAMED
@pytest.mark.parametrize("vendor", DEFAULT_KEYS, ids=str)
async def test_a_missing_key_is_told_before_any_request(
    vendor: Vendor, monkeypatch: pytest.MonkeyPatch, stream: bool
) -> None:
    for name in ("ANTHROPIC_AUTH_TOKEN", "GEMINI_API_KEY"):
        monkeypatch.setenv(name, "of-another-tool")  # an SDK would take it
    async with vendor.server.open() as server:
        settings = vendor.settings(**{"base_url": server.url + vendor.path, **vendor.fixed})
        async with vendor.kind(vendor.provider, settings) as provider:
            with pytest.raises(CredentialError) as caught:
                await events_of(provider, ask(vendor, stream=stream))
        assert str(caught.value) == f"the environment variable {vendor.key} is not set; export {vendor.key}=..."
        assert server.accepted == 0


@EVERY
async def test_a_key_that_is_named_must_be_there_and_fit_a_header(
    vendor: Vendor, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with vendor.server.open() as server:
        async with vendor.build(server.url, api_key=SecretRef("env:NOT_SET_HERE")) as provider:
            with pytest.raises(CredentialError, match="NOT_SET_HERE is not set"):
                await events_of(provider, ask(vendor))
        monkeypatch.setenv("TEST_KEY", "sk-one\nsk-two")
        async with vendor.build(server.url, api_key=SECRET) as provider:
            with pytest.raises(CredentialError) as caught:
                await events_of(provider, ask(vendor))
            assert str(caught.value) == "the key in env:TEST_KEY holds white space or characters that no key has"
            if vendor.vectors is not None:
                with pytest.raises(CredentialError):
                    await provider.embed(EmbedRequest(model="e", inputs=("x",)))
        assert server.accepted == 0


@EVERY
async def test_a_provider_that_was_not_entered_says_so(vendor: Vendor) -> None:
    with pytest.raises(RuntimeError, match="used before it is entered"):
        await events_of(vendor.build("http://127.0.0.1:9"), ask(vendor))
