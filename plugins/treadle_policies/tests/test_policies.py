"""The limiter and the breaker, each alone, on trio's mock clock; and both in a run, as settings ask for them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

import treadle
from treadle import (
    BadRequestError,
    Completed,
    DocumentError,
    Exchange,
    Host,
    ModelRequest,
    RateLimitError,
    StreamEvent,
    UnavailableError,
    Usage,
    UserMessage,
)
from treadle.testing import offering, reply, scripted
from treadle_llm_call import plugin as llm_call
from treadle_policies import plugin
from treadle_policies.adaptive import AdaptiveSlots
from treadle_policies.breaker import CircuitBreaker
from treadle_policies.estimate import estimate_tokens
from treadle_policies.limiter import RateLimiter
from treadle_policies.limits import BreakerLimits, ProviderLimits

Answer = Any
"""A response, an error to raise, or seconds to take."""

DOWN = UnavailableError("down", provider="p", status_code=503)


def request(text: str = "hi") -> ModelRequest:
    return ModelRequest(model="m", messages=(UserMessage.of(text),))


def answering(answer: Answer, log: list[float]) -> Callable[[ModelRequest], Exchange]:
    """A provider that answers so, and notes when it was asked."""

    @asynccontextmanager
    async def exchange(_: ModelRequest) -> AsyncIterator[AsyncIterator[StreamEvent]]:
        log.append(trio.current_time())

        async def events() -> AsyncIterator[StreamEvent]:
            if isinstance(answer, BaseException):
                raise answer
            if isinstance(answer, int | float):
                await trio.sleep(answer)
            yield Completed(reply("ok") if isinstance(answer, int | float) else answer)

        yield events()

    return exchange


async def ask(layer: Any, answer: Answer = 0, log: list[float] | None = None, text: str = "hi") -> None:
    async with layer.exchange(request(text), answering(answer, [] if log is None else log)) as events:
        async for _ in events:
            pass


def limiter(**limits: Any) -> RateLimiter:
    return RateLimiter("p", ProviderLimits(**limits))


def breaker(**limits: Any) -> CircuitBreaker:
    return CircuitBreaker("p", ProviderLimits(breaker=BreakerLimits(**limits)))


# --- the limiter ------------------------------------------------------------------------------------------


async def test_requests_beyond_those_of_a_minute_wait_for_their_turn(autojump_clock: trio.testing.MockClock):
    layer, log, start = limiter(requests_per_minute=2), list[float](), trio.current_time()
    async with trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(ask, layer, 0, log)
    assert [round(each - start) for each in log] == [0, 0, 60, 60, 120]


@given(
    limit=st.integers(1, 5),
    arrivals=st.lists(st.floats(0, 200), max_size=30),
)
def test_no_minute_ever_has_more_requests_than_allowed(limit: int, arrivals: list[float]):
    log: list[float] = []

    async def late(layer: RateLimiter, seconds: float) -> None:
        await trio.sleep(seconds)
        await ask(layer, 0, log)

    async def main() -> None:
        layer = limiter(requests_per_minute=limit)
        async with trio.open_nursery() as nursery:
            for seconds in arrivals:
                nursery.start_soon(late, layer, seconds)

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    assert len(log) == len(arrivals)
    for first in log:
        assert sum(first <= each < first + 60 - 1e-6 for each in log) <= limit


@given(
    limit=st.integers(5, 60),
    sizes=st.lists(st.integers(0, 300), max_size=12),
)
def test_no_minute_ever_begins_requests_of_more_tokens_than_allowed_but_for_one_alone(limit: int, sizes: list[int]):
    sent: list[tuple[float, int]] = []

    async def one(layer: RateLimiter, size: int) -> None:
        log: list[float] = []
        text = "x" * size
        answer = reply("", usage=Usage(input_tokens=0, output_tokens=0))
        await ask(layer, answer, log, text)
        sent.append((log[0], estimate_tokens(request(text))))

    async def main() -> None:
        layer = limiter(tokens_per_minute=limit)
        async with trio.open_nursery() as nursery:
            for size in sizes:
                nursery.start_soon(one, layer, size)

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    assert len(sent) == len(sizes)
    for first, _ in sent:
        window = [tokens for when, tokens in sent if first <= when < first + 60 - 1e-6]
        assert sum(window) <= limit or len([each for each in window if each]) == 1


async def test_a_request_above_the_whole_allowance_waits_until_nothing_was_spent_for_a_minute(
    autojump_clock: trio.testing.MockClock,
):
    layer, log, start = limiter(tokens_per_minute=10), list[float](), trio.current_time()
    await ask(layer, reply("", usage=Usage(input_tokens=4, output_tokens=0)), log)
    await ask(layer, 0, log, text="x" * 4000)
    assert [each - start for each in log] == [0, 60]


async def test_tokens_of_replies_count(autojump_clock: trio.testing.MockClock):
    layer, log, start = limiter(tokens_per_minute=100), list[float](), trio.current_time()
    await ask(layer, reply("", usage=Usage(input_tokens=4, output_tokens=99)), log)
    await ask(layer, 0, log)
    assert [each - start for each in log] == [0, 60]


async def test_no_more_than_so_many_are_under_way_at_once(autojump_clock: trio.testing.MockClock):
    layer, log, start = limiter(max_concurrent=2), list[float](), trio.current_time()
    async with trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(ask, layer, 10, log)
    assert [each - start for each in log] == [0, 0, 10, 10, 20]


async def test_whoever_waits_can_be_cancelled_and_others_come_next(autojump_clock: trio.testing.MockClock):
    layer, log, start = limiter(requests_per_minute=1, max_concurrent=2), list[float](), trio.current_time()
    await ask(layer, 0, log)
    with trio.move_on_after(5) as scope:
        await ask(layer, 0, log)
    assert scope.cancelled_caught
    assert trio.current_time() - start == 5
    await ask(layer, 0, log)
    assert [each - start for each in log] == [0, 60]


# --- the breaker ------------------------------------------------------------------------------------------


async def fail(layer: CircuitBreaker, times: int, error: Exception = DOWN) -> None:
    for _ in range(times):
        with pytest.raises(type(error)):
            await ask(layer, error)


async def test_failures_in_a_row_open_it_and_one_probe_closes_it_again(autojump_clock: trio.testing.MockClock):
    layer, log = breaker(failures=3, cooldown=60), list[float]()
    await fail(layer, 2)
    await ask(layer)
    await fail(layer, 3)
    assert layer.state == "open"
    await trio.sleep(18)
    with pytest.raises(UnavailableError) as caught:
        await ask(layer, 0, log)
    text = "provider 'p' is not asked, as it failed 3 times in a row; it is asked again in 42 s"
    assert str(caught.value) == text
    assert (caught.value.retry_after, caught.value.request_sent, caught.value.transient) == (42, False, True)
    assert log == []
    await trio.sleep(42)
    assert layer.state == "half-open"
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask, layer, 5, log)
        await trio.sleep(1)
        with pytest.raises(UnavailableError, match="one request is trying it now"):
            await ask(layer, 0, log)
    assert len(log) == 1
    assert layer.state == "closed"
    await ask(layer, 0, log)


async def test_a_probe_that_fails_opens_it_for_another_while(autojump_clock: trio.testing.MockClock):
    layer = breaker(failures=1, cooldown=10)
    await fail(layer, 1)
    await trio.sleep(10)
    await fail(layer, 1)
    assert layer.state == "open"
    await trio.sleep(10)
    await ask(layer)
    assert layer.state == "closed"


@pytest.mark.parametrize(
    "error",
    [
        RateLimitError("slow down", provider="p", status_code=429),
        BadRequestError("no such field", provider="p", status_code=400),
    ],
)
async def test_busy_servers_and_faulty_requests_do_not_count(error: Exception, autojump_clock: trio.testing.MockClock):
    layer = breaker(failures=2, cooldown=10)
    await fail(layer, 1)
    await fail(layer, 5, error)
    assert layer.state == "closed"
    await fail(layer, 1)
    assert layer.state == "open"
    await trio.sleep(10)
    await fail(layer, 1, error)
    assert layer.state == "half-open"


async def test_a_cancelled_call_does_not_count_and_a_cancelled_probe_leaves_room_for_another(
    autojump_clock: trio.testing.MockClock,
):
    layer = breaker(failures=1, cooldown=10)
    with trio.move_on_after(1):
        await ask(layer, 100)
    assert layer.state == "closed"
    await fail(layer, 1)
    await trio.sleep(10)
    with trio.move_on_after(1):
        await ask(layer, 100)
    await ask(layer)
    assert layer.state == "closed"


async def test_what_the_step_raises_is_not_the_providers_failure():
    layer = breaker(failures=1)
    with pytest.raises(LookupError):
        async with layer.exchange(request(), answering(0, [])):
            raise LookupError("the step's own")
    assert layer.state == "closed"


async def test_what_began_before_it_opened_neither_closes_nor_prolongs_it(autojump_clock: trio.testing.MockClock):
    layer = breaker(failures=1, cooldown=10)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask, layer, 5)
        await trio.sleep(1)
        await fail(layer, 1)
    assert layer.state == "open"


# --- in a run ---------------------------------------------------------------------------------------------

FLOW = {
    "name": "t",
    "config": {"max_retries": 0, "provider": "main"},
    "steps": [{"id": f"s{n}", "type": "llm_call", "prompt": "hi"} for n in range(3)],
}


def host_of(settings: str, tmp_path: Path, *providers: str) -> Host:
    (tmp_path / "treadle.yaml").write_text(settings, encoding="utf-8")
    return Host.of(
        {
            "policies": plugin,
            "llm": llm_call,
            "p": offering({"provider": {name: scripted(*["ok"] * 9) for name in providers}}),
        },
        settings=treadle.load_settings(tmp_path / "treadle.yaml"),
    )


async def test_limits_are_shared_by_all_steps_and_runs_of_a_session(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
):
    host = host_of("providers: {main: {limits: {requests_per_minute: 2}}}", tmp_path, "main")
    workflow = treadle.build_workflow(FLOW, host=host)
    start = trio.current_time()
    async with treadle.open(host=host) as session:
        assert (await session.run(workflow)).ok
        assert trio.current_time() - start == 60
        assert (await session.run(workflow)).ok
        assert trio.current_time() - start == 120


async def test_an_open_breaker_lets_the_fallback_answer(tmp_path: Path, autojump_clock: trio.testing.MockClock):
    settings = """
        provider: main
        providers:
          main: {limits: {breaker: {failures: 1}}}
          spare: {fallback: true}
    """
    host = host_of(settings, tmp_path, "main", "spare").extended(
        {"down": offering({"provider": {"main": scripted(*[DOWN] * 3)}})}
    )
    host._settings = treadle.load_settings(tmp_path / "treadle.yaml")  # that entry, too, is what is under test
    async with treadle.open(host=host) as session:
        result = await session.run(treadle.build_workflow({**FLOW, "config": {"max_concurrent_steps": 1}}, host=host))
    assert result.ok
    assert all(each.message.startswith("provider 'spare' with model") for each in result.warnings)
    assert "is not asked, as it failed once" in result.warnings[1].message


async def test_a_provider_without_limits_has_no_layers_around_it(tmp_path: Path):
    host = host_of("providers: {main: {limits: {max_concurrent: 1}}, other: {}}", tmp_path, "main", "other")
    async with treadle.open(host=host) as session:
        assert [type(each).__name__ for each in session.layers_around("main")] == ["CircuitBreaker", "RateLimiter"]
        assert list(session.layers_around("other")) == []


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ("{^requests_per_minut: 1}", "requests_per_minut: unknown field; did you mean 'requests_per_minute'?"),
        ("{max_concurrent: ^0}", "max_concurrent: must be at least 1, not 0"),
        ("{breaker: {failures: ^x}}", "breaker.failures: must be a whole number, not 'x'"),
        ("{breaker: ^}", "breaker: write {} for a breaker as it is by default, or leave it out"),
    ],
)
def test_limits_are_checked_with_the_settings(limits: str, expected: str, tmp_path: Path):
    file, text = tmp_path / "treadle.yaml", f"providers: {{openai: {{limits: {limits}}}}}"
    file.write_text(text.replace("^", ""), encoding="utf-8")
    with pytest.raises(DocumentError) as caught:
        treadle.deployed_host(file)
    (problem,) = caught.value.problems
    assert str(problem) == f"{file}:1:{text.index('^') + 1}: providers.openai.limits.{expected}"


def test_without_the_package_the_message_names_it(tmp_path: Path):
    file = tmp_path / "treadle.yaml"
    file.write_text("providers: {openai: {limits: {breaker: {}}}}", encoding="utf-8")
    with pytest.raises(DocumentError) as caught:
        treadle.deployed_host(file, without=["policies"])
    assert str(caught.value.problems[0]).endswith(
        "providers.openai.limits: no plugin is installed that reads 'limits'; pip install treadle-policies"
    )


# --- as many at once as the provider takes ----------------------------------------------------------------


def adaptive(**limits: Any) -> AdaptiveSlots:
    layer = limiter(adaptive=True, **limits)
    assert layer._adaptive is not None
    return layer._adaptive


async def test_room_doubles_until_the_first_refusal_then_halves_once_a_round_and_grows_by_one(
    autojump_clock: trio.testing.MockClock,
):
    slots, log = adaptive(max_concurrent=40), list[float]()
    async with trio.open_nursery() as nursery:
        for _ in range(30):
            nursery.start_soon(ask, slots, 10, log)
    assert [sum(each == start for each in log) for start in sorted(set(log))] == [10, 20]
    assert slots.room == 40
    busy = RateLimitError("slow down", provider="p", status_code=429)

    @asynccontextmanager
    async def refusing(_: ModelRequest) -> AsyncIterator[AsyncIterator[StreamEvent]]:
        await trio.sleep(1)
        raise busy
        yield

    async def refused() -> None:
        with pytest.raises(RateLimitError):
            async with slots.exchange(request(), refusing):
                pass

    async with trio.open_nursery() as nursery:
        for _ in range(7):
            nursery.start_soon(refused)
    assert slots.room == 20  # seven refusals of one round are one
    async with trio.open_nursery() as nursery:
        for _ in range(20):
            nursery.start_soon(ask, slots, 1)
    assert 20 < slots._room < 21 + 0.01


async def test_nobody_is_let_through_for_as_long_as_a_refusal_asks(autojump_clock: trio.testing.MockClock):
    slots, log, start = adaptive(), list[float](), trio.current_time()
    with pytest.raises(RateLimitError):
        await ask(slots, RateLimitError("slow down", provider="p", status_code=429, retry_after=30))
    await ask(slots, 0, log)
    with pytest.raises(RateLimitError):
        await ask(slots, RateLimitError("tomorrow", provider="p", status_code=429, retry_after=86_400))
    await ask(slots, 0, log)
    assert [each - start for each in log] == [30, 30]


async def test_room_never_goes_below_one_and_other_errors_do_not_count(autojump_clock: trio.testing.MockClock):
    slots = adaptive(max_concurrent=4)
    for error in [DOWN, *[RateLimitError("slow down", provider="p", status_code=429)] * 9]:
        with pytest.raises(type(error)):
            await ask(slots, error)
    assert slots.room == 1
    await ask(slots)
    assert slots.room == 2


async def test_a_provider_that_takes_five_at_once_is_asked_by_about_so_many(autojump_clock: trio.testing.MockClock):
    """Of 300 requests that all come at once and are tried again when they are refused, few are refused."""
    slots, under_way, refusals = adaptive(max_concurrent=100), 0, 0

    @asynccontextmanager
    async def server(_: ModelRequest) -> AsyncIterator[AsyncIterator[StreamEvent]]:
        async def events() -> AsyncIterator[StreamEvent]:
            nonlocal under_way
            if under_way >= 5:
                raise RateLimitError("slow down", provider="p", status_code=429, retry_after=1)
            under_way += 1
            try:
                await trio.sleep(1)
            finally:
                under_way -= 1
            yield Completed(reply("ok"))

        yield events()

    async def insist() -> None:
        nonlocal refusals
        while True:
            try:
                async with slots.exchange(request(), server) as events:
                    async for _ in events:
                        pass
            except RateLimitError:
                refusals += 1
            else:
                return

    async with trio.open_nursery() as nursery:
        for _ in range(300):
            nursery.start_soon(insist)
    assert refusals < 60
    assert trio.current_time() < 60 * 2 + 30
