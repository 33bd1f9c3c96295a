"""A child run over its parent's state, checked with the parent: what any plugin's step can do."""

from __future__ import annotations

from typing import Any

import pytest
from engine_doubles import Act, act, run
from hypothesis import given
from hypothesis import strategies as st

import treadle
from treadle import CheckedChild, DocumentCheck, DocumentError, Host, MemoryJournal, StepContext, StepError, StepOutcome
from treadle._engine.state import RunState, StateView
from treadle._language import StatePath
from treadle.testing import offering


class Nest(treadle.Step):
    """A stranger's step: runs the steps that stand in it."""

    inner: list[Any]
    given: dict[str, Any] = {}  # noqa: RUF012 - pydantic copies defaults
    unchecked: bool = False

    def check_document(self, check: DocumentCheck) -> None:
        """Have them checked, and look for a key."""

        def wants_a_key(child: CheckedChild) -> None:
            if "made" not in child.keys:
                check.note("nothing makes 'made'", field="inner", severity="warning")

        if not self.unchecked:
            check.workflow(self.inner, field="inner", form="steps", keys=self.given, scoped=["own"], then=wants_a_key)

    async def run(self, ctx: StepContext) -> StepOutcome:
        """Run them."""
        state = {**self.given, "own": "mine"}
        result = await ctx.run_child(ctx.workflow("inner"), state=state, inherit=True)
        return StepOutcome(value=dict(result.final_state))


def host() -> Host:
    return Host.of({"lab": offering({"step_type": {"act": Act, "nest": Nest}})})


def document(*inner: Any, state: dict[str, Any] | None = None, **nest: Any) -> treadle.Workflow:
    steps = [{"id": "n", "type": "nest", "inner": list(inner), "output": "out", **nest}]
    return treadle.build_workflow({"name": "w", "state": state or {}, "steps": steps}, host=host())


async def test_it_reads_the_parents_state_and_writes_its_own() -> None:
    workflow = document(act("a", value=1, output="made.x"), state={"made": {"y": 2}, "z": 3}, given={"g": 4})
    result = await run(workflow)
    assert result.final_state["out"] == {"made": {"y": 2, "x": 1}, "z": 3, "g": 4, "own": "mine"}
    assert result.final_state["made"] == {"y": 2}


async def test_the_record_has_only_what_is_the_childs_own() -> None:
    journal = MemoryJournal()
    workflow = document(act("a", value=1, output="made"), state={"z": list(range(1000))})
    result = await run(workflow, journal=journal)
    child = [each for each in journal.entries(result.run_id) if each.step == "n"]
    states = [each.data["state"] for each in child if each.kind == "run_started"]
    finals = [each.data["result"].final_state for each in child if each.kind == "run_finished"]
    assert (states, finals) == ([{"own": "mine"}], [{"own": "mine", "made": 1}])


def test_what_is_wrong_inside_is_told_and_what_the_step_says_of_a_good_child_too() -> None:
    with pytest.raises(DocumentError, match=r"steps\.n\.inner\.a\.valeu: unknown field") as caught:
        document({"id": "a", "type": "act", "valeu": 1})
    assert len(caught.value.problems) == 1
    assert [each.message for each in document(act("a", output="other")).warnings] == ["nothing makes 'made'"]


async def test_a_workflow_that_was_not_checked_is_not_there() -> None:
    result = await run(document(act("a"), unchecked=True, retry={"max_retries": 0}))
    assert result.error == "step 'n': step 'n' has had no workflow checked under 'inner'"
    assert isinstance(result.step_results["n"].exception, StepError)


def test_another_config_holds_for_what_is_inside_too() -> None:
    changed = document(act("a", output="made")).with_config(stream=True, max_concurrent_steps=2)
    (child,) = changed.children.values()
    assert (child.config.stream, child.config.max_concurrent_steps) == (True, 10)


KEYS = st.dictionaries(st.sampled_from("abcd"), st.integers(0, 9), max_size=4)


@given(KEYS, KEYS, st.lists(st.tuples(KEYS, KEYS, KEYS), max_size=5))
def test_states_over_each_other_read_as_copies_of_them_would(
    initial: dict[str, int], writes: dict[str, int], below: list[tuple[dict[str, int], dict[str, int], dict[str, int]]]
) -> None:
    state = RunState(initial)
    copy = dict(initial)
    levels = [({}, {}, writes), *below]
    for depth, (defaults, given_, written) in enumerate(levels):
        if depth:
            state = RunState(given_, StateView(state, -1, {}), defaults)
            copy = {**defaults, **copy, **given_}
        for rank, (key, value) in enumerate(written.items()):
            state.prepare(rank, -1, [(StatePath((key,)), value)])()
            copy[key] = value
    view = StateView(state, -1, {})
    assert dict(view) == copy
    assert ("missing" in view, len(view)) == (False, len(copy))
