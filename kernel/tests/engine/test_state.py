"""The state of a run: what each step sees of it, how parallel writes meet, and what cannot be kept."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
import trio
from engine_doubles import act, flow, host_of, pick, run, statuses
from hypothesis import given, settings
from hypothesis import strategies as st

import treadle
from treadle._engine import state as state_module
from treadle._engine.state import EVERYTHING, RunState
from treadle._language import MISSING, StatePath, assign
from treadle.contracts.step import StepOutcome
from treadle.errors import StateError

# --- who sees what --------------------------------------------------------------------------------


async def test_a_step_sees_the_initial_state_and_the_writes_of_its_ancestors_and_no_others():
    seen: dict[str, dict[str, Any]] = {}

    async def look(ctx):
        seen[ctx.step_id] = dict(ctx.state)

    steps = [
        act("a", value=1, output="a"),
        act("b", "a", value=2, output="b"),
        act("apart", value=3, output="apart"),
        act("c", "b"),
        act("d", "apart", "b"),
    ]
    await run(flow(host_of({"c": look, "d": look}), *steps, state={"start": 0}))
    assert seen == {"c": {"start": 0, "a": 1, "b": 2}, "d": {"start": 0, "a": 1, "b": 2, "apart": 3}}


async def test_a_siblings_write_during_a_step_is_not_seen():
    seen: list[Any] = []
    written, looked = trio.Event(), trio.Event()

    async def reader(ctx):
        seen.append(ctx.state["k"])
        await written.wait()
        seen.append(ctx.state["k"])
        looked.set()

    async def after_writer(ctx):
        written.set()
        await looked.wait()

    host = host_of({"reader": reader, "after": after_writer})
    steps = [act("reader"), act("writer", value="new", output="k"), act("after", "writer")]
    with trio.fail_after(60):
        result = await run(flow(host, *steps, state={"k": "old"}))
    assert seen == ["old", "old"]
    assert result.final_state == {"k": "new"}


async def test_in_a_chain_each_step_sees_the_latest_value_and_a_branch_sees_its_own():
    seen: dict[str, Any] = {}

    def bump(ctx_id: str) -> Any:
        async def behave(ctx):
            seen[ctx_id] = ctx.state["n"]
            return ctx.state["n"] + 1

        return behave

    host = host_of({name: bump(name) for name in ("a", "b", "c", "side")})
    steps = [act(n, *d, output="n") for n, d in (("a", ()), ("b", ("a",)), ("c", ("b",)), ("side", ("a",)))]
    await run(flow(host, *steps, state={"n": 0}))
    assert seen == {"a": 0, "b": 1, "c": 2, "side": 1}


async def test_a_state_given_to_the_run_wins_over_the_workflows_key_by_key():
    result = await run(flow(host_of(), act("a"), state={"x": 1, "y": {"z": 1}}), state={"y": 2, "new": 3})
    assert result.final_state == {"x": 1, "y": 2, "new": 3}


async def test_a_failed_or_skipped_step_writes_nothing():
    async def broken(ctx):
        raise ValueError("no")

    steps = [act("a", output="a"), pick("r", choices=["b"]), act("b", "r", value=1, output="b")]
    result = await run(flow(host_of({"a": broken}), *steps))
    assert result.final_state == {}


# --- writes that meet -----------------------------------------------------------------------------


async def test_parallel_writes_to_different_paths_of_one_key_are_merged_where_both_are_seen():
    seen: list[Any] = []

    async def look(ctx):
        seen.append(ctx.state["k"])

    steps = [
        act("a", value=1, output="k.a"),
        act("b", value=2, output="k.b.deep"),
        act("c", value=3, output="k.b.other"),
        act("join", "a", "b", "c"),
    ]
    result = await run(flow(host_of({"join": look}), *steps, state={"k": {"old": 0}}))
    assert seen == [{"old": 0, "a": 1, "b": {"deep": 2, "other": 3}}]
    assert result.final_state == {"k": seen[0]}


async def test_of_parallel_writes_to_one_path_the_later_step_of_the_document_is_seen_whoever_was_quicker():
    for first in ("a", "b"):
        done = trio.Event()

        def ordered(first=first, done=done):
            async def behave(ctx):
                if ctx.step_id == first:
                    return ctx.step_id
                await done.wait()
                return ctx.step_id

            return behave

        async def after(ctx, done=done):
            done.set()

        host = host_of({"a": ordered(), "b": ordered(), "after": after})
        steps = [act("a", output="k.x"), act("b", output="k.x"), act("after", first), act("join", "a", "b")]
        result = await run(flow(host, *steps))
        assert result.final_state == {"k": {"x": "b"}}


async def test_a_step_written_above_its_dependency_still_comes_after_it():
    steps = [act("late", "early", value="late", output="k"), act("early", value="early", output="k")]
    result = await run(flow(host_of(), *steps, act("join", "late", "early")))
    assert result.final_state == {"k": "late"}


@settings(max_examples=150)
@given(st.data())
def test_the_state_does_not_depend_on_the_order_in_which_parallel_steps_end(data):
    """The same writes, committed in any order that their dependencies allow, give the same state, keys in order."""
    count = data.draw(st.integers(1, 7))
    paths = [data.draw(st.sampled_from(["k", "k.a", "k.b", "k.a.c", "l", "m.x", "m.y"])) for _ in range(count)]
    waits_for = [data.draw(st.sets(st.integers(0, index - 1))) if index else set() for index in range(count)]
    sees = []
    for index in range(count):
        sees.append(sum(1 << each for each in waits_for[index]))
        for each in waits_for[index]:
            sees[index] |= sees[each]

    def commit(order):
        state = RunState({})
        for index in order:
            value = {"from": index} if data_of[index] else index
            state.prepare(index, sees[index], [(StatePath.parse(paths[index]), value)])()
        return json.dumps({name: state.read(name, EVERYTHING) for name in state.names(EVERYTHING)})

    data_of = [data.draw(st.booleans()) for _ in range(count)]
    shuffled, left = [], list(range(count))
    while left:
        ready = [index for index in left if not waits_for[index] & set(left)]
        shuffled.append(data.draw(st.sampled_from(ready)))
        left.remove(shuffled[-1])
    try:
        expected = commit(range(count))
    except StateError:  # a path through a scalar that the step sees itself: refused in any order
        with pytest.raises(StateError):
            commit(shuffled)
    else:
        assert commit(shuffled) == expected


async def test_a_steps_own_writes_to_one_key_are_all_kept():
    async def many(ctx):
        return StepOutcome(value=1, writes={"k.b": 2, "state.k.c[0]": 3, "other": 4})

    result = await run(flow(host_of({"a": many}), act("a", output="k.a"), act("b", "a"), state={"k": {"c": [0]}}))
    assert result.final_state == {"k": {"a": 1, "b": 2, "c": [3]}, "other": 4}


async def test_a_later_write_of_a_step_is_made_into_its_earlier_one():
    async def many(ctx):
        return StepOutcome(value={"x": 1}, writes={"k.y": 2})

    result = await run(flow(host_of({"a": many}), act("a", output="k"), state={"k": {"old": 0}}))
    assert result.final_state == {"k": {"x": 1, "y": 2}}


@pytest.mark.parametrize("values_kept", [0, 64])
@pytest.mark.parametrize(
    ("initial", "writes", "expected"),
    [
        (MISSING, {"a": ("k", 5), "b": ("k.x", 1)}, {"x": 1}),
        (MISSING, {"a": ("k.x", 5), "b": ("k.x.y", 1)}, {"x": {"y": 1}}),
        (MISSING, {"c": ("k.z", 0), "a": ("k.x", 5), "b": ("k.x.y", 1)}, {"z": 0, "x": {"y": 1}}),
        ([0, 0, 0], {"a": ("k", [1]), "b": ("k[2]", 9)}, [0, 0, 9]),
        ({"l": [0, 0]}, {"a": ("k.l", {"n": 1}), "b": ("k.l[1]", 9)}, {"l": [0, 9]}),
    ],
)
async def test_parallel_writes_that_do_not_go_together_do_not_fail_the_readers_and_the_last_one_is_seen(
    initial, writes, expected, values_kept, monkeypatch
):
    """`a` puts a scalar where `b`, which knew nothing of it, made a mapping: the run has a result all the same."""
    monkeypatch.setattr(state_module, "_VALUES_KEPT", values_kept)
    order = list(writes)
    gates = {name: trio.Event() for name in [*order, "end"]}
    gates[order[0]].set()

    def writer(name: str, following: str) -> Any:
        async def behave(ctx):
            await gates[name].wait()
            return StepOutcome(writes=dict([writes[name]]))

        async def after(ctx):
            gates[following].set()

        return behave, after

    behaviours: dict[str, Any] = {}
    steps = []
    for name, following in zip(order, [*order[1:], "end"], strict=True):
        behaviours[name], behaviours[f"{name}-after"] = writer(name, following)
        steps += [act(name), act(f"{name}-after", name)]
    seen = []

    async def look(ctx):
        seen.append(ctx.state["k"])

    workflow = flow(
        host_of({**behaviours, "join": look}),
        *steps,
        act("join", *order),
        state={} if initial is MISSING else {"k": initial},
    )
    with trio.fail_after(60):
        result = await run(workflow)
    assert result.status == "success"
    assert seen == [expected]
    assert result.final_state == {"k": expected}


async def test_nested_outputs_make_the_dictionaries_in_between():
    result = await run(flow(host_of(), act("a", value=1, output="x.y.z")))
    assert result.final_state == {"x": {"y": {"z": 1}}}


@pytest.mark.parametrize(
    ("state", "output", "error"),
    [
        ({"k": 5}, "k.x", "cannot write 'k.x': 'k' is a number, which has no parts"),
        ({"k": "text"}, "k.x.y", "cannot write 'k.x.y': 'k' is text, which has no parts"),
        (
            {"k": [1]},
            "k[3]",
            (
                "cannot write 'k[3]': 'k' has length 1, so [3] is out of range; "
                "a list is not grown by an index; write the whole list to 'k'"
            ),
        ),
    ],
)
async def test_a_write_through_what_has_no_such_parts_is_a_permanent_failure(state, output, error):
    result = await run(flow(host_of(), act("a", value=1, output=output, retry={"max_retries": 5}), state=state))
    failed = result.step_results["a"]
    assert (failed.status, failed.error, failed.error_classification, failed.attempts) == (
        "failed", error, "permanent", 1,
    )  # fmt: skip
    assert result.final_state == state


async def test_of_a_commit_that_fails_nothing_is_kept():
    async def two(ctx):
        return StepOutcome(value="good", writes={"second": "good", "k.x": "bad"})

    result = await run(flow(host_of({"a": two}), act("a", output="first"), state={"k": 1}))
    assert statuses(result) == {"a": "failed"}
    assert result.step_results["a"].output is None
    assert result.final_state == {"k": 1}


async def test_a_path_that_is_none_fails_the_step():
    async def wrong(ctx):
        return StepOutcome(writes={"a..b": 1})

    result = await run(flow(host_of({"a": wrong}), act("a")))
    assert result.step_results["a"].error == "state path 'a..b' has an empty segment; write it like items[0].name"


async def test_a_branch_long_at_rest_still_sees_its_own_value_of_a_key_that_others_wrote_many_times():
    seen: list[Any] = []
    busy_done = trio.Event()

    async def rest(ctx):
        await busy_done.wait()

    async def look(ctx):
        seen.append(ctx.state["k"])

    async def done(ctx):
        busy_done.set()

    busy = [act(f"b{n}", *([f"b{n - 1}"] if n else []), value=n, output=f"k.b{n}") for n in range(200)]
    host = host_of({"rest": rest, "look": look, "done": done})
    steps = [act("mine", value=1, output="k.mine"), act("rest", "mine"), act("look", "rest"), act("done", "b199")]
    with trio.fail_after(60):
        result = await run(flow(host, *steps, *busy))
    assert seen == [{"mine": 1}]
    assert result.final_state["k"] == {"mine": 1, **{f"b{n}": n for n in range(200)}}


async def test_a_write_or_a_read_takes_as_long_after_many_writes_as_after_few(monkeypatch):
    """Counted in containers copied along a path: one a write in a chain, one a branch for the first look at a join."""
    copies = 0

    def counting(*arguments: Any) -> Any:
        nonlocal copies
        copies += 1
        return assign(*arguments)

    monkeypatch.setattr(state_module, "assign", counting)

    async def look(ctx):
        nonlocal copies
        for expected in (50, 0, 0):
            copies = 0
            assert len(ctx.state["k"]) == 50
            assert copies == expected

    chained = [act(f"s{n}", *([f"s{n - 1}"] if n else []), value=n, output=f"k.s{n}") for n in range(200)]
    await run(flow(host_of(), *chained))
    assert copies == 200
    wide = [act(f"s{n}", value=n, output=f"k.s{n}") for n in range(50)]
    result = await run(flow(host_of({"join": look}), *wide, act("join", *(each["id"] for each in wide))))
    assert statuses(result)["join"] == "success", result.step_results["join"].error


async def test_what_is_kept_of_a_key_does_not_grow_with_the_square_of_its_writes():
    """The key's whole value is kept for the latest writes only; the entries of all whole values are counted."""

    async def held(count: int) -> int:
        host = host_of()
        steps = [act(f"s{n}", *([f"s{n - 1}"] if n else []), value=n, output=f"k.s{n}") for n in range(count)]
        async with treadle.open(host=host) as session:
            going = session.start(flow(host, *steps))
            await going.execute()
        versions = going._state._keys["k"].versions
        return sum(len(each.value) for each in versions if isinstance(each.value, dict))

    assert await held(800) < 3 * await held(400)


