"""The router chooses a branch, and says what is wrong with it."""

from __future__ import annotations

from typing import Any

import pytest

import treadle
from treadle import DocumentError, Host
from treadle.testing import offering, run_workflow
from treadle_router import plugin


class Mark(treadle.Step):
    """Gives its own id."""

    async def run(self, ctx: treadle.StepContext) -> treadle.StepOutcome:
        return treadle.StepOutcome(value=self.id)


PLUGINS = {"router": plugin, "marks": offering({"step_type": {"mark": Mark}})}


def document(**router: Any) -> dict[str, Any]:
    marks = [{"id": name, "type": "mark", "depends_on": ["choose"], "output": name} for name in ("high", "low")]
    return {"name": "t", "state": {"score": 81}, "steps": [{"id": "choose", "type": "router", **router}, *marks]}


TWO_WAYS = [{"expression": "state.score > 80", "target": "high"}, {"expression": "state.score > 10", "target": "low"}]


async def test_the_first_true_condition_wins_and_the_other_target_is_skipped() -> None:
    result = await run_workflow(document(conditions=TWO_WAYS, output="chosen"), plugins=PLUGINS)
    assert result.status == "success"
    assert result.final_state["chosen"] == "high"
    assert result.step_results["high"].status == "success"
    assert result.step_results["low"].status == "skipped"
    assert result.step_results["low"].reason == "'choose' did not choose it"
    assert "low" not in result.final_state


async def test_the_default_is_taken_where_no_condition_is_true() -> None:
    router = {"conditions": TWO_WAYS[:1], "default": "low"}
    result = await run_workflow(document(**router), plugins=PLUGINS, state={"score": 3})
    assert [result.step_results[name].status for name in ("high", "low")] == ["skipped", "success"]


async def test_no_true_condition_and_no_default_fails_the_step_without_a_retry() -> None:
    result = await run_workflow(document(conditions=TWO_WAYS), plugins=PLUGINS, state={"score": 3})
    assert result.status == "failed"
    assert result.error == "step 'choose': no condition is true and there is no default; add a default"
    assert result.step_results["choose"].attempts == 1
    assert result.step_results["high"].reason == "step 'choose' failed"


async def test_an_equation_with_a_missing_value_is_false_and_warned_about() -> None:
    router: dict[str, Any] = {
        "conditions": [{"expression": "state.scroe == 81", "target": "high"}],
        "default": "low",
    }
    result = await run_workflow(document(**router), plugins=PLUGINS)
    assert result.step_results["low"].status == "success"
    assert [each.message for each in result.warnings] == [
        "'state.scroe' is missing, and reads as null in the expression 'state.scroe == 81'"
    ]
    router["conditions"][0]["expression"] = "state.scroe is None"
    result = await run_workflow(document(**router), plugins=PLUGINS)
    assert result.step_results["high"].status == "success"
    assert result.warnings == ()


async def test_comparing_a_missing_value_fails_and_names_it() -> None:
    router = {"conditions": [{"expression": "state.nothing > 80", "target": "high"}], "default": "low"}
    result = await run_workflow(document(**router), plugins=PLUGINS)
    assert result.status == "failed"
    assert "state.nothing" in (result.error or "")


@pytest.mark.parametrize(
    ("router", "message"),
    [
        ({}, "a router needs conditions or a default"),
        ({"default": "hgih"}, "no step 'hgih'; did you mean 'high'?"),
        ({"conditions": [{"expression": "state.score > 1", "target": "lwo"}]}, "no step 'lwo'; did you mean 'low'?"),
        ({"conditions": [{"expression": "state.score >", "target": "low"}]}, "steps.choose.conditions.0.expression"),
        ({"conditions": [{"expresion": "1", "target": "low"}]}, "unknown field; did you mean 'expression'?"),
    ],
)
def test_a_wrong_router_is_refused_when_the_document_loads(router: dict[str, Any], message: str) -> None:
    with pytest.raises(DocumentError) as caught:
        treadle.build_workflow(document(**router), host=Host.of(PLUGINS))
    assert message in str(caught.value)


def test_a_target_that_does_not_wait_for_the_router_is_warned_about() -> None:
    data = document(default="low")
    data["steps"][2]["depends_on"] = []
    (warning,) = treadle.build_workflow(data, host=Host.of(PLUGINS)).warnings
    assert str(warning) == (
        "warning: steps.choose.default: step 'low' does not depend on 'choose', so it runs whatever is chosen; "
        "add depends_on: [choose] to it"
    )
