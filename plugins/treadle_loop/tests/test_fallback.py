"""Another client when one fails."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import trio

from treadle_loop import (
    Agent,
    AuthError,
    BadRequestError,
    ConfigurationError,
    FakeClient,
    FallbackClient,
    HostedTool,
    ListObserver,
    ModelRequest,
    ModelResponse,
    ProviderError,
    ProviderUnavailable,
    RateLimited,
    RetryingClient,
    RetryPolicy,
    TextPart,
    Transcript,
)
from treadle_loop.conversations.listening import ON_TEXT


def busy(**facts: Any) -> RateLimited:
    return RateLimited("busy", provider="p", status_code=429, phase="status", request_sent=True, **facts)


def gone() -> ProviderUnavailable:
    return ProviderUnavailable("gone", provider="q", phase="connect", request_sent=False)


def named(name: str, *responses: Any, **more: Any) -> FakeClient:
    client = FakeClient(*responses, model=f"{name}-1", **more)
    client.name = name
    return client


def request(**more: Any) -> ModelRequest:
    transcript = Transcript()
    transcript.add_user_message("hi")
    return ModelRequest(messages=tuple(transcript.messages), **more)


@pytest.mark.parametrize("error", [busy(), gone(), AuthError("no", provider="p"), ConfigurationError("no key")])
def test_a_failure_asks_the_next_one_with_its_own_model(error: Exception) -> None:
    first, second, third = named("a", error), named("b", "from b"), named("c")
    client = FallbackClient([first, second, third])
    assert (client.name, client.model) == ("a", "a-1")
    response = client.complete(request())
    assert (response.text, response.provider, response.model) == ("from b", "b", "b-1")
    assert third.requests == []
    failed, answered = response.attempt_log
    assert (failed.provider, failed.ok, failed.error_type) == ("a", False, type(error).__name__)
    assert (answered.attempt, answered.provider, answered.ok) == (2, "b", True)


def test_what_is_no_providers_failure_is_raised() -> None:
    second = named("b", "x")
    with pytest.raises(KeyError):
        FallbackClient([named("a", KeyError("a fault")), second]).complete(request())
    assert second.requests == []


def test_the_error_of_all_lists_every_attempt() -> None:
    retrying = RetryingClient(named("a", busy(), busy(retry_after=9)), RetryPolicy(2), sleep=lambda seconds: None)
    with pytest.raises(ProviderError) as caught:
        FallbackClient([retrying, named("b", gone())]).complete(request())
    error = caught.value
    assert str(error) == ("none of 2 clients answered: a (a-1): RateLimited: busy; b (b-1): ProviderUnavailable: gone")
    assert type(error) is ProviderError
    assert [(each.attempt, each.provider, each.phase, each.request_sent) for each in error.attempt_log] == [
        (1, "a", "status", True),
        (2, "a", "status", True),
        (3, "b", "connect", False),
    ]
    assert (error.attempts, error.phase, error.request_sent, error.status_code) == (3, None, None, None)
    assert (error.retryable, error.retry_after) == (True, None), "one of them may be back at once"
    assert error.retry_wait_seconds >= 1.0


def test_a_fact_that_all_share_is_told_and_one_that_is_alone_is_raised_as_itself() -> None:
    with pytest.raises(ProviderError) as caught:
        FallbackClient([named("a", busy(retry_after=9)), named("b", busy(retry_after=4))]).complete(request())
    assert (caught.value.status_code, caught.value.phase, caught.value.request_sent) == (429, "status", True)
    assert caught.value.retry_after == 4
    alone = busy()
    with pytest.raises(RateLimited) as only:
        FallbackClient([named("a", alone)]).complete(request())
    assert only.value is alone


def test_a_client_that_cannot_run_a_hosted_tool_is_passed_over() -> None:
    cannot, can = named("a", "from a"), named("b", "found", hosted_tools=["web_search"])
    client = FallbackClient([cannot, can])
    assert client.hosted_tools == ("web_search",)
    response = Agent([HostedTool("web_search")], client=client).run_result("hi")
    assert (response.text, cannot.requests) == ("found", [])
    assert response.summary.provider_retries == 0, "nobody was asked in vain"
    with pytest.raises(ConfigurationError, match="cannot run the hosted tool"):
        Agent([HostedTool("web_search")], client=FallbackClient([cannot]))
    with pytest.raises(BadRequestError, match=r"a \(a-1\): BadRequestError: it cannot run the hosted tool web_search"):
        FallbackClient([cannot, named("c", "x")]).complete(request(hosted_tools=(HostedTool("web_search"),)))


class Typing(FakeClient):
    """Writes a word, then fails or answers."""

    def complete(self, request: ModelRequest) -> ModelResponse:
        if (tell := ON_TEXT.get()) is not None:
            tell("begun")
        return super().complete(request)


def test_after_the_first_text_nobody_else_is_asked() -> None:
    error, second = busy(), named("b", "from b")
    client = FallbackClient([Typing(error), second])
    with Agent([], client=client).stream("hi") as stream, pytest.raises(RateLimited) as caught:
        list(stream)
    assert caught.value is error
    assert second.requests == []
    assert [each.provider for each in error.attempt_log] == ["fake"]


def test_before_it_the_next_one_streams() -> None:
    client = FallbackClient([named("a", busy()), Typing("begun")])
    with Agent([], client=client).stream("hi") as stream:
        assert list(stream.text) == ["begun"]


def test_observers_and_the_summary_are_told() -> None:
    observer, error = ListObserver(), busy()
    client = FallbackClient([named("a", error), named("b", "from b")])
    result = Agent([], client=client, observer=observer).run_result("hi")
    assert observer.events[1] == ("retry", (1, error, 0.0))
    summary = result.summary
    assert (summary.provider, summary.model, summary.provider_retries) == ("b", "b-1", 1)
    assert [(each.error_type, each.phase, each.count) for each in summary.failed_attempts] == [
        ("RateLimited", "status", 1)
    ]


def test_a_retrying_client_around_it_keeps_the_whole_log() -> None:
    waits: list[float] = []
    inner = FallbackClient([named("a", busy(retry_after=2), "late"), named("b", busy(retry_after=5))])
    response = RetryingClient(inner, sleep=waits.append).complete(request())
    assert (response.text, waits) == ("late", [2])
    assert [(each.attempt, each.provider, each.wait_seconds) for each in response.attempt_log] == [
        (1, "a", 0.0),
        (2, "b", 2.0),
        (3, "a", 0.0),
    ]


class Own:
    """An async client."""

    name, model = "own", "o1"

    async def complete(self, request: ModelRequest) -> ModelResponse:
        return ModelResponse(content=(TextPart(text="awaited"),))


def test_async_clients_and_others_go_together() -> None:
    def client() -> FallbackClient:
        return FallbackClient([named("a", busy()), Own()])

    assert Agent([], client=client()).run("hi") == "awaited"
    assert trio.run(Agent([], client=client()).run_async, "hi") == "awaited"
    assert asyncio.run(Agent([], client=client()).run_async("hi")) == "awaited"

    async def direct() -> str:
        response: ModelResponse = await client().complete(request())
        return response.text

    assert asyncio.run(direct()) == "awaited"


def test_all_are_closed_also_where_closing_one_fails() -> None:
    closed: list[str] = []

    class Closing(FakeClient):
        def close(self) -> None:
            closed.append(self.model)
            if self.model == "bad":
                raise OSError("no")

    with pytest.raises(OSError, match="no"), FallbackClient([Closing(model="a"), Closing(model="bad"), Own()]):
        pass
    assert sorted(closed) == ["a", "bad"]


def test_none_and_what_is_no_client_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="has no clients; give it at least one"):
        FallbackClient([])
    with pytest.raises(TypeError, match="takes a list of clients, not one FakeClient"):
        FallbackClient(FakeClient("x"))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="str has no name"):
        FallbackClient(["gpt-4o"])
