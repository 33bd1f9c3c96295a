"""Order-only edges: a step starts after another, sees what it wrote, and cares for nothing else about it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import trio
import trio.testing
from engine_doubles import act, flow, host_of, pick, run, statuses
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import treadle
from treadle._plugins import Host
from treadle.contracts.step import Step, StepContext, StepOutcome
from treadle.fields import Template
from treadle.testing import offering


async def test_a_step_after_another_starts_when_it_has_ended_and_sees_its_writes_and_those_before_it():
    seen: dict[str, Any] = {}

    async def slow(ctx):
        await trio.sleep(0.01)
        return "late"

    async def look(ctx):
        seen.update(ctx.state)
        seen["status"] = ctx.state["steps"]["writer"]["status"]

    host = host_of({"writer": slow, "reader": look})
    steps = [act("first", value=1, output="one"), act("writer", "first", output="key"), act("reader")]
    workflow = replace(flow(host, *steps), order=(("writer", "reader"),))
    await run(workflow)
    assert seen == {"one": 1, "key": "late", "status": "success"}


async def test_what_comes_after_the_reader_sees_it_too():
    seen: list[Any] = []

    async def look(ctx):
        seen.append(dict(ctx.state))

    steps = [act("writer", value=1, output="key"), act("reader"), act("last", "reader")]
    await run(replace(flow(host_of({"last": look}), *steps), order=(("writer", "reader"),)))
    assert seen == [{"key": 1}]


async def test_a_step_runs_after_one_that_failed_and_after_one_that_was_skipped():
    async def broken(ctx):
        raise ValueError("no")

    steps = [
        act("bad"),
        act("behind", "bad"),
        pick("choose", choices=["left", "right"], take=["left"]),
        act("left", "choose"),
        act("right", "choose"),
        act("a"),
        act("b"),
        act("c"),
    ]
    order = (("bad", "a"), ("behind", "b"), ("right", "c"))
    result = await run(replace(flow(host_of({"bad": broken}), *steps), order=order))
    assert statuses(result) == {
        "bad": "failed", "behind": "skipped", "choose": "success", "left": "success", "right": "skipped",
        "a": "success", "b": "success", "c": "success",
    }  # fmt: skip


async def test_an_order_only_edge_excuses_nothing():
    """Behind the branch not taken, only a dependency on the branch taken lets a join run."""
    steps = [
        pick("choose", choices=["left", "right"], take=["left"]),
        act("left", "choose"),
        act("right", "choose"),
        act("join", "right"),
    ]
    result = await run(replace(flow(host_of(), *steps), order=(("left", "join"),)))
    assert statuses(result)["join"] == "skipped"


async def test_an_edge_beside_a_dependency_and_one_given_twice_are_one():
    steps = [act("a", value=1, output="k"), act("b", "a"), act("c")]
    order = (("a", "b"), ("a", "c"), ("a", "c"))
    assert statuses(await run(replace(flow(host_of(), *steps), order=order))) == dict.fromkeys("abc", "success")


# --- files written for layers ---------------------------------------------------------------------


class Look(Step):
    """Takes its time, reads, and writes its own name; notes what it read."""

    text: Template
    seconds: float = 0.0

    async def run(self, ctx: StepContext) -> StepOutcome:
        read = ctx.render(self.text)
        await trio.sleep(self.seconds)
        return StepOutcome(value=self.id, raw=read)


_PATHS = ["k", "k.a", "k.b", "l", "l.a", "m"]
HOST = Host.of({"lab": offering({"step_type": {"look": Look}})})


@st.composite
def documents(draw: st.DrawFn) -> list[dict[str, Any]]:
    count = draw(st.integers(2, 9))
    steps: list[dict[str, Any]] = []
    for number in range(count):
        before = [step["id"] for step in steps]
        read, written = draw(st.sampled_from(_PATHS)), draw(st.sampled_from([*_PATHS, None]))
        depends_on = draw(st.sets(st.sampled_from(before), max_size=2)) if before else set()
        steps.append(
            {
                "id": f"s{number}",
                "type": "look",
                "depends_on": sorted(depends_on),
                "text": f"{{state.{read}}}",
                "seconds": draw(st.integers(0, 5)),
                **({"output": written} if written else {}),
            }
        )
    return draw(st.permutations(steps))


def layers_of(steps: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    done: set[str] = set()
    while len(done) < len(steps):
        layer = [each for each in steps if each["id"] not in done and done.issuperset(each["depends_on"])]
        yield layer
        done.update(each["id"] for each in layer)


def read_by_layers(steps: list[dict[str, Any]], state: Mapping[str, Any]) -> dict[str, str]:
    """What each step reads where a layer starts when the one before it has ended, and every write is seen."""
    from treadle._language import MISSING, StatePath, assign

    now, read = dict(state), {}
    for layer in layers_of(steps):
        read.update({each["id"]: Template.compile(each["text"]).render(dict(now)) for each in layer})
        for each in layer:
            if "output" in each:
                path = StatePath.parse(each["output"])
                now[path.root] = assign(now.get(path.root, MISSING), path, each["id"])
    return read


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
@given(steps=documents(), state=st.sampled_from([{}, {"k": {"a": "A"}, "m": "M"}]))
def test_a_file_written_for_layers_reads_what_it_read_there(steps, state):
    """Wherever that is certain: not of a path that steps share which may run at the same time, and not of what a step
    of the same layer writes."""
    document = {"name": "x", "state": state, "config": {"max_retries": 0}, "steps": steps}
    workflow = treadle.build_workflow(document, host=HOST)
    codes = [each.code for each in workflow.warnings]
    assume("shared-output" not in codes)

    async def once() -> Any:
        async with treadle.open(host=HOST) as session:
            return await session.run(workflow)

    result = trio.run(once, clock=trio.testing.MockClock(autojump_threshold=0))
    try:
        expected = read_by_layers(steps, state)
    except treadle.StateError:
        return  # a write that fails, there as here
    assume(set(statuses(result).values()) == {"success"})
    assert {step_id: each.output for step_id, each in result.step_results.items()} == expected
    assert ("missing-dependency" in codes) == bool(workflow.order)
