"""``when``: a step whose condition is not true is skipped, and what that means for those after it."""

from __future__ import annotations

from typing import Any

import pytest
from engine_doubles import host_of, statuses

import treadle
from treadle import RunResult


def run_of(*steps: dict[str, Any], state: dict[str, Any] | None = None, **config: Any) -> RunResult:
    document = {"name": "w", "state": state or {}, "config": config, "steps": list(steps)}
    return treadle.run_sync(treadle.build_workflow(document, host=host_of()))


def step(name: str, *after: str, **fields: Any) -> dict[str, Any]:
    return {"id": name, "type": "act", "depends_on": list(after), **fields}


@pytest.mark.parametrize(("score", "status"), [(81, "success"), (80, "skipped")])
def test_it_decides_whether_the_step_runs(score: int, status: str) -> None:
    result = run_of(step("a", when="state.score > 80", output="made"), state={"score": score})
    assert result.status == "success"
    assert statuses(result) == {"a": status}
    assert ("made" in result.final_state) is (status == "success")
    reason = None if status == "success" else "when: state.score > 80 is not true"
    assert result.step_results["a"].reason == reason
    assert result.step_results["a"].attempts == (status == "success")


def test_what_follows_only_it_is_skipped_too_and_says_whom_it_follows() -> None:
    result = run_of(step("a", when="False"), step("b", "a"), step("c", "b"))
    assert [each.reason for each in result.step_results.values()] == [
        "when: False is not true",
        "it follows 'a', which was skipped",
        "it follows 'a', which was skipped",
    ]


def test_a_join_runs_where_something_else_that_it_waits_for_succeeded() -> None:
    result = run_of(step("a", when="state.x"), step("b", when="not state.x"), step("join", "a", "b"), state={"x": True})
    assert statuses(result) == {"a": "success", "b": "skipped", "join": "success"}


def test_a_failure_counts_more_than_a_skip() -> None:
    result = run_of(
        step("a", when="False"), {"id": "b", "type": "pick", "choices": [], "fails": True}, step("join", "a", "b")
    )
    assert result.step_results["join"].reason == "step 'b' failed"


def test_it_sees_what_the_steps_before_made() -> None:
    result = run_of(
        step("a", value="x", output="made"),
        step("b", "a", when="steps.a.status == 'success'"),
        step("c", "a", when="state.nope"),
    )
    assert statuses(result) == {"a": "success", "b": "success", "c": "skipped"}
    assert [each.message for each in result.warnings] == [
        "'state.nope' is missing, and reads as null in the expression 'state.nope'"
    ]


def test_one_that_cannot_be_evaluated_fails_the_step() -> None:
    result = run_of(step("a", when="state.missing > 3"), step("b", "a"))
    assert result.status == "failed"
    assert result.step_results["a"].error_classification == "permanent"
    assert result.step_results["b"].reason == "step 'a' failed"


def test_targets_of_a_router_that_is_skipped_are_not_chosen() -> None:
    router = {"id": "r", "type": "pick", "choices": ["x", "y"], "take": ["x"], "when": "False"}
    result = run_of(step("before"), router, step("x", "r", "before"), step("y", "r", "before"))
    assert statuses(result) == {"before": "success", "r": "skipped", "x": "skipped", "y": "skipped"}
    assert result.step_results["x"].reason == "'r' did not choose it"


def test_a_mistake_in_it_is_found_when_the_file_loads() -> None:
    with pytest.raises(treadle.DocumentError, match=r"steps\.a\.when: column 1: "):
        treadle.build_workflow({"name": "w", "steps": [step("a", when="score > 3")]}, host=host_of())
