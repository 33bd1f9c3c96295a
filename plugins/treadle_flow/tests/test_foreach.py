"""``foreach``: the body once for each item, results in order, and what becomes of failures."""

from __future__ import annotations

from typing import Any

import pytest
from flow_world import PLUGINS, at_once, document, said
from hypothesis import given, settings
from hypothesis import strategies as st

import treadle
from treadle import MemoryJournal, RunResult
from treadle.testing import run_workflow


@pytest.fixture(autouse=True)
def _quiet() -> None:
    said.clear()
    at_once.update(now=0, most=0)


async def run(
    state: dict[str, Any] | None = None, *, workflow: dict[str, Any] | None = None, **fields: Any
) -> RunResult:
    fields = {"id": "each", "type": "foreach", "output": "made", **fields}
    return await run_workflow(document(fields, state=state, **(workflow or {})), plugins=PLUGINS)


SAY = {"type": "say", "text": "{item}"}


async def test_one_step_gives_a_list_of_what_it_made_in_the_items_order(autojump_clock):
    result = await run({"l": ["c", "a", "b"]}, items="state.l", step={**SAY, "text": "{index}{item}{key}"})
    assert result.final_state["made"] == ["0c0", "1a1", "2b2"]


async def test_a_mapping_gives_a_mapping(autojump_clock):
    result = await run({"m": {"x": 1, "y z": 2}}, items="state.m", step={**SAY, "text": "{key}={state.item}"})
    assert result.final_state["made"] == {"x": "x=1", "y z": "y z=2"}


@pytest.mark.parametrize("items", [[], {}])
async def test_nothing_to_go_over_is_an_empty_result(items):
    result = await run({"l": items}, items="state.l", step=SAY)
    assert result.status == "success"
    assert result.final_state["made"] == items
    assert said == []


async def test_items_may_be_written_out_with_templates_and_whole_values(autojump_clock):
    items = ["{state.a}!", "state.n", {"value": "{x}", "template": False}]
    result = await run({"a": "A", "n": 3}, items=items, step=SAY)
    assert result.final_state["made"] == ["A!", "3", "{x}"]


async def test_items_may_be_an_expression(autojump_clock):
    result = await run({"l": ["a", "b", "c"]}, items="state.l[1:]", step=SAY)
    assert result.final_state["made"] == ["b", "c"]


@pytest.mark.parametrize(
    ("value", "kind"), [("text", "text"), (3, "a number"), (True, "a boolean"), (None, "null")], ids=str
)
async def test_what_is_no_list_fails_the_step_for_good_and_says_what_it_is(value, kind):
    result = await run({"l": value}, items="state.l", step=SAY)
    step = result.step_results["each"]
    assert (step.error_classification, step.attempts) == ("permanent", 1)
    assert step.error == f"items: state.l is {kind}, not a list or a mapping; give foreach what it can go over"


async def test_items_that_are_missing_are_named():
    result = await run({}, items="state.l", step=SAY)
    assert result.error == (
        "step 'each': items: state.l is missing, not a list or a mapping; give foreach what it can go over"
    )


async def test_values_keep_their_types_inside(autojump_clock):
    steps = [{"id": "a", "type": "say", "when": "state.item['n'] > 1", "text": "{item.n:03d}", "output": "t"}]
    result = await run({"l": [{"n": 1}, {"n": 2}]}, items="state.l", steps=steps, result="state.t")
    assert result.final_state["made"] == [None, "002"]


async def test_several_steps_give_what_they_wrote(autojump_clock):
    steps = [
        {"id": "a", "type": "say", "text": "{item}", "output": "x"},
        {"id": "b", "type": "say", "text": "{x}{state.last}", "output": "y.z", "depends_on": ["a"]},
    ]
    result = await run({"l": ["1", "2"], "last": "!"}, items="state.l", steps=steps)
    assert result.final_state["made"] == [{"x": "1", "y": {"z": "1!"}}, {"x": "2", "y": {"z": "2!"}}]


async def test_a_result_is_any_expression_over_the_bodys_state_and_steps(autojump_clock):
    steps = [{"id": "a", "type": "say", "text": "{item}"}]
    result = await run({"l": ["1"]}, items="state.l", steps=steps, result="steps.a.output + state.item + 'x'")
    assert result.final_state["made"] == ["11x"]


async def test_what_an_item_writes_no_other_sees_and_the_outer_state_neither(autojump_clock):
    steps = [{"id": "a", "type": "say", "text": "{state.seen}{item}", "output": "seen"}]
    result = await run({"l": ["1", "2"], "seen": "0"}, items="state.l", steps=steps, concurrency=1)
    assert result.final_state["made"] == [{"seen": "01"}, {"seen": "02"}]
    assert result.final_state["seen"] == "0"


async def test_default_names_hide_nothing_of_the_state_and_given_ones_do(autojump_clock):
    state = {"l": ["a"], "index": "mine", "key": "too"}
    result = await run(state, items="state.l", step={**SAY, "text": "{index} {key} {item}"})
    assert result.final_state["made"] == ["mine too a"]
    result = await run(state, items="state.l", index="index", step={**SAY, "text": "{index} {key} {item}"})
    assert result.final_state["made"] == ["0 too a"]


