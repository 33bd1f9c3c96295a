"""What Anthropic's errors become."""

from __future__ import annotations

from typing import Any

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
    ResponseError,
    UnavailableError,
)
from treadle_anthropic.errors import error_in, error_of_status, refuses_signature

TABLE: list[tuple[int, str, str, type[ProviderError]]] = [
    (400, "invalid_request_error", "max_tokens: Field required", BadRequestError),
    (400, "invalid_request_error", "prompt is too long: 207791 tokens > 200000 maximum", ContextLengthError),
    (
        400,
        "invalid_request_error",
        "input length and `max_tokens` exceed context limit: 178959 + 64000 > 200000, decrease input length",
        ContextLengthError,
    ),
    (
        400,
        "invalid_request_error",
        "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing.",
        InsufficientCreditsError,
    ),
    (
        400,
        "invalid_request_error",
        "You have reached your specified API usage limits. You will regain access on 2026-12-01.",
        InsufficientCreditsError,
    ),
    (401, "authentication_error", "invalid x-api-key", AuthenticationError),
    (402, "billing_error", "no", InsufficientCreditsError),
    (403, "permission_error", "no", AuthenticationError),
    (404, "not_found_error", "model: claude-x", ModelNotFoundError),
    (408, "timeout_error", "slow", ProviderTimeoutError),
    (409, "conflict_error", "no", UnavailableError),
    (413, "request_too_large", "Request exceeds the maximum size", BadRequestError),
    (429, "rate_limit_error", "Number of request tokens has exceeded your per-minute rate limit", RateLimitError),
    (500, "api_error", "Internal server error", UnavailableError),
    (504, "timeout_error", "slow", UnavailableError),
    (529, "overloaded_error", "Overloaded", UnavailableError),
]


def body_of(kind: str, said: str, **more: Any) -> dict[str, Any]:
    return {"type": "error", "error": {"type": kind, "message": said, **more}, "request_id": "req_b"}


@pytest.mark.parametrize(("status", "word", "said", "kind"), TABLE)
def test_each_error_by_status_and_words(status: int, word: str, said: str, kind: type[ProviderError]) -> None:
    headers = {"request-id": "req_h", "retry-after": "7"}
    error = error_of_status(status, headers, body_of(word, said), "anthropic")
    assert type(error) is kind
    assert error.message == f"provider 'anthropic' answered {status}: {said}"
    assert (error.status_code, error.request_id, error.retry_after) == (status, "req_h", 7.0)
    assert (error.phase, error.request_sent) == ("status", True)
    assert error.transient is kind.transient


@pytest.mark.parametrize(("status", "word", "said", "kind"), TABLE)
def test_the_same_inside_a_good_status_by_its_words_alone(
    status: int, word: str, said: str, kind: type[ProviderError]
) -> None:
    error = error_in(body_of(word, said), {}, "anthropic")
    expected = ProviderTimeoutError if word == "timeout_error" else kind
    assert type(error) is expected
    assert (error.request_id, error.phase) == ("req_b", "body")


@pytest.mark.parametrize("code", ["enforced_spend_limit_reached", "linked_organization_billing_unavailable"])
def test_a_limit_on_spending_is_no_rate_limit(code: str) -> None:
    body = body_of("rate_limit_error", "no", details={"error_code": code})
    assert type(error_of_status(429, {}, body, "anthropic")) is InsufficientCreditsError


def test_an_error_that_says_nothing_is_unreadable_and_may_pass() -> None:
    error = error_in({"error": {"message": "hm"}}, {}, "anthropic")
    assert type(error) is ResponseError
    assert error.transient


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("messages.1.content.0: Invalid `signature` in `thinking` block", True),
        ("messages.3.content.2: Invalid signature in thinking block", True),
        (
            "messages.5.content.0: `thinking` or `redacted_thinking` blocks in the last turn cannot be modified.",
            True,
        ),
        ("max_tokens must be greater than thinking.budget_tokens", False),
        ("webhook signature is wrong", False),
        ("prompt is too long", False),
    ],
)
def test_the_refusal_of_a_signature_is_known_by_its_words(said: str, expected: bool) -> None:
    error = error_of_status(400, {}, body_of("invalid_request_error", said), "anthropic")
    assert refuses_signature(error) is expected
    assert not refuses_signature(error_of_status(500, {}, body_of("api_error", said), "anthropic"))
