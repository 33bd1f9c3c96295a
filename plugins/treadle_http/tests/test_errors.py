"""Statuses, codes and vendors' words; and that no exception of the HTTP client is unmapped."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from ipaddress import ip_address
from typing import Any

import httpx2
import pytest

from treadle.errors import (
    AuthenticationError,
    BadRequestError,
    ContextLengthError,
    InsufficientCreditsError,
    ModelNotFoundError,
    ProviderError,
    ProviderTimeoutError,
    RateLimitError,
    RedirectError,
    ResponseError,
    UnavailableError,
)
from treadle_http import (
    FACTS,
    AddressRefusedError,
    BodyTooLargeError,
    body_error,
    code_status,
    facts_of,
    is_error_body,
    redact,
    request_id,
    retry_after,
    status_error,
    to_provider_error,
)
from treadle_http.redaction import origin, shown_url

NOW = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)


def test_every_exception_of_the_client_is_mapped() -> None:
    named = [getattr(httpx2, name) for name in dir(httpx2)]
    classes = {each for each in named if isinstance(each, type) and issubclass(each, Exception)}
    assert len(classes) > 25
    assert {each for each in classes if not issubclass(each, Warning)} - set(FACTS) == set()


def made_of(kind: type[Exception]) -> Exception:
    if kind is AddressRefusedError:
        return AddressRefusedError("boom.test", ip_address("10.0.0.1"), "boom")
    if kind is BodyTooLargeError:
        return BodyTooLargeError(64 * 1024 * 1024)
    try:
        return kind("boom")
    except TypeError:  # some classes of the client have a text of their own
        return kind()


@pytest.mark.parametrize("kind", [kind for kind in FACTS if kind is not httpx2.HTTPStatusError])
def test_every_line_of_the_table_gives_its_error(kind: type[Exception]) -> None:
    facts = FACTS[kind]
    made = to_provider_error(made_of(kind), "p")
    assert type(made) is facts.kind
    assert (made.phase, made.request_sent, made.transient) == (facts.phase, facts.request_sent, facts.transient)
    assert "{" not in made.message
    assert "the server" in made.message


def test_a_future_exception_takes_the_facts_of_its_base() -> None:
    class Slow(httpx2.ReadTimeout):
        pass

    assert facts_of(Slow("x")) == FACTS[httpx2.ReadTimeout]
    assert to_provider_error(ValueError("odd"), "p").message == "the exchange with the server failed (odd)"


def test_a_request_that_is_no_http_never_shows_its_headers() -> None:
    error = httpx2.LocalProtocolError("Illegal header value b'Bearer sk-0123456789'")
    error.request = httpx2.Request("GET", "https://user:pw@example.com/x?key=abc")
    made = to_provider_error(error, "p")
    assert str(made) == (
        "the request to example.com:443 cannot be written as HTTP; "
        "look for line breaks and other odd characters in the key and the headers that are set"
    )
    assert (type(made), made.transient) == (BadRequestError, False)


def test_an_error_raised_for_status_is_an_error_of_that_status() -> None:
    request = httpx2.Request("GET", "https://example.com")
    response = httpx2.Response(429, headers={"retry-after": "3"}, json={"error": {"message": "slow"}}, request=request)
    with pytest.raises(httpx2.HTTPStatusError) as caught:
        response.raise_for_status()
    made = to_provider_error(caught.value, "p")
    assert (type(made), made.retry_after, made.message) == (RateLimitError, 3.0, "provider 'p' answered 429: slow")


@pytest.mark.parametrize(
    ("status", "kind", "transient"),
    [
        (300, RedirectError, False),
        (304, RedirectError, False),
        (400, BadRequestError, False),
        (401, AuthenticationError, False),
        (402, InsufficientCreditsError, False),
        (403, AuthenticationError, False),
        (404, ModelNotFoundError, False),
        (405, BadRequestError, False),
        (408, ProviderTimeoutError, True),
        (409, UnavailableError, True),
        (413, BadRequestError, False),
        (422, BadRequestError, False),
        (429, RateLimitError, True),
        (500, UnavailableError, True),
        (503, UnavailableError, True),
        (504, UnavailableError, True),
        (529, UnavailableError, True),
        (599, UnavailableError, True),
    ],
)
def test_the_table_of_statuses(status: int, kind: type[ProviderError], transient: bool) -> None:
    error = status_error(status, {"X-Request-Id": "r1", "Retry-After": "2"}, b"", "p")
    assert type(error) is kind
    assert error.message == f"provider 'p' answered {status}"
    assert (error.transient, error.status_code, error.request_id, error.retry_after) == (transient, status, "r1", 2.0)
    assert error.phase == ("redirect" if kind is RedirectError else "status")


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (429, "insufficient_quota", InsufficientCreditsError),
        (429, "rate_limit_exceeded", RateLimitError),
        (403, "billing_not_active", InsufficientCreditsError),
        (400, "context_length_exceeded", ContextLengthError),
        (413, "context_length_exceeded", ContextLengthError),
        (500, "insufficient_quota", UnavailableError),
    ],
)
def test_a_code_makes_the_error_more_precise(status: int, code: str, kind: type[ProviderError]) -> None:
    for key in ("code", "type"):
        assert type(status_error(status, {}, {"error": {"message": "m", key: code}}, "p")) is kind


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({"error": {"message": "a"}}, "a"),
        ({"error": "b"}, "b"),
        ({"message": "c"}, "c"),
        ({"detail": "d"}, "d"),
        ({"detail": [{"loc": ["body", "model"], "msg": "missing"}, {"msg": "odd"}]}, "body.model: missing; odd"),
        ([{"error": {"message": "e"}}], "e"),
        ("plain\n  text", "plain text"),
        ("<html><body>no</body></html>", ""),
        ({}, ""),
        ({"error": {"message": None}}, ""),
        ([], ""),
        (None, ""),
        (7, ""),
    ],
)
def test_the_vendors_words_are_found_in_the_usual_shapes(body: Any, says: str) -> None:
    expected = "provider 'p' answered 400" + (f": {says}" if says else "")
    assert status_error(400, {}, body, "p").message == expected
    raw = body if isinstance(body, str) else json.dumps(body)
    assert status_error(400, {}, raw.encode(), "p").message == expected


def test_a_long_message_is_cut() -> None:
    message = status_error(400, {}, {"error": "x" * 3000}, "p").message
    assert message == "provider 'p' answered 400: " + "x" * 499 + "…"


def test_a_redirect_names_its_target_without_what_may_be_secret() -> None:
    error = status_error(302, {"location": "https://u:pw@example.com:8443/a?token=t#f"}, b"", "p")
    assert error.message == "provider 'p' answered 302: to https://example.com:8443/a"


@pytest.mark.parametrize(
    ("data", "status"),
    [
        ({"error": {"code": 429}}, 429),
        ({"error": {"code": "503"}}, 503),
        ({"error": {"code": "rate_limit_exceeded"}}, 429),
        ({"error": {"type": "overloaded_error"}}, 529),
        ({"error": {"status": "RESOURCE_EXHAUSTED", "code": 429}}, 429),
        ({"error": {"status": "UNAVAILABLE"}}, 503),
        ({"error": {"code": None, "type": "server_error"}}, 500),
        ({"error": {"code": "unheard", "type": "of"}}, None),
        ({"error": {"code": 7}}, None),
        ({"error": {"code": True}}, None),
        ({"error": "text"}, None),
    ],
)
def test_the_code_in_an_error_stands_for_a_status(data: Any, status: int | None) -> None:
    assert code_status(data) == status


def test_an_error_inside_a_good_answer() -> None:
    error = body_error({"error": {"message": "wait", "code": 429}}, {"retry-after": "4"}, "p")
    assert (type(error), error.status_code, error.retry_after, error.phase) == (RateLimitError, 429, 4.0, "body")
    assert error.message == "provider 'p' answered 200 with an error of kind 429: wait"
    unknown = body_error({"error": {"message": "hm"}}, {}, "p")
    assert (type(unknown), unknown.status_code, unknown.transient) == (ResponseError, None, True)
    assert unknown.message == "provider 'p' answered 200 with an error: hm"
    assert (
        body_error({"error": {}}, {}, "p").message == "provider 'p' answered 200 with an error: it does not say which"
    )


def test_what_counts_as_an_error_inside_an_answer() -> None:
    assert is_error_body({"error": {"message": "x"}})
    assert not is_error_body({"error": None, "choices": []})
    assert not is_error_body({"choices": []})
    assert not is_error_body([])


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": "7"}, 7.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after": " 12 "}, 12.0),
        ({"retry-after": "0"}, 0.0),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after-ms": "soon", "retry-after": "9"}, 9.0),
        ({"retry-after": "Thu, 01 Jan 2026 12:00:30 GMT"}, 30.0),
        ({"retry-after": "Thu, 01 Jan 2026 13:00:30 +0100"}, 30.0),
        ({"retry-after": "Thu, 01 Jan 2026 11:00:00 GMT"}, 0.0),
        ({"retry-after": "Thursday, 01-Jan-26 12:00:30 GMT"}, 30.0),
        ({"retry-after": "-5"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": ""}, None),
        ({"retry-after": "Thu, 99 Jan 2026 99:00:00 GMT"}, None),
        ({"retry-after": "Thu, 01 Jan 999999999 12:00:00 GMT"}, None),
        ({}, None),
    ],
)
def test_when_a_server_asks_to_come_back(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers, now=NOW) == seconds
    assert retry_after(httpx2.Headers(headers), now=NOW) == seconds


def test_request_ids_of_both_spellings() -> None:
    assert request_id({"X-Request-ID": "a", "request-id": "b"}) == "a"
    assert request_id(httpx2.Headers({"Request-Id": "b"})) == "b"
    assert request_id({}) is None


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Incorrect API key provided: sk-proj-abcDEF123456.", "Incorrect API key provided: ***"),
        ("Bearer abc.def-123 refused", "Bearer *** refused"),
        ("the task-manager asked for a risk-free desk-top", "the task-manager asked for a risk-free desk-top"),
        ("token my-own-token here", "token *** here"),
        ("the key is none", "the key is none"),
    ],
)
def test_keys_are_taken_out_of_texts(text: str, shown: str) -> None:
    assert redact(text, ["my-own-token", "none", ""]) == shown


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://user:pw@example.com/x?k=v", "example.com:443"),
        ("http://127.0.0.1:9", "127.0.0.1:9"),
        ("http://[::1]:80/", "[::1]:80"),
        ("http://host:notaport/", "an invalid address"),
        ("/relative", "an address without a host"),
    ],
)
def test_a_host_is_shown_without_anything_secret(url: str, host: str) -> None:
    assert origin(url) == host


def test_a_url_is_shown_without_anything_secret() -> None:
    assert shown_url("https://u:p@h.example:1/a/b?q=1#f") == "https://h.example:1/a/b"
    assert shown_url("http://h:notaport") == "an invalid address"
