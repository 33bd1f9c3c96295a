"""Pausing: a step says what it waits for; what does not come after it goes on, and then the run ends, paused."""

from __future__ import annotations

import json
from typing import Any

import pytest
import trio
from engine_doubles import (
    Recorder,
    RecordingJournal,
    act,
    chain,
    failing,
    flow,
    heard,
    host_of,
    provider_of,
    request,
    run,
    statuses,
)

import treadle
from treadle import Pending, StepOutcome, Usage
from treadle.contracts.events import RunFinished, StepFinished, StepStarted


def pausing(*questions: str, **outcome: Any) -> Any:
    """A step that asks these questions."""

    async def behave(ctx):
        return StepOutcome(pending=tuple(Pending(question=each) for each in questions), **outcome)

    return behave


async def test_a_paused_step_says_what_it_waits_for_and_the_run_is_paused():
    observer, journal = Recorder(), RecordingJournal()

    async def gate(ctx):
        asks = Pending(question="Ship it?", choices=("yes", "no"), details={"to": "ann"})
        call = Pending(question="Was it sent?", choices=("done", "not-done"), call_id="c1", tool_name="send")
        return StepOutcome(pending=(asks, call))

    workflow = flow(host_of({"gate": gate}), act("gate", output="x"), act("after", "gate"), act("last", "after"))
    result = await run(workflow, observers=[observer], journal=journal)
    assert (result.status, result.error, result.ok) == ("paused", None, True)
    assert statuses(result) == {"gate": "paused", "after": "pending", "last": "pending"}
    assert result.to_json()["pending"] == [each.to_json() for each in result.pending]
    assert result.step_results["after"].reason == "it comes after a step that is paused"
    assert result.final_state == {}
    first, second = result.pending
    assert (first.step_id, first.question, first.choices) == ("gate", "Ship it?", ("yes", "no"))
    assert (second.step_id, second.call_id, second.tool_name) == ("gate", "c1", "send")
    paused = result.step_results["gate"]
    assert (paused.error, paused.attempts, paused.pending) == (None, 1, (first, second))
    assert json.loads(json.dumps(result.to_json()))["step_results"]["gate"]["pending"] == [
        {
            "step_id": "gate",
            "gate": "gate",
            "question": "Ship it?",
            "choices": ["yes", "no"],
            "name": "",
            "timeout": None,
            "default": None,
            "deadline": None,
            "call_id": None,
            "tool_name": None,
            "details": {"to": "ann"},
        },
        {
            "step_id": "gate",
            "gate": None,
            "question": "Was it sent?",
            "choices": ["done", "not-done"],
            "name": "",
            "timeout": None,
            "default": None,
            "deadline": None,
            "call_id": "c1",
            "tool_name": "send",
            "details": {},
        },
    ]
    assert journal.facts() == ["run_started", "step_started gate", "step_finished gate", "run_finished"]
    assert journal.kept[2].data["result"] == paused
    assert [event.step_id for event in heard(observer, StepStarted)] == ["gate"]
    assert [event.result for event in heard(observer, StepFinished)] == [paused]
    assert heard(observer, RunFinished)[0].result == result


async def test_siblings_finish_and_other_branches_go_on_to_their_end(autojump_clock):
    async def slow(ctx):
        await trio.sleep(5)

    host = host_of({"gate": pausing("?"), "slow": slow})
    steps = [act("gate"), act("slow", value=1), act("next", "slow", value=2, output="y"), act("join", "next", "gate")]
    result = await run(flow(host, *steps))
    assert statuses(result) == {"gate": "paused", "slow": "success", "next": "success", "join": "pending"}
    assert result.final_state == {"y": 2}
    assert result.status == "paused"


async def test_a_pause_gives_its_slot_to_the_next_step():
    host = host_of({"s1": pausing("?")})
    result = await run(flow(host, act("s1"), act("s2"), act("s3"), config={"max_concurrent_steps": 1}))
    assert statuses(result) == {"s1": "paused", "s2": "success", "s3": "success"}


