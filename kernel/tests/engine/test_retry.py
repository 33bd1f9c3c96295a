"""When a failed attempt is repeated, after how long, and what is counted."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
import trio
from engine_doubles import Recorder, act, asking, failing, flow, host_of, provider_of, response, run

from treadle._engine.failures import Failure, wait_before
from treadle.contracts.config import RetrySettings, RunConfig
from treadle.contracts.events import StepRetrying
from treadle.contracts.step import StepOutcome
from treadle.errors import ProviderError, RateLimitError, StepError, ToolError, UnavailableError
from treadle.messages import Completed, Usage

PLAIN = {"jitter": False}


def unavailable(**fields: Any) -> UnavailableError:
    return UnavailableError("down", provider="double", **fields)


async def attempts(error: Any, retry: dict[str, Any], *, times: int = 99, **config: Any) -> tuple[Any, list[float]]:
    """The step's result and the waits between its attempts."""
    at: list[float] = []
    host = host_of({"a": failing(times, error, "made", at)})
    result = await run(flow(host, act("a", output="a", retry={**PLAIN, **retry}), config=config))
    return result.step_results["a"], [later - earlier for earlier, later in pairwise(at)]


async def test_a_step_is_tried_again_until_it_succeeds_and_its_attempts_are_counted(autojump_clock):
    result, waits = await attempts(lambda: ToolError("flaky"), {"max_retries": 3}, times=2)
    assert (result.status, result.attempts, result.output, result.error) == ("success", 3, "made", None)
    assert waits == pytest.approx([1, 2])


async def test_waits_double_from_one_second_up_to_backoff_max(autojump_clock):
    result, waits = await attempts(lambda: ToolError("flaky"), {"max_retries": 6, "backoff_max": 10})
    assert waits == pytest.approx([1, 2, 4, 8, 10, 10])
    assert (result.status, result.attempts, result.error) == ("failed", 7, "flaky")
    assert result.error_classification == "transient"
    assert result.duration_ms == pytest.approx(35_000)


async def test_backoff_base_is_the_base(autojump_clock):
    _, waits = await attempts(lambda: ToolError("flaky"), {"max_retries": 3, "backoff_base": 3})
    assert waits == pytest.approx([1, 3, 9])


async def test_without_a_number_of_its_own_a_step_has_the_workflows(autojump_clock):
    result, _ = await attempts(lambda: ToolError("flaky"), {}, max_retries=2)
    assert result.attempts == 3
    result, _ = await attempts(lambda: ToolError("flaky"), {"max_retries": 0}, max_retries=2)
    assert result.attempts == 1


async def test_the_workflows_own_default_is_three_further_attempts(autojump_clock):
    result, _ = await attempts(lambda: ToolError("flaky"), {}, max_retries=RunConfig().max_retries)
    assert result.attempts == 4
    assert RunConfig().max_retries == 3


async def test_a_permanent_error_is_never_tried_again(autojump_clock):
    result, waits = await attempts(lambda: StepError("no"), {"max_retries": 5})
    assert (result.attempts, waits, result.error_classification) == (1, [], "permanent")


@pytest.mark.parametrize("asked", [0.25, 50.0])
async def test_what_the_server_asks_for_is_waited_exactly_be_it_shorter_or_longer_than_backoff(asked, autojump_clock):
    _, waits = await attempts(
        lambda: unavailable(retry_after=asked), {"max_retries": 2, "jitter": True, "backoff_max": 3}
    )
    assert waits == pytest.approx([asked, asked])


async def test_a_server_that_asks_for_more_than_max_wait_is_not_asked_again_and_the_error_says_when_to_come_back():
    result, waits = await attempts(
        lambda: RateLimitError("slow down", provider="double", status_code=429, retry_after=600), {"max_retries": 3}
    )
    assert (result.attempts, waits) == (1, [])
    assert result.error == (
        "slow down; the provider asks to come back in 600 s, which is longer than retry.max_wait (120 s)"
    )


async def test_a_wait_of_exactly_max_wait_is_waited(autojump_clock):
    _, waits = await attempts(lambda: unavailable(retry_after=7), {"max_retries": 1, "max_wait": 7})
    assert waits == pytest.approx([7])


@pytest.mark.parametrize("asked", [0.0, -3.0, float("nan")])
async def test_a_server_that_asks_for_no_sensible_time_is_asked_at_once(asked, autojump_clock):
    result, waits = await attempts(lambda: unavailable(retry_after=asked), {"max_retries": 1})
    assert (result.attempts, waits) == (2, pytest.approx([0]))


async def test_only_a_providers_error_can_ask_for_a_wait(autojump_clock):
    class Foreign(OSError):
        retry_after = "tomorrow"

    _, waits = await attempts(lambda: Foreign("x"), {"max_retries": 1})
    assert waits == pytest.approx([1])


@pytest.mark.parametrize(
    ("codes", "status", "transient"),
    [
        (None, 500, True),
        ([418], 500, False),
        ([418], 418, True),
        ([], 503, False),
        ([418], None, True),
    ],
)
def test_retryable_status_codes_decide_alone_about_errors_that_have_a_status(codes, status, transient):
    retry = RetrySettings(retryable_status_codes=codes)
    assert Failure.of(unavailable(status_code=status), retry).transient is transient