# --- the law --------------------------------------------------------------------------------------

_PATHS = ["k", "k.a", "k.a.b", "k.b", "k.b.c", "l", "l.a"]


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[set[int], list[tuple[str, Any]]]]:
    """Steps in the order in which they commit: whom each depends on, and what it writes."""
    count = draw(st.integers(1, 9))
    values = st.integers(0, 9) | st.dictionaries(st.sampled_from("abc"), st.integers(0, 9), max_size=2)
    writes = st.lists(st.tuples(st.sampled_from(_PATHS), values), max_size=3, unique_by=lambda write: write[0])
    return [(draw(st.sets(st.integers(0, n - 1), max_size=3)) if n else set(), draw(writes)) for n in range(count)]


def _put(state: dict[str, Any], path: str, value: Any) -> bool:
    """Write into a plain dictionary; whether the path could be walked."""
    *way, last = path.split(".")
    for part in way:
        state = state.setdefault(part, {})
        if not isinstance(state, dict):
            return False
    state[last] = copy.deepcopy(value)
    return True


@settings(max_examples=400, deadline=None)
@given(
    history=histories(),
    initial=st.sampled_from([{}, {"k": {}}, {"k": {"a": {"z": 0}}, "m": 1}]),
    values_kept=st.sampled_from([0, 1, 2, 64]),
)
def test_what_a_step_reads_is_what_replaying_its_ancestors_writes_gives(history, initial, values_kept):
    """The model copies the whole state for every step and replays commits in order. Commits that cannot be made by
    what their step sees are refused by both; histories whose parallel writes do not go together are left out here
    (their law is tested above). How many whole values are kept is of no consequence."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(state_module, "_VALUES_KEPT", values_kept)
        _compare(history, initial)


def _compare(history: Any, initial: Any) -> None:
    state = RunState(initial)
    commits: list[tuple[int, list[tuple[str, Any]]]] = []
    ancestors: list[set[int]] = []
    for number, (depends_on, writes) in enumerate(history):
        ancestors.append(depends_on.union(*(ancestors[each] for each in depends_on)))
        seen = _replayed(initial, commits, ancestors[number])
        if seen is None:
            return
        sees = sum(1 << each for each in ancestors[number])
        for root in ("k", "l", "m", "n"):
            assert state.read(root, sees) == seen.get(root, MISSING)
        assert set(state.names(sees)) == set(seen)
        fits = all(_put(seen, path, value) for path, value in writes)
        try:
            make = state.prepare(number, sees, [(StatePath.parse(path), value) for path, value in writes])
        except StateError:
            assert not fits
        else:
            assert fits
            make()
            commits.append((number, writes))
    everything = _replayed(initial, commits, set(range(len(history))))
    if everything is not None:
        assert {name: state.read(name, EVERYTHING) for name in state.names(EVERYTHING)} == everything


def _replayed(initial: Any, commits: Any, visible: set[int]) -> dict[str, Any] | None:
    seen = copy.deepcopy(initial)
    for number, writes in commits:
        if number in visible and not all(_put(seen, path, value) for path, value in writes):
            return None
    return seen
