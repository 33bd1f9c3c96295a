"""``loop``: the body again until something holds."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from flow_world import PLUGINS, document, said
from hypothesis import given, settings
from hypothesis import strategies as st

from treadle import RunResult
from treadle.testing import run_workflow


@pytest.fixture(autouse=True)
def _quiet() -> None:
    said.clear()


async def run(state: dict[str, Any] | None = None, **fields: Any) -> RunResult:
    fields = {"id": "again", "type": "loop", "output": "made", **fields}
    return await run_workflow(document(fields, state=state), plugins=PLUGINS)


COUNT = [{"id": "one", "type": "count", "output": "count"}]


async def test_it_ends_where_the_expression_holds_and_carries_the_state_on(autojump_clock):
    result = await run({"count": 0}, steps=COUNT, until="state.count >= 3")
    assert result.final_state == {"count": 0, "made": {"count": 3}}


async def test_the_body_runs_once_at_least_and_sees_its_number(autojump_clock):
    result = await run(step={"type": "say", "text": "{index}"}, until="True")
    assert result.final_state["made"] == "0"
    result = await run(step={"type": "say", "text": "{n}"}, index="n", until="steps.step.output == '2'")
    assert result.final_state["made"] == "2"


async def test_the_result_is_an_expression_over_the_last_state(autojump_clock):
    result = await run({"count": 5}, steps=COUNT, until="state.count > 6", result="state.count + 100")
    assert result.final_state["made"] == 107


async def test_at_the_most_iterations_it_fails_for_good(autojump_clock):
    result = await run({"count": 0}, steps=COUNT, until="state.count < 0")
    step = result.step_results["again"]
    assert step.error == (
        "`state.count < 0` was not true after 10 iterations; raise max_iterations, or say on_max: stop"
    )
    assert (step.error_classification, step.attempts) == ("permanent", 1)


async def test_or_goes_on_with_what_there_is_and_a_warning(autojump_clock):
    result = await run({"count": 0}, steps=COUNT, until="state.count < 0", max_iterations=4, on_max="stop")
    assert result.final_state["made"] == {"count": 4}
    assert [each.message for each in result.warnings] == [
        "`state.count < 0` was not true after 4 iterations; the last one's result is taken"
    ]


async def test_an_iteration_that_fails_is_named(autojump_clock):
    result = await run(step={"type": "say", "text": "{index}", "fails_on": "1"}, until="False")
    assert result.error == "step 'again': iteration 1: step 'step': '1' will not do"


async def test_an_expression_that_cannot_be_evaluated_fails_the_step(autojump_clock):
    result = await run(step={"type": "say", "text": "x"}, until="state.nothing > 3")
    assert result.step_results["again"].error_classification == "permanent"
    assert "state.nothing" in str(result.error)


async def test_keys_that_only_a_later_step_writes_come_from_the_time_before(autojump_clock):
    steps = [
        {"id": "a", "type": "say", "text": "{state.draft}+", "output": "better"},
        {"id": "b", "type": "say", "text": "{state.better}", "output": "draft", "depends_on": ["a"]},
    ]
    result = await run({"draft": ""}, steps=steps, until="state.draft == '+++'")
    assert result.final_state["made"] == {"better": "+++", "draft": "+++"}
    assert result.final_state["draft"] == ""


def test_it_is_while():
    @settings(max_examples=20, deadline=None)
    @given(st.integers(0, 6), st.integers(0, 12), st.integers(1, 8))
    def law(start: int, end: int, most: int) -> None:
        count, times = start, 0
        while True:
            count, times = count + 1, times + 1
            if count >= end or times == most:
                break

        async def main() -> RunResult:
            return await run({"count": start}, steps=COUNT, until=f"state.count >= {end}", max_iterations=most,
                             on_max="stop")  # fmt: skip

        result = trio.run(main)
        assert result.final_state["made"] == {"count": count}

    law()
