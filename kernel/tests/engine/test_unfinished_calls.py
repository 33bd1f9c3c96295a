"""Model calls that do not come to their end: what is told of them, and what they may have cost."""

from __future__ import annotations

import pytest
import trio
from engine_doubles import (
    RecordingJournal,
    act,
    ask_once,
    asking,
    flow,
    heard,
    host_of,
    provider_of,
    request,
    response,
    run,
    statuses,
)

import treadle
from treadle import MemoryJournal
from treadle.contracts.events import ModelCallFailed
from treadle.errors import CredentialError, RateLimitError, ResponseError, UnavailableError
from treadle.messages import Completed, EmbedRequest, TextDelta


@pytest.mark.parametrize("events", [[], [TextDelta("half")]])
async def test_a_reply_that_ends_before_it_is_complete_is_an_error_and_may_have_cost(events):
    async def cut(request):
        for event in events:
            yield event

    result, recorder, journal = await ask_once(provider_of(cut, cost=None), asking(stream=True))
    step = result.step_results["a"]
    assert step.error == "the reply of provider 'double' ended before it was complete"
    assert step.error_classification == "transient"
    assert (step.cost_usd, step.usage.total_tokens) == (None, None)
    assert heard(recorder, ModelCallFailed)[0].error.startswith("ResponseError: the reply of provider 'double'")
    assert "model_call_finished a" in journal.facts()


async def test_a_step_that_leaves_early_ends_the_call_and_its_cost_is_unknown():
    provider = provider_of(cost=None)

    async def leave(ctx):
        async with ctx.exchange(request(stream=True)) as events:
            async for event in events:
                assert event == TextDelta("hello")
                break
        assert provider.open_exchanges == 0

    result, _, _ = await ask_once(provider, leave)
    assert statuses(result) == {"a": "success"}
    assert (result.total_tokens, result.total_cost_usd) == (None, None)


async def test_a_step_that_leaves_after_the_whole_response_has_its_cost():
    async def leave(ctx):
        async with ctx.exchange(request()) as events:
            async for _ in events:
                break

    result, _, _ = await ask_once(provider_of(cost=0.5), leave)
    assert (result.total_tokens, result.total_cost_usd) == (15, 0.5)


async def test_a_step_that_fails_in_the_middle_of_a_reply_ends_the_call_and_its_cost_is_unknown():
    provider = provider_of(cost=None)

    async def fail(ctx):
        async with ctx.exchange(request(stream=True)):
            raise KeyError("mine")

    result, _, _ = await ask_once(provider, fail)
    assert result.step_results["a"].error == "KeyError: 'mine'"
    assert result.step_results["a"].cost_usd is None
    assert provider.open_exchanges == 0


@pytest.mark.parametrize(
    ("error", "cost"),
    [
        (RateLimitError("x", provider="double", status_code=429), 0),
        (UnavailableError("x", provider="double", request_sent=False), 0),
        (UnavailableError("x", provider="double"), None),
        (ResponseError("x", provider="double", request_sent=True), None),
        (CredentialError("x"), 0),
        (KeyError("x"), None),
    ],
)
async def test_a_failed_call_is_recorded_and_cost_something_unless_the_server_refused_or_was_not_reached(error, cost):
    async def answer(request):
        raise error
        yield

    result, recorder, journal = await ask_once(provider_of(answer, cost=None))
    assert result.step_results["a"].cost_usd == cost
    failed = heard(recorder, ModelCallFailed)
    assert [(each.provider, each.error) for each in failed] == [("double", f"{type(error).__name__}: {error}")]
    finished = [entry.data for entry in journal.kept if entry.kind == "model_call_finished"]
    assert finished == [{"error": f"{type(error).__name__}: {error}", "may_have_cost": cost is None}]


async def test_a_call_that_fails_after_the_reply_has_begun_cost_something_whatever_the_error():
    async def breaks(request):
        yield TextDelta("half")
        raise UnavailableError("overloaded", provider="double", status_code=529)

    result, _, _ = await ask_once(provider_of(breaks, cost=None), asking(stream=True))
    assert result.step_results["a"].error == "overloaded"
    assert (result.total_tokens, result.total_cost_usd) == (None, None)


async def test_a_cancelled_call_may_have_cost_something_and_has_no_end_in_the_journal(autojump_clock):
    async def never(request):
        await trio.sleep_forever()
        yield

    journal = RecordingJournal()
    provider = provider_of(never, cost=None)
    host = host_of({"a": asking()}, provider=provider)
    result = await run(flow(host, act("a"), config={"timeout": 1}), journal=journal)
    assert statuses(result) == {"a": "cancelled"}
    assert result.total_cost_usd is None
    assert provider.open_exchanges == 0
    assert "model_call_started a" in journal.facts()
    assert "model_call_finished a" not in journal.facts()


@pytest.mark.parametrize(("known", "cost"), [(0.0, 0.0), (None, None), (0.5, None)])
async def test_a_call_that_is_cut_off_has_cost_nothing_where_none_does_and_its_tokens_stay_unknown(
    known, cost, autojump_clock
):
    """In the run itself, and in one that goes on with it, whether or not the process could still say how it ended."""
    answers = iter([True, False])

    async def once_never(request):
        if next(answers):
            await trio.sleep_forever()
        yield Completed(response(cost_usd=0.0))

    provider = provider_of(once_never, cost=known)
    host = host_of({"a": asking()}, provider=provider)
    journal, killed = MemoryJournal(), MemoryJournal()
    workflow = flow(host, act("a"), config={"timeout": 1})
    cut = await run(workflow, journal=journal, run_id="r")
    assert (cut.status, cut.total_tokens, cut.total_cost_usd) == ("timeout", None, cost)
    for entry in journal.entries("r"):
        if entry.kind not in ("step_finished", "run_finished"):
            killed.append(entry)
    for kept in (journal, killed):
        answers = iter([False])
        async with treadle.open(host=host, journal=kept) as session:
            done = await session.resume("r")
        assert (done.status, done.total_tokens, done.total_cost_usd) == ("success", None, cost)


async def test_embeddings_that_fail_cost_nothing_where_nothing_does():
    async def embed(ctx):
        await ctx.embed(EmbedRequest(model="e", inputs=("a",)))

    async def fails(self, request):
        raise UnavailableError("x", provider="double")

    result, recorder, journal = await ask_once(provider_of(embed=fails), embed)
    assert (result.total_tokens, result.total_cost_usd) == (None, 0.0)
    assert [entry.data["may_have_cost"] for entry in journal.kept if entry.kind == "model_call_finished"] == [True]
    assert heard(recorder, ModelCallFailed) == []