@pytest.mark.parametrize(("concurrency", "most"), [(1, 1), (3, 3), (None, 10), (50, 20)])
async def test_so_many_items_are_under_way_at_once(autojump_clock, concurrency, most):
    fields = {} if concurrency is None else {"concurrency": concurrency}
    await run({"l": list(range(20))}, items="state.l", step={**SAY, "wait": 1}, **fields)
    assert at_once["most"] == most


def test_whatever_the_concurrency_it_is_a_map():
    @settings(max_examples=25, deadline=None)
    @given(st.lists(st.tuples(st.integers(0, 9), st.text("ab", max_size=3)), max_size=12), st.integers(1, 5))
    def law(items: list[tuple[int, str]], concurrency: int) -> None:
        texts = [f"{number}{text}" for number, text in items]
        flow = document(
            {"id": "each", "type": "foreach", "items": "state.l", "concurrency": concurrency, "output": "made",
             "step": {"type": "say", "text": "{item}-{index}"}},
            state={"l": texts},
        )  # fmt: skip
        import trio

        async def main() -> RunResult:
            return await run_workflow(flow, plugins=PLUGINS)

        assert trio.run(main).final_state["made"] == [f"{text}-{index}" for index, text in enumerate(texts)]

    law()


async def test_stop_ends_the_others_and_the_step_fails_once_with_the_items_error(autojump_clock):
    step = {**SAY, "fails_on": "b", "wait": 1, "retry": {"max_retries": 0}}
    result = await run({"l": list("abcdef")}, items="state.l", concurrency=2, step=step)
    assert result.error == "step 'each': item 1: step 'step': 'b' will not do"
    assert result.step_results["each"].attempts == 1
    assert "e" not in said


async def test_continue_leaves_null_and_warns(autojump_clock):
    step = {**SAY, "fails_on": "b"}
    result = await run({"l": list("abc")}, items="state.l", on_error="continue", step=step)
    assert result.status == "success"
    assert result.final_state["made"] == ["a", None, "c"]
    assert [each.message for each in result.warnings] == [
        "item 1: step 'step': 'b' will not do; its place in the results is null"
    ]


async def test_collect_leaves_the_error_in_its_place(autojump_clock):
    step = {**SAY, "fails_on": "b"}
    result = await run({"m": {"x": "a", "y": "b"}}, items="state.m", on_error="collect", step=step)
    assert result.status == "success"
    assert result.final_state["made"] == {"x": "a", "y": {"error": "step 'step': 'b' will not do"}}
    assert result.warnings == ()


async def test_a_result_that_cannot_be_evaluated_is_the_items_failure(autojump_clock):
    result = await run({"l": [1, "x"]}, items="state.l", step=SAY, result="state.item + 1", on_error="collect")
    first, second = result.final_state["made"]
    assert first == 2
    assert "state.item + 1" in second["error"]


async def test_it_is_tried_again_as_a_whole_only_where_it_says_so(autojump_clock):
    step = {"type": "foreach", "items": ["a"], "step": {**SAY, "timeout": 0.5, "wait": 1, "retry": {"max_retries": 1}}}
    result = await run({}, items=["x"], step={k: v for k, v in step.items() if k != "output"})
    assert result.step_results["each"].attempts == 1
    result = await run({}, items=["x"], retry={"max_retries": 2}, step={**SAY, "timeout": 0.5, "wait": 1})
    assert result.step_results["each"].attempts == 3


async def test_foreach_in_foreach_sees_both_names(autojump_clock):
    inner = {"type": "foreach", "items": "state.item", "as": "cell", "step": {**SAY, "text": "{item[0]}{cell}"}}
    result = await run({"l": [["a", "b"], ["c"]]}, items="state.l", step=inner)
    assert result.final_state["made"] == [["aa", "ab"], ["cc"]]


async def test_ids_of_what_is_inside_can_be_read(autojump_clock):
    seen: list[str] = []

    class Watcher:
        async def observe(self, event: treadle.RunEvent) -> None:
            if type(event).__name__ == "StepFinished":
                seen.append(event.step_id)  # type: ignore[union-attr]

    flow = document({"id": "each", "type": "foreach", "items": "state.m", "step": SAY}, state={"m": {"x": 1, "y": 2}})
    await run_workflow(flow, plugins=PLUGINS, observers=[Watcher()])
    assert seen == ["each.x.step", "each.y.step", "each"] or seen == ["each.y.step", "each.x.step", "each"]


async def test_the_record_of_an_item_has_nothing_of_the_state_around_it(autojump_clock):
    journal = MemoryJournal()
    flow = document(
        {"id": "each", "type": "foreach", "items": "state.l", "step": SAY, "output": "made"},
        state={"l": list(range(50)), "large": "x" * 100},
    )
    result = await run_workflow(flow, plugins=PLUGINS, journal=journal)
    entries = [each for each in journal.entries(result.run_id) if each.step == "each.7"]
    assert [each.kind for each in entries] == ["run_started", "run_finished"]
    assert entries[0].data["state"] == {"item": 7, "index": 7, "key": 7}
    assert entries[1].data["result"].final_state == {"item": 7, "index": 7, "key": 7, "result": "7"}


async def test_a_cancelled_run_says_of_every_item_under_way_that_it_was(autojump_clock):
    result = await run({"l": [1, 2]}, items="state.l", step={**SAY, "wait": 100}, workflow={"config": {"timeout": 5}})
    assert result.status == "timeout"
    assert result.step_results["each"].status == "cancelled"
    assert at_once["now"] == 0
