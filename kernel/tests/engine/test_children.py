"""Child runs: their own state, slots and sandbox; one record, one stream of events and one bill with the parent's."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
import trio
from engine_doubles import (
    FakeSandbox,
    Recorder,
    RecordingJournal,
    act,
    asking,
    failing,
    flow,
    heard,
    host_of,
    provider_of,
    request,
    response,
    run,
    statuses,
)
from pydantic import BaseModel

import treadle
from treadle.contracts.events import ModelCallFinished, RunFinished, RunStarted, RunWarning, StepFinished, TextEmitted
from treadle.contracts.step import StepOutcome
from treadle.contracts.tool import Tool
from treadle.messages import Completed


def child_of(*steps: Any, **document: Any) -> dict[str, Any]:
    """A workflow as plain data."""
    config = {"max_retries": 0, **document.pop("config", {})}
    return {"name": "inner", "steps": list(steps), "config": config, **document}


def nesting(*steps: Any, state: Any = None, key: str = "", **document: Any) -> Any:
    """A step that runs a child and gives its result."""

    async def behave(ctx):
        result = await ctx.run_child(child_of(*steps, **document), state=state, key=key)
        return StepOutcome(value=dict(result.final_state), raw=str(result.status))

    return behave


async def test_a_child_has_a_state_of_its_own_and_the_parent_decides_what_it_keeps():
    host = host_of({"sub": nesting(act("a", value=1, output="made"), state={"given": 2}, state_schema={})})
    workflow = flow(host, act("sub", output="sub"), state={"mine": 0, "made": "untouched"})
    result = await run(workflow)
    assert result.final_state == {"mine": 0, "made": "untouched", "sub": {"given": 2, "made": 1}}


async def test_the_child_is_given_as_data_as_a_file_or_checked(tmp_path):
    file = tmp_path / "inner.yaml"
    file.write_text("name: filed\nsteps: [{id: a, type: act, value: 1, output: x}]\n", encoding="utf-8")
    names = []

    async def sub(ctx):
        data = child_of(act("a", value=1, output="x"))
        given = {"data": data, "file": file, "name": str(file), "checked": treadle.build_workflow(data, host=host)}
        for key, workflow in given.items():
            result = await ctx.run_child(workflow, key=key)
            names.append((result.run_id, result.workflow_name, result.final_state))

    host = host_of({"sub": sub})
    assert (await run(flow(host, act("sub")), run_id="r")).status == "success"
    assert names == [
        ("r.sub.data", "inner", {"x": 1}),
        ("r.sub.file", "filed", {"x": 1}),
        ("r.sub.name", "filed", {"x": 1}),
        ("r.sub.checked", "inner", {"x": 1}),
    ]


async def test_a_child_that_is_no_workflow_fails_the_step():
    host = host_of({"sub": nesting({"id": "a", "type": "nothing"})})
    result = await run(flow(host, act("sub")))
    assert result.step_results["sub"].error == "steps.a.type: no step type 'nothing'; there are act, pick"


async def test_ids_in_the_child_are_its_own_and_dotted_for_everyone_outside():
    inside = []

    async def leaf(ctx):
        inside.append((ctx.run_id, ctx.step_id))
        ctx.emit_text("hi")
        ctx.warn("mind the gap")

    observer, journal = Recorder(), RecordingJournal()
    host = host_of({"sub": nesting(act("mid")), "mid": nesting(act("leaf"), key="k"), "leaf": leaf})
    result = await run(flow(host, act("sub")), run_id="r", observers=[observer], journal=journal)
    assert inside == [("r.sub.mid.k", "leaf")]
    assert observer.told() == [
        "RunStarted",
        "StepStarted sub",
        "StepStarted sub.mid",
        "StepStarted sub.mid.k.leaf",
        "TextEmitted sub.mid.k.leaf",
        "RunWarning sub.mid.k.leaf",
        "StepFinished sub.mid.k.leaf",
        "StepFinished sub.mid",
        "StepFinished sub",
        "RunFinished",
    ]
    assert {event.run_id for event in observer.events} == {"r"}
    assert [event.result.step_id for event in heard(observer, StepFinished)] == ["sub.mid.k.leaf", "sub.mid", "sub"]
    assert result.warnings == (RunWarning(run_id="r", step_id="sub.mid.k.leaf", message="mind the gap"),)
    assert {entry.run_id for entry in journal.kept} == {"r"}
    assert journal.facts() == [
        "run_started",
        "step_started sub",
        "run_started sub",
        "step_started sub.mid",
        "run_started sub.mid.k",
        "step_started sub.mid.k.leaf",
        "step_finished sub.mid.k.leaf",
        "run_finished sub.mid.k",
        "step_finished sub.mid",
        "run_finished sub",
        "step_finished sub",
        "run_finished",
    ]


async def test_the_record_in_memory_is_not_ended_by_the_end_of_a_child():
    host = host_of({"sub": nesting(act("a"))})
    async with treadle.open(host=host) as session:
        for number in range(20):
            await session.run(flow(host, act("sub")), run_id=f"r{number}")
        assert len(list(session.journal.entries("r19"))) == 8
        assert len(list(session.journal.entries("r4"))) == 8, "the latest 16 runs are kept, children not counted"
        assert list(session.journal.entries("r3")) == []


async def test_what_a_child_spends_its_parents_spend_failed_attempts_too():
    host = host_of(
        {"sub": nesting(act("mid")), "mid": nesting(act("ask", retry={"max_retries": 1, "backoff_max": 0}))}
        | {"ask": failing_after_asking(1)},
        provider=provider_of(cost=0.5),
    )
    observer = Recorder()
    result = await run(flow(host, act("sub")), observers=[observer])
    sub = result.step_results["sub"]
    assert (sub.usage.input_tokens, sub.usage.output_tokens, sub.cost_usd) == (20, 10, 1.0)
    assert (result.total_tokens, result.total_cost_usd) == (30, 1.0)
    assert sub.model is None, "the step asked no model itself"
    assert [event.step_id for event in heard(observer, ModelCallFinished)] == ["sub.mid.ask"] * 2


def failing_after_asking(times: int) -> Any:
    ask, fail = asking(), failing(times, lambda: OSError("flaky"))

    async def behave(ctx):
        await ask(ctx)
        return await fail(ctx)

    return behave


async def test_what_a_child_spent_before_its_parent_timed_out_is_spent(autojump_clock):
    async def slow(ctx):
        await trio.sleep_forever()

    host = host_of({"sub": nesting(act("ask"), act("slow", "ask")), "ask": asking(), "slow": slow}, provider=priced())
    observer, journal = Recorder(), RecordingJournal()
    result = await run(flow(host, act("sub", timeout=5)), observers=[observer], journal=journal)
    sub = result.step_results["sub"]
    assert (sub.status, sub.error, sub.cost_usd) == ("timeout", "timed out after 5 s", 0.25)
    finished = {event.step_id: event.result for event in heard(observer, StepFinished)}
    assert {step: str(each.status) for step, each in finished.items()} == {
        "sub.ask": "success",
        "sub.slow": "cancelled",
        "sub": "timeout",
    }
    assert finished["sub.slow"].error == "step 'sub', which ran this workflow, was ended"
    assert journal.facts()[-3:] == ["step_finished sub.slow", "step_finished sub", "run_finished"]


def priced() -> Any:
    async def answer(request):
        yield Completed(replace(response(), cost_usd=0.25))

    return provider_of(answer, cost=0.25)


async def test_a_child_that_fails_is_a_result_and_the_step_decides():
    async def lenient(ctx):
        result = await ctx.run_child(child_of(act("bad")))
        return f"{result.status}: {result.error}"

    async def strict(ctx):
        result = await ctx.run_child(child_of(act("bad")))
        if not result.ok:
            raise treadle.StepError(result.error or "")

    host = host_of({"lenient": lenient, "strict": strict, "bad": failing(9, lambda: ValueError("no"))})
    result = await run(flow(host, act("lenient", output="x"), act("strict")))
    assert result.final_state == {"x": "failed: step 'bad': ValueError: no"}
    assert statuses(result) == {"lenient": "success", "strict": "failed"}


async def test_a_childs_time_limit_ends_the_child_alone(autojump_clock):
    async def slow(ctx):
        await trio.sleep_forever()

    host = host_of({"sub": nesting(act("slow"), config={"timeout": 3}), "slow": slow})
    result = await run(flow(host, act("sub")))
    assert result.status == "success"
    assert result.step_results["sub"].output == "timeout"


@pytest.mark.parametrize("key", ["a b", "é/", "../x", "{"])
async def test_a_key_names_a_child(key):
    host = host_of({"sub": nesting(act("a"), key=key)})
    result = await run(flow(host, act("sub")))
    assert result.step_results["sub"].error == (
        f"ValueError: {key!r} cannot be the key of a child run; use letters, digits, '_', '.' and '-'"
    )


async def test_a_key_is_used_once_an_attempt():
    async def twice(ctx):
        await ctx.run_child(child_of(act("a")), key="k")
        await ctx.run_child(child_of(act("a")), key="k")

    host = host_of({"sub": twice})
    result = await run(flow(host, act("sub")))
    assert result.step_results["sub"].error == (
        "ValueError: this attempt has run a child with the key 'k'; give each child a key of its own"
    )


async def test_the_next_attempt_runs_the_child_again_under_the_same_id_and_says_which_attempt():
    seen = []

    async def sub(ctx):
        seen.append((await ctx.run_child(child_of(act("a")))).run_id)
        if ctx.attempt == 1:
            raise OSError("flaky")

    host, journal = host_of({"sub": sub}), RecordingJournal()
    workflow = flow(host, act("sub", retry={"max_retries": 1, "backoff_max": 0}))
    assert (await run(workflow, run_id="r", journal=journal)).status == "success"
    assert seen == ["r.sub", "r.sub"]
    edges = [(each.kind, each.attempt) for each in journal.kept if each.step == "sub" and each.kind.startswith("run_")]
    assert edges == [("run_started", 1), ("run_finished", 1), ("run_started", 2), ("run_finished", 2)]


# --- slots ----------------------------------------------------------------------------------------


async def test_a_parent_holds_no_slot_while_its_child_runs_and_takes_one_again(autojump_clock):
    log: list[str] = []

    def noting(name: str, seconds: float) -> Any:
        async def behave(ctx):
            log.append(f"{name} begins")
            await trio.sleep(seconds)
            log.append(f"{name} ends")

        return behave

    async def sub(ctx):
        log.append("sub begins")
        await ctx.run_child(child_of(act("inner")))
        log.append("sub is back")

    host = host_of({"sub": sub, "inner": noting("inner", 2), "b": noting("b", 5), "c": noting("c", 1)})
    result = await run(flow(host, act("sub"), act("b"), act("c"), config={"max_concurrent_steps": 1}))
    assert result.status == "success"
    assert log == [
        "sub begins",
        *sorted(["b begins", "inner begins"], key=log.index),
        "inner ends",
        "b ends",
        "sub is back",  # before c, which has not started
        "c begins",
        "c ends",
    ]


async def test_never_more_steps_at_work_than_allowed_whatever_their_children_do(autojump_clock):
    at_work, most = 0, 0

    async def work(seconds):
        nonlocal at_work, most
        at_work += 1
        most = max(most, at_work)
        await trio.sleep(seconds)
        at_work -= 1

    async def parent(ctx):
        await work(1)
        for key in "ab":
            await ctx.run_child(child_of(act("inner")), key=key)
            await work(1)

    async def inner(ctx):
        await trio.sleep(int(ctx.run_id[-3]) % 3)

    ids = [f"p{number}" for number in range(9)]
    host = host_of({**dict.fromkeys(ids, parent), "inner": inner})
    result = await run(flow(host, *map(act, ids), config={"max_concurrent_steps": 2}))
    assert result.status == "success"
    assert most == 2


async def test_children_side_by_side_in_one_step(autojump_clock):
    results = {}

    async def each(ctx):
        async def one(key):
            results[key] = await ctx.run_child(child_of(act("nap")), key=key)

        async with trio.open_nursery() as nursery:
            for key in ("0", "1", "2"):
                nursery.start_soon(one, key)

    async def nap(ctx):
        await trio.sleep(1)

    host = host_of({"each": each, "nap": nap})
    workflow = flow(host, act("each"), act("other"), act("last", "each"), config={"max_concurrent_steps": 1})
    result = await run(workflow, run_id="r")
    assert result.status == "success"
    assert result.total_duration_ms == pytest.approx(1000)
    assert {key: each.run_id for key, each in results.items()} == {key: f"r.each.{key}" for key in "012"}


async def test_an_attempt_that_times_out_in_its_child_waits_for_a_slot_before_the_next(autojump_clock):
    at_work: list[str] = []

    async def sub(ctx):
        assert not at_work
        if ctx.attempt == 1:
            await ctx.run_child(child_of(act("forever")))

    async def forever(ctx):
        await trio.sleep_forever()

    async def busy(ctx):
        at_work.append("busy")
        await trio.sleep(60)
        at_work.clear()

    host = host_of({"sub": sub, "busy": busy, "forever": forever})
    workflow = flow(
        host,
        act("sub", timeout=1, retry={"max_retries": 1, "jitter": False}),
        act("busy"),
        config={"max_concurrent_steps": 1},
    )
    assert statuses(await run(workflow)) == {"sub": "success", "busy": "success"}


async def test_a_step_that_is_ended_while_it_waits_for_its_slot_leaves_the_queue(autojump_clock):
    async def sub(ctx):
        await ctx.run_child(child_of(act("quick")))

    async def busy(ctx):
        await trio.sleep(60)

    host = host_of({"sub": sub, "busy": busy})
    workflow = flow(host, act("sub", timeout=1), act("busy"), act("after", "busy"), config={"max_concurrent_steps": 1})
    assert statuses(await run(workflow)) == {"sub": "timeout", "busy": "success", "after": "success"}


# --- depth and ends -------------------------------------------------------------------------------

DEPTH = 300


def nested() -> Any:
    """`sub` runs a child of `sub` and a sibling, so many levels deep; at the bottom is one step."""
    level = [0]

    async def sub(ctx):
        level[0] += 1
        if level[0] == DEPTH:
            result = await ctx.run_child(child_of(act("bottom")))
        else:
            # A child of two steps, so that whatever ends them comes in groups.
            result = await ctx.run_child(child_of(act("sub"), act("beside"), config={"max_concurrent_steps": 2}))
        if result.status == "failed":
            raise treadle.StepError((result.error or "")[-40:])
        return str(result.status)

    return sub


async def test_three_hundred_levels():
    observer = Recorder()
    host = host_of({"sub": nested(), "bottom": asking()}, provider=provider_of(cost=0.5))
    workflow = flow(host, act("sub"), config={"max_concurrent_steps": 1})
    result = await run(workflow, run_id="r", observers=[observer])
    assert (result.status, result.total_cost_usd) == ("success", 0.5)
    deepest = max((event.step_id for event in heard(observer, StepFinished)), key=len)
    assert deepest == "sub." * DEPTH + "bottom"


async def test_three_hundred_levels_that_fail():
    host = host_of({"sub": nested(), "bottom": failing(1, lambda: ValueError("the bottom"))})
    result = await run(flow(host, act("sub")))
    assert result.status == "failed"
    assert (result.error or "").endswith("ValueError: the bottom")


@pytest.mark.parametrize("how", ["run", "scope", "step"])
async def test_three_hundred_levels_that_are_cancelled(how, autojump_clock):
    async def forever(ctx):
        await trio.sleep_forever()

    observer, journal = Recorder(), RecordingJournal()
    host = host_of({"sub": nested(), "bottom": forever, "beside": forever})
    before = trio.lowlevel.current_statistics().tasks_living
    workflow = flow(host, act("sub", **({"timeout": 5} if how == "step" else {})))
    with trio.move_on_after(5 if how == "scope" else 100) as scope:
        async with treadle.open(host=host, journal=journal) as session, trio.open_nursery() as nursery:
            going = session.start(workflow, observers=[observer])
            if how == "run":

                @nursery.start_soon
                async def cancel():
                    await trio.sleep(5)
                    going.cancel("enough")

            result = await going.execute()
    assert scope.cancelled_caught == (how == "scope")
    if how != "scope":
        assert statuses(result) == {"sub": "cancelled" if how == "run" else "timeout"}
    finished = [
        entry.data["result"].status for entry in journal.kept if entry.kind == "step_finished" and "." in entry.step
    ]
    assert finished == ["cancelled"] * (2 * DEPTH - 1), "the record says of each what became of it"
    if how != "scope":  # which ends the observers too
        assert len(heard(observer, StepFinished)) == 2 * DEPTH
    assert trio.lowlevel.current_statistics().tasks_living == before


async def test_a_step_that_is_ended_with_its_child_sees_one_cancellation(autojump_clock):
    seen: list[str] = []

    async def sub(ctx):
        try:
            await ctx.run_child(child_of(act("one"), act("two")))
        except BaseException as error:
            seen.append(type(error).__name__)
            raise

    async def forever(ctx):
        await trio.sleep_forever()

    host = host_of({"sub": sub, "one": forever, "two": forever})
    assert statuses(await run(flow(host, act("sub", timeout=1)))) == {"sub": "timeout"}
    assert seen == ["Cancelled"]


async def test_a_record_that_cannot_be_kept_in_a_child_ends_the_outermost_run_though_the_step_catches_it():
    async def sub(ctx):
        try:
            await ctx.run_child(child_of(act("a"), act("b", "a")))
        except OSError:
            return "never mind"

    journal = RecordingJournal(lambda entry: entry.step == "sub.b")
    host = host_of({"sub": sub})
    with pytest.raises(OSError, match="No space left"):
        await run(flow(host, act("sub")), journal=journal)
    assert journal.facts()[-1] == "step_finished sub.a"


async def test_an_observer_that_fails_in_a_child_is_named_once():
    class Frail:
        async def observe(self, event):
            if isinstance(event, TextEmitted):
                raise ValueError("too much")

    async def talk(ctx):
        ctx.emit_text("hi")

    recorder, host = Recorder(), host_of({"sub": nesting(act("talk")), "talk": talk})
    await run(flow(host, act("sub")), observers=[Frail(), recorder])
    (warning,) = heard(recorder, RunWarning)
    assert (warning.step_id, warning.message.split(" and ")[0]) == (None, "observer Frail failed")
    assert len(heard(recorder, RunStarted)) == len(heard(recorder, RunFinished)) == 1


async def test_nothing_is_left_behind_however_children_end(autojump_clock):
    async def forever(ctx):
        await trio.sleep_forever()

    async def gate(ctx):
        return StepOutcome(pending=(treadle.Pending(question="?"),))

    behaviours = {"ok": nesting(act("leaf")), "bad": nesting(act("fails")), "waits": nesting(act("gate"))}
    behaviours |= {"slow": nesting(act("forever"), act("leaf")), "forever": forever, "gate": gate}
    behaviours["fails"] = failing(99, lambda: ValueError("no"))
    host = host_of(behaviours, sandbox=type("Box", (Box,), {"log": [], "made": []}))
    before = trio.lowlevel.current_statistics().tasks_living
    for _ in range(3):
        async with treadle.open(host=host) as session:
            assert (await session.run(flow(host, act("ok")), on_event=lambda event: None)).status == "success"
            assert (await session.run(flow(host, act("bad")))).step_results["bad"].output == "failed"
            assert (await session.run(flow(host, act("waits")))).status == "paused"
            assert (await session.run(flow(host, act("slow", timeout=1)))).status == "failed"
            assert (await session.run(flow(host, act("slow"), config={"timeout": 1}))).status == "timeout"
            with trio.move_on_after(1):
                await session.run(flow(host, act("slow"), act("ok")))
        assert trio.lowlevel.current_statistics().tasks_living == before


# --- sandboxes ------------------------------------------------------------------------------------


class Limits(BaseModel):
    """A block whose combination keeps what both allow."""

    allow: tuple[str, ...] = ("a", "b", "c")


class Box(FakeSandbox):
    block_model = Limits
    log: ClassVar[list[str]] = []
    made: ClassVar[list[tuple[str, ...]]] = []

    def __init__(self, block: BaseModel, base: Path) -> None:
        super().__init__(block, base)
        assert isinstance(block, Limits)
        self.made.append(block.allow)

    @classmethod
    def combine(cls, parent: BaseModel, child: BaseModel) -> BaseModel:
        assert isinstance(parent, Limits)
        assert isinstance(child, Limits)
        return Limits(allow=tuple(each for each in parent.allow if each in child.allow))


class Touch(Tool):
    name = "touch"

    async def call(self, arguments: Any, context: Any) -> Any:
        return list(context.sandbox.block.allow)


async def test_a_childs_sandbox_allows_what_every_run_around_it_allows_too():
    async def touch(ctx):
        return await ctx.call_tool("touch", {})

    box = type("Box", (Box,), {"log": [], "made": []})
    inner = child_of(act("leaf", output="leaf"), config={"sandbox": {"allow": ["b", "c", "d"]}})

    async def mid(ctx):
        return dict((await ctx.run_child(inner)).final_state)

    host = host_of(
        {"sub": nesting(act("mid", output="mid")), "mid": mid, "leaf": touch},
        tools={"touch": Touch},
        sandbox=box,
    )
    workflow = flow(host, act("sub", output="sub"), config={"sandbox": {"allow": ["a", "b", "x"]}})
    result = await run(workflow)
    assert result.final_state == {"sub": {"mid": {"leaf": ["b"]}}}
    assert box.made == [("b",)], "the outer runs called no tool"
    assert [each.split()[0] for each in box.log] == ["opened", "closed"]


async def test_a_parent_that_has_used_its_sandbox_gives_the_child_the_same_limits():
    async def sub(ctx):
        first = await ctx.call_tool("touch", {})
        child = await ctx.run_child(child_of(act("leaf", output="leaf")))
        return [first, child.final_state["leaf"]]

    async def touch(ctx):
        return await ctx.call_tool("touch", {})

    box = type("Box", (Box,), {"log": [], "made": []})
    host = host_of({"sub": sub, "leaf": touch}, tools={"touch": Touch}, sandbox=box)
    result = await run(flow(host, act("sub", output="x"), config={"sandbox": {"allow": ["c"]}}))
    assert result.final_state == {"x": [["c"], ["c"]]}


async def test_requests_of_a_child_go_out_under_its_own_config():
    provider = provider_of()

    async def ask(ctx):
        return (await ctx.complete(request(model=ctx.config.model))).text

    host = host_of({"sub": nesting(act("ask"), config={"model": "inner-model"}), "ask": ask}, provider=provider)
    result = await run(flow(host, act("sub"), config={"model": "outer-model"}))
    assert result.status == "success"
    assert [each.model for each in provider.requests] == ["inner-model"]