async def test_several_steps_pause_and_each_says_why():
    host = host_of({"a": pausing("one?"), "c": pausing("two?", "three?")})
    result = await run(flow(host, act("a"), act("b"), act("c", "b")))
    assert [(each.step_id, each.question) for each in result.pending] == [
        ("a", "one?"),
        ("c", "two?"),
        ("c", "three?"),
    ]


async def test_nothing_a_pausing_step_made_is_kept_but_its_cost_is():
    outcome = {"value": 1, "writes": {"y": 2}, "usage": Usage(input_tokens=3, output_tokens=4), "cost_usd": 0.5}
    result = await run(flow(host_of({"a": pausing("?", **outcome)}), act("a", output="x")))
    assert result.final_state == {}
    step = result.step_results["a"]
    assert (step.output, step.usage.input_tokens, step.cost_usd) == (None, 3, 0.5)
    assert (result.total_tokens, result.total_cost_usd) == (7, 0.5)


async def test_a_pause_is_no_failure_and_not_tried_again():
    host = host_of({"a": pausing("?")})
    workflow = flow(host, act("a", retry={"max_retries": 3}), config={"on_step_failure": "continue"})
    result = await run(workflow)
    assert result.step_results["a"].attempts == 1
    assert result.status == "paused"


async def test_a_step_that_pauses_in_a_later_attempt():
    fail = failing(1, lambda: OSError("flaky"))

    async def gate(ctx):
        await fail(ctx)
        return StepOutcome(pending=(Pending(question="?"),))

    result = await run(flow(host_of({"gate": gate}), act("gate", retry={"max_retries": 1, "backoff_max": 0})))
    assert (result.status, result.step_results["gate"].attempts) == ("paused", 2)


async def test_a_run_with_a_failed_and_a_paused_step_is_paused_and_names_the_failure():
    host = host_of({"gate": pausing("?"), "bad": failing(1, lambda: ValueError("no"))})
    result = await run(flow(host, act("gate"), act("bad"), act("after", "bad"), act("both", "bad", "gate")))
    assert (result.status, result.error) == ("paused", "step 'bad': ValueError: no")
    assert statuses(result) == {"gate": "paused", "bad": "failed", "after": "skipped", "both": "pending"}


async def test_a_run_whose_time_runs_out_beside_a_pause_timed_out(autojump_clock):
    async def slow(ctx):
        await trio.sleep_forever()

    host = host_of({"gate": pausing("?"), "slow": slow})
    result = await run(flow(host, act("gate"), act("slow"), act("after", "gate"), config={"timeout": 2}))
    assert statuses(result) == {"gate": "paused", "slow": "cancelled", "after": "skipped"}
    assert result.status == "timeout"
    assert [each.step_id for each in result.pending] == ["gate"]


async def test_a_cancel_that_comes_when_nothing_runs_beside_a_pause_changes_nothing():
    going: Any = None

    async def gate(ctx):
        going.cancel("too late")
        return StepOutcome(pending=(Pending(question="?"),))

    async with treadle.open(host=host_of({"gate": gate})) as session:
        going = session.start(flow(session.host, act("gate"), act("after", "gate")))
        result = await going.execute()
    assert (result.status, result.error) == ("paused", None)
    assert statuses(result) == {"gate": "paused", "after": "pending"}


async def test_what_is_no_pending_thing_fails_the_step():
    async def wrong(ctx):
        return StepOutcome(pending=("really?",))  # type: ignore[arg-type]

    result = await run(flow(host_of({"a": wrong}), act("a")))
    assert (result.status, result.step_results["a"].error) == (
        "failed",
        "TypeError: what a step of type 'act' waits for must be Pending, not str",
    )


# --- in children ----------------------------------------------------------------------------------


def inner(*steps: Any) -> dict[str, Any]:
    return {"name": "inner", "steps": list(steps), "config": {"max_retries": 0}}