def test_retryable_status_codes_make_a_permanent_status_worth_another_attempt():
    error = ProviderError("teapot", provider="double", status_code=418)
    assert not Failure.of(error, RetrySettings()).transient
    assert Failure.of(error, RetrySettings(retryable_status_codes=(418,))).transient


def test_jitter_spreads_a_wait_by_up_to_a_quarter_either_way():
    failure = Failure.of(ToolError("x"), RetrySettings())
    waits = [wait_before(4, failure, RetrySettings()) for _ in range(2000)]
    assert 3.0 <= min(waits) < 3.1
    assert 4.9 < max(waits) <= 5.0


def test_a_wait_too_large_for_a_number_is_backoff_max():
    failure = Failure.of(ToolError("x"), RetrySettings())
    assert wait_before(10_000, failure, RetrySettings(jitter=False)) == 60


async def test_the_time_limit_is_that_of_one_attempt(autojump_clock):
    at: list[float] = []

    async def slow_twice(ctx):
        at.append(trio.current_time())
        await trio.sleep(10 if len(at) < 3 else 1)
        return "made"

    host = host_of({"a": slow_twice})
    result = await run(flow(host, act("a", timeout=2, retry={**PLAIN, "max_retries": 3})))
    assert (result.status, result.step_results["a"].attempts) == ("success", 3)
    assert [later - at[0] for later in at] == pytest.approx([0, 3, 7])


async def test_observers_hear_of_each_repetition_with_its_wait(autojump_clock):
    observer = Recorder()
    host = host_of({"a": failing(2, lambda: ToolError("flaky"))})
    result = await run(flow(host, act("a", retry={**PLAIN, "max_retries": 3})), observers=[observer])
    retries = [event for event in observer.events if isinstance(event, StepRetrying)]
    assert [(each.attempt, each.error, each.wait) for each in retries] == [(1, "flaky", 1.0), (2, "flaky", 2.0)]
    assert all(each.run_id == result.run_id for each in retries)
    assert observer.told() == [
        "RunStarted", "StepStarted a", "StepRetrying a", "StepStarted a", "StepRetrying a", "StepStarted a",
        "StepFinished a", "RunFinished",
    ]  # fmt: skip


async def test_tokens_and_cost_of_failed_attempts_are_kept(autojump_clock):
    left = [2]

    async def asks_and_fails(ctx):
        await asking()(ctx)
        if left[0]:
            left[0] -= 1
            raise ToolError("after the call")

    async def answer(request):
        yield Completed(response(usage=Usage(input_tokens=10, output_tokens=5), cost_usd=0.5))

    host = host_of({"a": asks_and_fails}, provider=provider_of(answer))
    result = await run(flow(host, act("a", retry={"max_retries": 3})))
    assert result.step_results["a"].usage.input_tokens == 30
    assert result.step_results["a"].cost_usd == 1.5
    assert (result.total_tokens, result.total_cost_usd) == (45, 1.5)


async def test_what_a_step_spent_itself_is_kept_though_nothing_it_made_could_be():
    async def costly(ctx):
        return StepOutcome(value={1, 2}, usage=Usage(input_tokens=3, output_tokens=4), cost_usd=0.25)

    result = await run(flow(host_of({"a": costly}), act("a", output="a")))
    assert result.status == "failed"
    assert (result.total_tokens, result.total_cost_usd) == (7, 0.25)


async def test_a_step_sees_the_attempt_it_is_in(autojump_clock):
    seen = []

    async def look(ctx):
        seen.append(ctx.attempt)
        raise ToolError("again")

    await run(flow(host_of({"a": look}), act("a", retry={"max_retries": 2})))
    assert seen == [1, 2, 3]


async def test_a_step_that_waits_for_its_next_attempt_leaves_its_slot_to_others(autojump_clock):
    at: list[float] = []
    ends: list[float] = []

    async def other(_ctx: Any) -> None:
        ends.append(trio.current_time())

    host = host_of({"a": failing(1, lambda: ToolError("flaky"), "made", at), "b": other})
    steps = (act("a", retry={**PLAIN, "max_retries": 1}), act("b"))
    result = await run(flow(host, *steps, config={"max_concurrent_steps": 1}))
    assert result.status == "success"
    assert at[0] <= ends[0] < at[1] == pytest.approx(at[0] + 1)


async def test_a_step_whose_wait_is_over_waits_for_a_slot_again(autojump_clock):
    at: list[float] = []

    async def long(_ctx: Any) -> None:
        await trio.sleep(5)

    host = host_of({"a": failing(1, lambda: ToolError("flaky"), "made", at), "b": long, "c": long})
    steps = (act("a", retry={**PLAIN, "max_retries": 1}), act("b"), act("c"))
    await run(flow(host, *steps, config={"max_concurrent_steps": 1}))
    assert at[1] - at[0] == pytest.approx(5), "after the one that had its slot, before the one that has not started"
