"""A fork begins in the middle of another run: what stands before is kept, what comes after runs anew."""

from __future__ import annotations

import re
from typing import Any

import pytest
from engine_doubles import act, flow, host_of

import treadle
from treadle import ConfigurationError
from treadle.testing import MemoryJournal

STEPS = [
    act("a", output="notes.a"),
    act("side", output="side"),
    act("b", "a", output="draft"),
    act("c", "b", output="done"),
]


def tell(what: str, ran: list[str]) -> Any:
    async def behave(ctx):
        ran.append(what)
        return f"{what}{len(ran)} saw {dict(ctx.state)}"

    return behave


@pytest.fixture
def ran() -> list[str]:
    return []


@pytest.fixture
def host(ran) -> Any:
    return host_of({name: tell(name, ran) for name in ("a", "side", "b", "c")})


async def test_the_step_and_what_comes_after_it_run_anew_and_the_rest_is_kept(host, ran):
    workflow = flow(host, *STEPS, state={"topic": "tides"})
    async with treadle.open(host=host, journal=MemoryJournal()) as session:
        first = await session.run(workflow)
        ran.clear()
        second = await session.fork(first.run_id, at="b", state={"topic": "wind"})
        assert sorted(ran) == ["b", "c"]
        assert second.status == "success"
        assert second.run_id != first.run_id
        assert second.final_state["side"] == first.final_state["side"]
        assert second.final_state["topic"] == "wind"
        assert "'topic': 'wind'" in second.final_state["draft"]
        kept = list(session.journal.entries(first.run_id))
        ran.clear()
        third = await session.fork(second.run_id, at="c")
        assert (ran, third.final_state["draft"]) == (["c"], second.final_state["draft"])
        assert kept == list(session.journal.entries(first.run_id)), "the other run is not changed"


async def test_a_value_that_is_given_wins_over_what_kept_steps_wrote(host, ran):
    async with treadle.open(host=host, journal=MemoryJournal()) as session:
        first = await session.run(flow(host, *STEPS))
        record = treadle.Record(first.run_id, session.journal.entries(first.run_id))
        seen = record.state_before(flow(host, *STEPS), "c")
        assert seen.keys() == {"notes", "draft"}, "what is parallel to it is not seen"
        forked = await session.fork(first.run_id, at="c", state={"draft": "mine", "notes": {"a": 1}})
        assert forked.final_state["draft"] == "mine"
        assert forked.final_state["notes"] == {"a": 1}
        assert forked.step_results["b"].output == first.step_results["b"].output


async def test_a_fork_that_was_cut_short_goes_on_with_what_was_given(ran):
    broken = [True]

    async def breaks(ctx):
        if broken:
            raise treadle.StepError("no", transient=False)
        return ctx.state["notes"]

    host = host_of({"a": tell("a", ran), "b": breaks})
    workflow = flow(host, act("a", output="notes"), act("b", "a", output="draft"))
    async with treadle.open(host=host, journal=MemoryJournal()) as session:
        first = await session.run(workflow)
        forked = await session.fork(first.run_id, at="b", state={"notes": "mine"})
        assert (first.status, forked.status) == ("failed", "failed")
        broken.clear()
        assert (await session.resume(forked.run_id)).final_state["draft"] == "mine"
        assert ran == ["a"]


@pytest.mark.parametrize(
    ("at", "error"),
    [
        ("B", "has no step 'B'; did you mean 'b'?"),
        ("b.inner", "has no step 'b.inner'; a run is forked at one of its own steps, not inside one; fork at 'b'"),
        ("zzzz", "has no step 'zzzz'; it has: a, side, b, c"),
    ],
)
async def test_a_step_that_is_not_there_is_named(host, at, error):
    async with treadle.open(host=host, journal=MemoryJournal()) as session:
        first = await session.run(flow(host, *STEPS), run_id="r")
        with pytest.raises(ConfigurationError, match=f"^run r {re.escape(error)}$"):
            await session.fork(first.run_id, at=at)