async def test_a_paused_child_pauses_its_parents_under_dotted_ids():
    seen = []

    async def sub(ctx):
        result = await ctx.run_child(inner(act("mid"), act("beside", value=1, output="x")))
        seen.append((result.status, result.pending[0].step_id))
        return dict(result.final_state)

    async def mid(ctx):
        return (await ctx.run_child(inner(act("gate")), key="k")).final_state

    observer, journal = Recorder(), RecordingJournal()
    host = host_of({"sub": sub, "mid": mid, "gate": pausing("Ship it?")})
    result = await run(flow(host, act("sub", output="out"), act("after", "sub")), observers=[observer], journal=journal)
    assert result.status == "paused"
    assert statuses(result) == {"sub": "paused", "after": "pending"}
    assert [(each.step_id, each.question) for each in result.pending] == [("sub.mid.k.gate", "Ship it?")]
    assert seen == [("paused", "mid.k.gate")]
    assert result.final_state == {}, "what the parent made of half a child is not kept"
    finished = {event.step_id: str(event.result.status) for event in heard(observer, StepFinished)}
    assert finished == {"sub.mid.k.gate": "paused", "sub.mid": "paused", "sub.beside": "success", "sub": "paused"}
    waiting = {
        event.step_id: [each.step_id for each in event.result.pending] for event in heard(observer, StepFinished)
    }
    assert waiting == {
        "sub.mid.k.gate": ["sub.mid.k.gate"], "sub.mid": ["sub.mid.k.gate"], "sub.beside": [], "sub": ["sub.mid.k.gate"]
    }  # fmt: skip
    kept = {entry.step: entry.data["result"].status for entry in journal.kept if entry.kind == "step_finished"}
    assert kept == finished


async def test_children_side_by_side_all_run_on_though_one_pauses(autojump_clock):
    async def each(ctx):
        async def one(key):
            await ctx.run_child(inner(act("item", value=key)), key=key)

        async with trio.open_nursery() as nursery:
            for key in ("0", "1", "2"):
                nursery.start_soon(one, key)

    ended = []

    async def item(ctx):
        number = int(ctx.run_id[-1])
        await trio.sleep(number)
        ended.append(number)
        return StepOutcome(pending=(Pending(question="?"),) if number < 2 else ())

    result = await run(flow(host_of({"each": each, "item": item}), act("each")))
    assert ended == [0, 1, 2]
    assert [each.step_id for each in result.pending] == ["each.0.item", "each.1.item"]


async def test_a_step_that_fails_after_its_child_paused_has_failed():
    async def sub(ctx):
        await ctx.run_child(inner(act("gate")))
        raise treadle.StepError("cannot wait")

    result = await run(flow(host_of({"sub": sub, "gate": pausing("?")}), act("sub")))
    assert (result.status, result.error) == ("failed", "step 'sub': cannot wait")
    assert result.pending == ()


async def test_a_pause_of_the_next_attempt_is_that_attempts():
    async def sub(ctx):
        if ctx.attempt == 1:
            await ctx.run_child(inner(act("gate")))
            raise OSError("flaky")
        return "done"

    host = host_of({"sub": sub, "gate": pausing("?")})
    result = await run(flow(host, act("sub", retry={"max_retries": 1, "backoff_max": 0})))
    assert result.status == "success"


async def test_a_parents_own_questions_come_before_its_childrens():
    async def sub(ctx):
        await ctx.run_child(inner(act("gate")))
        return StepOutcome(pending=(Pending(question="mine?"),))

    result = await run(flow(host_of({"sub": sub, "gate": pausing("?")}), act("sub")))
    assert [(each.step_id, each.question) for each in result.pending] == [("sub", "mine?"), ("sub.gate", "?")]


@pytest.mark.parametrize("count", [1, 200])
async def test_a_chain_behind_a_pause_is_pending_to_its_end(count):
    result = await run(flow(host_of({"s0": pausing("?")}), *chain(count + 1)))
    assert list(statuses(result).values()) == ["paused"] + ["pending"] * count


async def test_a_model_call_before_the_pause_is_counted():
    async def gate(ctx):
        await ctx.complete(request())
        return StepOutcome(pending=(Pending(question="?"),))

    result = await run(flow(host_of({"gate": gate}, provider=provider_of(cost=0.5)), act("gate")))
    step = result.step_results["gate"]
    assert (step.status, step.model, step.finish_reason, step.cost_usd) == ("paused", "double-1", "stop", 0.5)
