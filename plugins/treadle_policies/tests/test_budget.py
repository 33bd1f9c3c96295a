"""The budget: alone, under random calls; and in runs, steps, agents and child runs, as documents set it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
import trio
import trio.lowlevel
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

import treadle
from treadle import (
    AssistantMessage,
    BudgetExceededError,
    BudgetTerms,
    Completed,
    Host,
    MemoryJournal,
    ModelRequest,
    ModelResponse,
    PlannedCall,
    Provider,
    RunStatus,
    Settings,
    Step,
    StepContext,
    StepOutcome,
    StepStatus,
    StreamEvent,
    UnavailableError,
    Usage,
    UserMessage,
)
from treadle.testing import EchoProvider, offering, reply
from treadle_agent import plugin as agent
from treadle_llm_call import plugin as llm_call
from treadle_policies import plugin
from treadle_policies.budget import ReservingBudget

TOKEN = 0.01
"""US dollars for each token written, in these tests; reading is free unless they say otherwise."""


def priced(*, read: float = 0.0, written: float = TOKEN, only: str | None = None) -> Any:
    class Prices:
        def price(self, *, provider: str, model: str, usage: Usage, **_: Any) -> float | None:
            if only is not None and model != only:
                return None
            assert usage.input_tokens is not None
            assert usage.output_tokens is not None
            return usage.input_tokens * read + usage.output_tokens * written

    return offering({"price_source": {"prices": Prices}})


def call(usd: float, *, max_tokens: int | None = 100) -> PlannedCall:
    """A call that costs at most so much."""

    async def price(usage: Usage) -> float:
        await trio.lowlevel.checkpoint()
        return (usage.output_tokens or 0) * usd / 100

    request = ModelRequest(model="m", messages=(UserMessage.of("hi"),), max_tokens=max_tokens)
    return PlannedCall(step="s", provider="p", request=request, price=price)


# --- the law ------------------------------------------------------------------------------------------


CALLS = st.lists(
    st.tuples(
        st.integers(0, 60),  # the most that it may cost, in cents
        st.floats(0, 1),  # how much of that it does cost
        st.integers(0, 5),  # when it comes
        st.integers(0, 5),  # how long it takes
        st.sampled_from(["reply", "lost", "refused", "cancelled"]),
    ),
    max_size=12,
)


@given(limit=st.integers(0, 100), calls=CALLS)
def test_parallel_calls_never_exceed_the_budget_and_only_what_cannot_fit_is_refused(
    limit: int, calls: list[tuple[int, float, int, int, str]]
):
    budget = ReservingBudget(BudgetTerms(limit_usd=limit / 100, whose="the run"))
    paid = 0.0
    answered: list[bool] = []

    async def one(most: int, share: float, comes: int, takes: int, ends: str) -> None:
        nonlocal paid
        await trio.sleep(comes)
        planned = call(most / 100)
        try:
            await budget.reserve(planned)
        except BudgetExceededError:
            assert budget.spent_usd + most / 100 > limit / 100 - 1e-9
            answered.append(False)
            return
        assert budget.spent_usd + budget.reserved_usd <= limit / 100 + 1e-9
        with trio.move_on_after(takes / 2 if ends == "cancelled" else 99):
            await trio.sleep(takes)
        cost = {"refused": 0.0, "reply": share * most / 100}.get(ends, most / 100)
        paid += cost
        planned.cost_usd = None if ends in ("lost", "cancelled") else cost
        budget.settle(planned)
        answered.append(True)

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            for each in calls:
                nursery.start_soon(one, *each)

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    assert len(answered) == len(calls)
    assert paid <= limit / 100 + 1e-9
    assert budget.spent_usd == pytest.approx(paid)
    assert budget.reserved_usd == 0


async def test_a_call_waits_for_what_others_may_give_back_and_gets_it_in_turn(autojump_clock: trio.testing.MockClock):
    budget, log = ReservingBudget(BudgetTerms(limit_usd=1.0, whose="the run")), list[tuple[str, float]]()
    start = trio.current_time()

    async def one(name: str, usd: float, cost: float, seconds: float) -> None:
        planned = call(usd)
        await budget.reserve(planned)
        log.append((name, trio.current_time() - start))
        await trio.sleep(seconds)
        planned.cost_usd = cost
        budget.settle(planned)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(one, "first", 0.9, 0.1, 10)
        await trio.sleep(1)
        nursery.start_soon(one, "large", 0.8, 0.1, 10)
        await trio.sleep(1)
        nursery.start_soon(one, "small", 0.05, 0.05, 1)
    assert log == [("first", 0), ("large", 10), ("small", 10)]


async def test_who_is_cancelled_while_it_waits_holds_nothing(autojump_clock: trio.testing.MockClock):
    budget = ReservingBudget(BudgetTerms(limit_usd=1.0, whose="the run"))
    first = call(0.9)
    await budget.reserve(first)
    with trio.move_on_after(5) as scope:
        await budget.reserve(call(0.8))
    assert scope.cancelled_caught
    assert budget.reserved_usd == pytest.approx(0.9)
    first.cost_usd = 0.0
    budget.settle(first)
    await budget.reserve(call(1.0))


async def test_a_call_whose_own_cost_is_known_is_held_to_that():
    budget = ReservingBudget(BudgetTerms(limit_usd=1.0, whose="the run"))
    planned = call(50.0)
    planned.known_usd = 0.4
    await budget.reserve(planned)
    assert budget.reserved_usd == pytest.approx(0.4)


async def test_what_a_model_wrote_and_read_raises_later_estimates(autojump_clock: trio.testing.MockClock):
    budget = ReservingBudget(BudgetTerms(limit_usd=1e6, whose="the run"))
    first = call(1.0, max_tokens=None)
    await budget.reserve(first)
    assert first.reserved_usd == pytest.approx(40.96)
    first.cost_usd, first.usage = 80.0, Usage(input_tokens=9, output_tokens=8000)
    budget.settle(first)
    second = call(1.0, max_tokens=None)
    await budget.reserve(second)
    assert second.reserved_usd == pytest.approx(160.0)


# --- in a run -----------------------------------------------------------------------------------------


Answer = Callable[[ModelRequest], Awaitable[ModelResponse]]


def asked(*answers: Answer) -> type[Provider]:
    """A provider of unknown cost that answers by these, in order."""
    left = list(answers)

    class Asked(EchoProvider):
        def known_cost(self, response_model: str) -> float | None:
            return None

        @asynccontextmanager
        async def exchange(self, request: ModelRequest) -> AsyncIterator[AsyncIterator[StreamEvent]]:
            response = await left.pop(0)(request)

            async def events() -> AsyncIterator[StreamEvent]:
                yield Completed(response)

            yield events()

    return Asked


def model(*answers: int | Exception, seconds: float = 1.0) -> type[Provider]:
    """Replies of so many tokens each, or errors, after a second."""

    def answer(tokens: int | Exception) -> Answer:
        async def wait(_: ModelRequest) -> ModelResponse:
            await trio.sleep(seconds)
            if isinstance(tokens, Exception):
                raise tokens
            return reply("ok", usage=written(tokens))

        return wait

    return asked(*map(answer, answers))


def written(tokens: int) -> Usage:
    return replace(Usage.ZERO, input_tokens=1, output_tokens=tokens)


def host_of(provider: Any, *more: Any, settings: Mapping[str, Any] | None = None, prices: Any = None) -> Host:
    plugins = {
        "policies": plugin,
        "llm": llm_call,
        "agent": agent,
        "p": offering({"provider": {"p": provider}}),
        "prices": prices or priced(),
        **{f"more{number}": each for number, each in enumerate(more)},
    }
    return Host.of(plugins, settings=Settings.model_validate({"provider": "p", **(settings or {})}))


def steps(count: int, *, chained: bool = False, **fields: Any) -> list[dict[str, Any]]:
    fields = {"type": "llm_call", "prompt": "hi", "max_tokens": 100, **fields}
    after = {"depends_on": []}
    made = []
    for number in range(count):
        made.append({"id": f"s{number}", **after, **fields})
        after = {"depends_on": [f"s{number}"]} if chained else after
    return made


def flow(steps: list[dict[str, Any]], **config: Any) -> dict[str, Any]:
    return {"name": "t", "config": {"max_retries": 0, **config}, "steps": steps}


async def run(host: Host, document: Mapping[str, Any], **how: Any) -> Any:
    async with treadle.open(host=host) as session:
        return await session.run(treadle.build_workflow(document, host=host), **how)


async def test_parallel_steps_stay_within_the_budget_and_use_what_others_give_back(
    autojump_clock: trio.testing.MockClock,
):
    """Each may cost $1 and costs $0.30: of a budget of $2 two go at once, and six in all."""
    result = await run(host_of(model(*[30] * 10)), flow(steps(10), budget_usd=2.0))
    done = [each for each in result.step_results.values() if each.status is StepStatus.SUCCESS]
    assert len(done) == 4
    assert result.total_cost_usd == pytest.approx(1.2)
    assert result.status is RunStatus.BUDGET_EXCEEDED
    assert not result.ok


async def test_the_message_says_what_was_spent_reserved_and_asked_and_by_which_step(
    autojump_clock: trio.testing.MockClock,
):
    document = flow(steps(3, chained=True), budget_usd=1.5)
    result = await run(host_of(model(60, 60)), document)
    assert result.status is RunStatus.BUDGET_EXCEEDED
    assert result.error == (
        "step 's1': the run has a budget of $1.5, $0.6 of it spent; asked for: at most $1 for a call of "
        "'scripted-1' with about 8 tokens to read and 100 to write (max_tokens)"
    )
    refused, after = result.step_results["s1"], result.step_results["s2"]
    assert (refused.status, refused.attempts, refused.error_classification) == (StepStatus.FAILED, 1, "permanent")
    assert after.status is StepStatus.SKIPPED
    assert result.to_json()["budget_usd"] == 1.5


async def test_nothing_that_has_started_is_lost_and_nothing_else_starts(autojump_clock: trio.testing.MockClock):
    document = flow(
        [
            *steps(1),
            {"id": "big", "type": "llm_call", "prompt": "hi", "max_tokens": 500},
            {"id": "later", "type": "llm_call", "prompt": "hi", "max_tokens": 1, "depends_on": ["s0"]},
        ],
        budget_usd=2.0,
        on_step_failure="continue",
    )
    result = await run(host_of(model(30, 30)), document)
    kept = {name: (str(each.status), each.reason) for name, each in result.step_results.items()}
    assert kept == {
        "s0": ("success", None),
        "big": ("failed", None),
        "later": ("skipped", "the budget was used up before it began"),
    }


async def test_failed_attempts_are_charged_with_what_they_may_have_cost(autojump_clock: trio.testing.MockClock):
    """A connection that drops in mid-reply may have cost all that was reserved; a server that answers 503, nothing."""
    lost = UnavailableError("dropped", provider="p", request_sent=True)
    busy = UnavailableError("busy", provider="p", status_code=503)
    again = {"retry": {"max_retries": 5, "jitter": False}}
    result = await run(host_of(model(busy, busy, 100)), flow(steps(1, **again), budget_usd=1.0))
    assert result.status is RunStatus.SUCCESS
    result = await run(host_of(model(lost, 100)), flow(steps(1, **again), budget_usd=1.9))
    assert result.status is RunStatus.BUDGET_EXCEEDED
    assert "$1 of it spent" in str(result.error)
    assert result.step_results["s0"].attempts == 2


async def test_without_max_tokens_the_reply_is_limited_to_what_the_rest_buys(autojump_clock: trio.testing.MockClock):
    seen: list[ModelRequest] = []

    async def answer(request: ModelRequest) -> Any:
        seen.append(request)
        return reply("ok", usage=written(2000))

    document = flow(steps(3, chained=True, max_tokens=None), budget_usd=50.0)
    result = await run(host_of(asked(answer, answer, answer)), document)
    assert [each.max_tokens for each in seen] == [None, 3000, 1000]
    assert result.warnings[0].message == (
        "the budget of the run has room for a reply of 3,000 tokens in s1; max_tokens is set to that"
    )


async def test_what_would_be_too_short_a_reply_is_not_asked_for(autojump_clock: trio.testing.MockClock):
    result = await run(host_of(model(1)), flow(steps(1, max_tokens=None), budget_usd=2.5))
    assert result.status is RunStatus.BUDGET_EXCEEDED
    assert "4,096 to write (assumed)" in str(result.error)


async def test_a_call_that_costs_more_than_was_reserved_ends_the_run_and_keeps_its_reply(
    autojump_clock: trio.testing.MockClock,
):
    result = await run(host_of(model(160)), flow(steps(2, chained=True), budget_usd=1.5))
    assert result.status is RunStatus.BUDGET_EXCEEDED
    assert result.error == (
        "the run has spent $1.6, which is more than its budget of $1.5: a call of s0 cost $1.6, and $1 had been "
        "reserved for it"
    )
    assert [str(each.status) for each in result.step_results.values()] == ["success", "skipped"]


async def test_a_steps_own_budget_fails_the_step_and_not_the_run_where_others_may_go_on(
    autojump_clock: trio.testing.MockClock,
):
    first, second = steps(2)
    document = flow([{**first, "budget_usd": 0.5}, second], budget_usd=5.0)
    result = await run(host_of(model(30)), document)
    assert result.status is RunStatus.FAILED
    assert str(result.error).startswith(
        "step 's0': step 's0' has a budget of $0.5, $0 of it spent; asked for: at most $1"
    )
    assert result.step_results["s1"].status is StepStatus.SUCCESS


async def test_a_steps_budget_holds_for_all_its_attempts(autojump_clock: trio.testing.MockClock):
    lost = UnavailableError("dropped", provider="p")
    (one,) = steps(1, budget_usd=2.5, retry={"max_retries": 9, "jitter": False})
    result = await run(host_of(model(*[lost] * 9)), flow([one]))
    assert result.step_results["s0"].attempts == 3
    assert "$2 of it spent" in str(result.error)


# --- prices nobody knows -------------------------------------------------------------------------------


async def test_a_model_of_unknown_price_is_refused_under_a_budget_and_the_message_says_what_to_do():
    host = host_of(model(1), prices=priced(only="other"))
    result = await run(host, flow(steps(1), budget_usd=5.0))
    assert result.status is RunStatus.FAILED
    assert result.error == (
        "step 's0': nobody knows the price of model 'scripted-1' of provider 'p', so it cannot be held to the "
        "budget of the run; add the model under prices: in treadle.yaml, or set config.unknown_price"
    )


async def test_warn_lets_it_through_uncounted_and_rates_stand_in_for_its_price(autojump_clock: trio.testing.MockClock):
    document = flow(steps(2, chained=True), budget_usd=1.5, unknown_price="warn")
    result = await run(host_of(model(60, 60), prices=priced(only="other")), document)
    assert result.status is RunStatus.SUCCESS
    assert result.total_cost_usd is None
    assert [each.message for each in result.warnings] == [
        "nobody knows the price of model 'scripted-1' of provider 'p', so the budget of the run does not count it"
    ]
    rates = {"input": 0, "output": 10_000}
    result = await run(
        host_of(model(60, 60), prices=priced(only="other")),
        flow(steps(2, chained=True), budget_usd=1.5, unknown_price=rates),
    )
    assert result.status is RunStatus.BUDGET_EXCEEDED
    assert "$1 of it spent" in str(result.error)  # what was reserved, as nobody says what it was


async def test_where_the_price_of_a_fallback_is_known_that_one_answers(autojump_clock: trio.testing.MockClock):
    spare = {"providers": {"q": {"fallback": True, "fallback_model": "known"}}}
    other = offering({"provider": {"q": model(60)}})
    host = host_of(model(), other, settings=spare, prices=priced(only="known"))
    result = await run(host, flow(steps(1), budget_usd=1.5))
    assert result.status is RunStatus.SUCCESS, result.error
    assert "nobody knows the price of model 'scripted-1'" in result.warnings[0].message


async def test_embeddings_are_held_to_the_budget_too(autojump_clock: trio.testing.MockClock):
    class Embeds(EchoProvider):
        features = replace(EchoProvider.features, embeddings=True)

        def known_cost(self, response_model: str) -> float | None:
            return None

        async def embed(self, request: treadle.EmbedRequest) -> treadle.EmbedResponse:
            return treadle.EmbedResponse(
                vectors=((0.0,),), usage=replace(Usage.ZERO, input_tokens=2), model=request.model, provider="p"
            )

    embed = {"type": "embed", "inputs": "state.text", "model": "m"}
    document = {
        **flow([{"id": "a", **embed}, {"id": "b", **embed, "depends_on": ["a"]}], budget_usd=0.04),
        "state": {"text": "words"},
    }
    result = await run(host_of(Embeds, prices=priced(read=0.01)), document)
    assert [str(each.status) for each in result.step_results.values()] == ["success", "failed"]
    assert result.status is RunStatus.BUDGET_EXCEEDED
    assert "$0.02 of it spent; asked for: at most $0.03 for a call of 'm' with about 3 tokens to read" in str(
        result.error
    )


# --- children, agents, pauses, resuming ----------------------------------------------------------------


class Child(Step):
    """Runs a workflow below."""

    document: dict[str, Any]

    async def run(self, ctx: StepContext) -> StepOutcome:
        result = await ctx.run_child(self.document)
        return StepOutcome(value=str(result.status))


class Waits(Step):
    """Pauses at once."""

    async def run(self, ctx: StepContext) -> StepOutcome:
        await trio.lowlevel.checkpoint()
        return StepOutcome(pending=(treadle.Pending(question="ok?"),))


MORE = offering({"step_type": {"child": Child, "waits": Waits}})


async def test_a_child_without_a_budget_spends_from_the_parents_and_ends_it(autojump_clock: trio.testing.MockClock):
    document = flow(
        [
            {"id": "sub", "type": "child", "document": flow(steps(2, chained=True))},
            *steps(1, depends_on=["sub"]),
        ],
        budget_usd=1.5,
    )
    result = await run(host_of(model(60, 60), MORE), document)
    assert result.status is RunStatus.BUDGET_EXCEEDED
    assert str(result.error).startswith("step 'sub': the run has a budget of $1.5, $0.6 of it spent"), result.error
    assert result.step_results["sub"].attempts == 1


async def test_a_child_with_a_budget_spends_from_both_and_its_own_end_is_the_steps_to_judge(
    autojump_clock: trio.testing.MockClock,
):
    sub = {"id": "sub", "type": "child", "output": "made", "document": flow(steps(2, chained=True), budget_usd=1.5)}
    document = flow([sub, *steps(1, depends_on=["sub"], max_tokens=60)], budget_usd=1.3)
    result = await run(host_of(model(60, 60), MORE), document)
    assert result.status is RunStatus.BUDGET_EXCEEDED
    assert "step 'sub': the run has a budget of $1.3, $0.6 of it spent" in str(result.error)
    result = await run(host_of(model(60, 60), MORE), {**document, "config": {"budget_usd": 9.0}})
    assert result.status is RunStatus.SUCCESS
    assert result.final_state["made"] == "budget_exceeded"


class Children(Step):
    """Runs a workflow below, several times at once."""

    document: dict[str, Any]
    count: int

    async def run(self, ctx: StepContext) -> StepOutcome:
        async def child(key: str) -> None:
            await ctx.run_child(self.document, key=key)

        async with trio.open_nursery() as nursery:
            for number in range(self.count):
                nursery.start_soon(child, str(number))
        return StepOutcome()


async def test_children_at_once_end_by_themselves_and_the_step_then_fails_by_the_budget_once(
    autojump_clock: trio.testing.MockClock,
):
    document = flow([{"id": "all", "type": "children", "document": flow(steps(1)), "count": 6}], budget_usd=2.5)
    result = await run(host_of(model(*[60] * 6), offering({"step_type": {"children": Children}})), document)
    assert result.status is RunStatus.BUDGET_EXCEEDED
    assert str(result.error).startswith("step 'all': the run has a budget of $2.5")
    assert result.step_results["all"].attempts == 1
    assert result.total_cost_usd == pytest.approx(1.8)


async def test_a_pause_counts_more_than_the_budget(autojump_clock: trio.testing.MockClock):
    document = flow([{"id": "gate", "type": "waits"}, *steps(1)], budget_usd=0.5)
    result = await run(host_of(model(), MORE), document)
    assert result.status is RunStatus.PAUSED
    assert "has a budget of $0.5" in str(result.error)


async def test_going_on_counts_what_was_spent_before(autojump_clock: trio.testing.MockClock):
    host, journal = host_of(model(60, 60, 60)), MemoryJournal()
    workflow = treadle.build_workflow(flow(steps(3, chained=True), budget_usd=1.5), host=host)
    async with treadle.open(host=host, journal=journal) as session:
        first = await session.run(workflow, run_id="r")
        assert first.total_cost_usd == pytest.approx(0.6)
        again = await session.resume("r")
        assert again.status is RunStatus.BUDGET_EXCEEDED
        assert "$0.6 of it spent" in str(again.error)
        more = await session.resume("r", workflow=workflow.with_config(budget_usd=2.4))
        assert more.status is RunStatus.SUCCESS
        assert more.total_cost_usd == pytest.approx(1.8)


async def test_a_call_that_was_cut_off_counts_with_what_was_reserved_for_it(autojump_clock: trio.testing.MockClock):
    scope = trio.CancelScope()

    async def cut_off(_: ModelRequest) -> Any:
        scope.cancel()
        await trio.sleep_forever()

    host, journal = host_of(asked(cut_off)), MemoryJournal()
    workflow = treadle.build_workflow(flow(steps(1), budget_usd=1.5), host=host)
    async with treadle.open(host=host, journal=journal) as session:
        with scope:
            await session.run(workflow, run_id="r")
        assert treadle.Record("r", journal.entries("r")).spent("") == pytest.approx(1.0)
        again = await session.resume("r")
    assert again.status is RunStatus.BUDGET_EXCEEDED
    assert "$1 of it spent" in str(again.error)


async def test_calls_of_agents_at_once_wait_where_together_they_could_break_max_cost_usd(
    autojump_clock: trio.testing.MockClock,
):
    """The agent asks two others at once, each $0.60; its limit of $1 has room for one at a time."""
    under_way, most = 0, 0

    async def ask(_: ModelRequest) -> Any:
        calls = [treadle.ToolCallPart(call_id=f"c{n}", tool_name=f"a{n}", arguments={"message": "hi"}) for n in (0, 1)]
        return reply("", message=AssistantMessage(parts=tuple(calls)), usage=written(1))

    async def below(_: ModelRequest) -> Any:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await trio.sleep(1)
        under_way -= 1
        return reply("fine", usage=written(10))

    others = [{"agent": {"name": f"a{n}", "max_tokens": 60}, "name": f"a{n}"} for n in (0, 1)]
    definition = {"name": "desk", "max_tokens": 60, "tools": others, "constraints": {"max_cost_usd": 1.0}}
    document = flow([{"id": "desk", "type": "agent", "agent": definition, "prompt": "hi"}])
    result = await run(host_of(asked(ask, below, below, below)), document)
    assert result.status is RunStatus.SUCCESS, result.error
    assert most == 1


def test_without_the_package_a_budget_is_refused_when_the_file_loads():
    host = Host.of({"llm": llm_call, "p": offering({"provider": {"p": model()}})}, settings=Settings(provider="p"))
    with pytest.raises(treadle.DocumentError) as caught:
        treadle.build_workflow(flow([*steps(1, budget_usd=1.0)], budget_usd=1.0), host=host)
    assert [str(each) for each in caught.value.problems] == [
        "config.budget_usd: config.budget_usd needs a budget, and none is installed",
        "steps.s0.budget_usd: budget_usd of step 's0' needs a budget, and none is installed",
    ]


async def test_a_strangers_budget_serves_in_its_place(autojump_clock: trio.testing.MockClock):
    log: list[str] = []

    class Ledger:
        def __init__(self, terms: BudgetTerms) -> None:
            log.append(f"{terms.whose}: {terms.limit_usd}")

        async def reserve(self, call: PlannedCall) -> None:
            await trio.lowlevel.checkpoint()
            log.append(f"{call.step} asks {call.provider}")

        def settle(self, call: PlannedCall) -> None:
            log.append(f"{call.step} paid {call.cost_usd:g}")

    host = host_of(model(60), offering({"budget": {"ledger": Ledger}}), settings={"roles": {"budget": "ledger"}})
    result = await run(host, flow(steps(1), budget_usd=1.0))
    assert result.ok
    assert log == ["the run: 1.0", "s0 asks p", "s0 paid 0.6"]
