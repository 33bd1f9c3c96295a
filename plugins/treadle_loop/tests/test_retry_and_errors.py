"""Trying again, and the tree of errors (B9, B10)."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

import treadle
import treadle_loop.errors as tree
from treadle_loop import (
    Deps,
    FakeClient,
    ModelRequest,
    ModelResponse,
    RateLimited,
    Registry,
    ResponseInvalid,
    RetryingClient,
    RetryPolicy,
    TextPart,
    Transcript,
    run_conversation_result,
)
from treadle_loop.errors import translated

REQUEST = ModelRequest(messages=())


def busy(**facts: Any) -> RateLimited:
    return RateLimited("busy", provider="p", status_code=429, phase="status", request_sent=True, **facts)


class Retrying(RetryingClient):
    """Waits for nothing, and keeps how long it would have."""

    def __init__(self, *responses: Any, **policy: Any) -> None:
        self.waits: list[float] = []
        self.fake = FakeClient(*responses)
        super().__init__(self.fake, RetryPolicy(**policy), sleep=self.waits.append)


def test_three_attempts_in_all_with_a_second_then_two_and_a_little_chance() -> None:
    client = Retrying(busy(), busy(), "done")
    response = client.complete(REQUEST)
    assert len(client.fake.requests) == 3
    assert 1 <= client.waits[0] <= 1.5
    assert 2 <= client.waits[1] <= 2.5
    assert (response.text, response.attempts) == ("done", 3)
    assert response.retry_wait_seconds == sum(client.waits)
    assert RetryPolicy() == RetryPolicy(max_attempts=3, base_delay=1.0, max_delay=30.0)


@pytest.mark.parametrize(("asked", "waited"), [(7.0, 7.0), (90.0, 30.0), (0.0, 0.0)])
def test_the_wait_is_what_the_server_asks_up_to_the_longest(asked: float, waited: float) -> None:
    policy = RetryPolicy()
    assert policy.wait(1, asked) == waited
    assert policy.wait(20) == 30.0


def test_every_attempt_is_in_the_log_of_the_response() -> None:
    response = Retrying(busy(request_id="r1", retry_after=2.0), "done").complete(REQUEST)
    first, second = response.attempt_log
    assert (first.attempt, first.ok, first.error_type, first.status_code) == (1, False, "RateLimited", 429)
    assert (first.phase, first.request_sent, first.request_id, first.wait_seconds) == ("status", True, "r1", 2.0)
    assert (second.attempt, second.ok, second.error_type, second.wait_seconds) == (2, True, None, 0.0)


def test_the_last_error_has_the_attempts_the_waits_and_the_log() -> None:
    last = busy()
    client = Retrying(busy(retry_after=1.0), busy(retry_after=2.0), last)
    with pytest.raises(RateLimited) as caught:
        client.complete(REQUEST)
    assert caught.value is last
    assert (last.attempts, last.retry_wait_seconds) == (3, 3.0)
    assert [(each.attempt, each.ok) for each in last.attempt_log] == [(1, False), (2, False), (3, False)]


def test_only_what_is_worth_it_is_tried_again() -> None:
    client = Retrying(tree.AuthError("no", provider="p"), "done")
    with pytest.raises(tree.AuthError):
        client.complete(REQUEST)
    assert client.waits == []
    other = Retrying(RuntimeError("mine"), "done")
    with pytest.raises(RuntimeError, match="mine"):
        other.complete(REQUEST)


def test_the_kernels_errors_are_tried_again_too() -> None:
    client = Retrying(treadle.RateLimitError("busy", provider="p"), "done")
    assert client.complete(REQUEST).attempts == 2


def test_it_wraps_any_client_and_has_its_name_model_and_kinds() -> None:
    client = RetryingClient(FakeClient("x", model="m", hosted_tools=["web_search"]))
    assert (client.name, client.model, client.hosted_tools) == ("fake", "m", ("web_search",))
    client.close()
    with pytest.raises(AttributeError):
        client.nothing  # noqa: B018


def test_an_async_client_is_awaited_on_trio_and_on_asyncio() -> None:
    import asyncio

    import trio

    class Own:
        name = model = "own"

        def __init__(self) -> None:
            self.left: list[Any] = [busy(retry_after=0.001), "done"]

        async def complete(self, request: ModelRequest) -> ModelResponse:
            given = self.left.pop(0)
            if isinstance(given, Exception):
                raise given
            return ModelResponse(content=(TextPart(text=given),))

    async def run() -> int:
        attempts: int = (await RetryingClient(Own()).complete(REQUEST)).attempts
        return attempts

    assert trio.run(run) == asyncio.run(run()) == 2
    transcript = Transcript()
    transcript.add_user_message("x")
    assert run_conversation_result(transcript, RetryingClient(Own()), Registry(), Deps()).summary.provider_retries == 1


@pytest.mark.parametrize("wrong", [{"max_attempts": 0}, {"base_delay": -1}, {"max_delay": -1}])
def test_a_policy_that_cannot_be_kept_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"at least 1|not below 0"):
        RetryPolicy(**wrong)


def test_retries_and_waits_are_in_the_summary() -> None:
    transcript = Transcript()
    transcript.add_user_message("x")
    client = Retrying(busy(retry_after=0.5), "done")
    summary = run_conversation_result(transcript, client, Registry(), Deps()).summary
    assert (summary.provider_retries, summary.retry_wait_seconds) == (1, 0.5)
    assert [(each.error_type, each.count) for each in summary.failed_attempts] == [("RateLimited", 1)]


# --- the tree ------------------------------------------------------------------------------------------

RETRYABLE = {"RateLimited", "ProviderUnavailable", "ProviderTimeout", "ResponseInvalid"}
PERMANENT = {
    "AuthError",
    "BadRequestError",
    "ContextLengthExceeded",
    "ModelNotFound",
    "InsufficientCredits",
    "UnexpectedRedirect",
    "ProviderUnreachable",
    "ProviderError",
}


@pytest.mark.parametrize("name", sorted(RETRYABLE | PERMANENT))
def test_every_providers_error_says_whether_it_is_worth_trying_again(name: str) -> None:
    kind = getattr(tree, name)
    error = kind("no", provider="p")
    assert isinstance(error, tree.ProviderError)
    assert isinstance(error, tree.AgentLoopError)
    assert isinstance(error, treadle.ProviderError)
    assert error.retryable is (name in RETRYABLE)
    assert (error.summary, error.attempts, error.attempt_log, error.redirect_host) == (None, 1, (), None)
    copied = pickle.loads(pickle.dumps(error))  # noqa: S301
    assert (type(copied), copied.provider, str(copied)) == (kind, "p", "no")


def test_the_other_errors_are_in_the_tree_too() -> None:
    assert issubclass(tree.ConfigurationError, ValueError)
    assert issubclass(tree.ContextLengthExceeded, tree.BadRequestError)
    budget = tree.LoopBudgetExceeded(kind="iterations", limit=2, actual=2)
    assert (budget.kind, budget.limit, budget.actual) == ("iterations", 2, 2)
    assert str(budget) == "the conversation's budget of iterations (2) is used up"
    for name in ("TranscriptError", "ToolError", "LoopBudgetExceeded", "ConfigurationError", "ProviderError"):
        assert issubclass(getattr(tree, name), tree.AgentLoopError)


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        (treadle.AuthenticationError, "AuthError"),
        (treadle.BadRequestError, "BadRequestError"),
        (treadle.UnsupportedError, "BadRequestError"),
        (treadle.ContextLengthError, "ContextLengthExceeded"),
        (treadle.ModelNotFoundError, "ModelNotFound"),
        (treadle.InsufficientCreditsError, "InsufficientCredits"),
        (treadle.RedirectError, "UnexpectedRedirect"),
        (treadle.UnreachableError, "ProviderUnreachable"),
        (treadle.RateLimitError, "RateLimited"),
        (treadle.UnavailableError, "ProviderUnavailable"),
        (treadle.ProviderTimeoutError, "ProviderTimeout"),
        (treadle.ResponseError, "ResponseInvalid"),
        (treadle.ProviderError, "ProviderError"),
    ],
)
def test_every_error_of_a_provider_has_its_name_here_with_the_same_facts(
    theirs: type[treadle.ProviderError], ours: str
) -> None:
    error = theirs(
        "no",
        provider="p",
        status_code=418,
        retry_after=3.0,
        request_id="r",
        phase="read",
        request_sent=None,
        hint="do",
    )
    made = translated(error, provider="x")
    assert type(made).__name__ == ours
    assert isinstance(made, tree.ProviderError)
    assert isinstance(made, theirs) or theirs is treadle.UnsupportedError
    assert (made.provider, made.status_code, made.retry_after, made.request_id) == ("p", 418, 3.0, "r")
    assert (made.phase, made.request_sent, str(made)) == ("read", None, "no; do")
    assert translated(made, provider="x") is made


def test_none_of_the_kernels_provider_errors_is_without_a_name_here() -> None:
    def all_of(kind: type) -> set[type]:
        return {kind, *(each for sub in kind.__subclasses__() for each in all_of(sub))}

    for kind in all_of(treadle.ProviderError):
        if kind.__module__ == "treadle.errors" and kind is not treadle.ProviderError:
            made = translated(kind("x", provider="p"), provider="p")
            assert type(made) is not tree.ProviderError, kind


def test_errors_about_keys_settings_and_the_rest() -> None:
    key = translated(treadle.CredentialError("no key", hint="set it"), provider="p")
    assert isinstance(key, tree.AuthError)
    assert (key.request_sent, str(key)) == (False, "no key; set it")
    assert type(translated(treadle.PluginError("x"), provider="p")) is tree.ConfigurationError
    assert type(translated(treadle.StepError("x"), provider="p")) is tree.AgentLoopError


@pytest.mark.parametrize(
    "message",
    [
        "This model's maximum context length is 8192 tokens",
        "prompt is too long: 210000 tokens > 200000",
        "input exceeds the context window",
    ],
)
def test_a_context_that_is_too_long_is_recognised_by_what_the_server_says(message: str) -> None:
    made = translated(treadle.BadRequestError(message, provider="p", status_code=400), provider="p")
    assert type(made) is tree.ContextLengthExceeded
    assert not isinstance(made, ResponseInvalid)


def test_of_a_redirect_the_host_is_known_and_nothing_else() -> None:
    error = treadle.RedirectError("answered 302: to https://other.example/path?key=1", provider="p", status_code=302)
    made = translated(error, provider="p")
    assert isinstance(made, tree.UnexpectedRedirect)
    assert made.redirect_host == "other.example"


# --- FakeClient ----------------------------------------------------------------------------------------


def test_a_fake_plays_its_responses_in_order_raises_exceptions_and_keeps_the_requests() -> None:
    client = FakeClient("one", busy(), ModelResponse(content=(TextPart(text="two"),)))
    assert client.complete(REQUEST).text == "one"
    with pytest.raises(RateLimited):
        client.complete(REQUEST)
    assert client.complete(REQUEST).text == "two"
    assert client.requests == [REQUEST] * 3
    with pytest.raises(AssertionError, match="no response left for request 4"):
        client.complete(REQUEST)
    client.close()


def test_a_fakes_model_and_hosted_tools_may_be_chosen() -> None:
    assert (FakeClient().model, FakeClient().name, FakeClient().hosted_tools) == ("fake-1", "fake", ())
    made = FakeClient(model="m", hosted_tools=["web_search"])
    assert (made.model, made.hosted_tools) == ("m", ("web_search",))
