"""What a state can hold, and what it shows of the steps."""

from __future__ import annotations

import json
from typing import Any

import pytest
from engine_doubles import act, flow, host_of, pick, run, statuses
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel
from pydantic.dataclasses import dataclass as pydantic_dataclass

import treadle
from treadle._engine.state import check_value
from treadle.contracts.step import StepOutcome
from treadle.errors import StateError


class Person(BaseModel):
    name: str
    age: int = 3


@pydantic_dataclass
class Pair:
    left: int


# --- values ---------------------------------------------------------------------------------------


_NO_JSON = (
    "cannot be kept in the state; give JSON values (text, numbers, booleans, null, lists, mappings) or a pydantic model"
)


def _cyclic() -> Any:
    loop: list[Any] = []
    loop.append(loop)
    return loop


@pytest.mark.parametrize(
    ("value", "error"),
    [
        ({1, 2}, f"state.a.b: a value of type set {_NO_JSON}"),
        ({"deep": [0, {"x": b"raw"}]}, f"state.a.b.deep[1].x: a value of type bytes {_NO_JSON}"),
        (Pair(left=1), f"state.a.b: a value of type Pair {_NO_JSON}"),
        (Person, f"state.a.b: a value of type ModelMetaclass {_NO_JSON}"),
        ([1.0, float("nan")], "state.a.b[1]: nan is not a JSON number"),
        (float("inf"), "state.a.b: inf is not a JSON number"),
        ({"x": {3: 1}}, "state.a.b.x: a key must be text, not int (3)"),
        (_cyclic(), "state.a.b: the value is nested too deeply, or contains itself"),
    ],
)
async def test_a_value_that_is_no_json_is_refused_with_its_place(value, error):
    async def give(ctx):
        return value

    result = await run(flow(host_of({"s": give}), act("s", output="a.b")))
    assert result.step_results["s"].error == error
    assert result.step_results["s"].error_classification == "permanent"
    assert result.final_state == {}


@pytest.mark.parametrize("outcome", [StepOutcome(value={1}), StepOutcome(value=1, raw={1})])
async def test_what_a_step_shows_is_json_too_so_that_every_result_can_be_printed(outcome):
    async def give(ctx):
        return outcome

    result = await run(flow(host_of({"s": give}), act("s")))
    assert result.step_results["s"].error == f"steps.s.output: a value of type set {_NO_JSON}"
    json.dumps(result.to_json())


async def test_an_initial_state_that_is_no_json_is_refused_before_anything_runs():
    async with treadle.open(host=host_of()) as session:
        workflow = flow(session.host, act("a"))
        with pytest.raises(StateError, match=r"^state\.x\[0\]: a value of type set cannot be kept in the state"):
            await session.run(workflow, state={"x": [{1}]})
        with pytest.raises(StateError, match=r"^state: a key must be text, not int \(1\)$"):
            await session.run(workflow, state={1: 2})  # type: ignore[dict-item]


async def test_a_pydantic_instance_is_kept_as_it_is_and_printed_as_a_mapping():
    seen = []

    async def give(ctx):
        return Person(name="Ada")

    async def look(ctx):
        seen.append(ctx.state["who"])

    host = host_of({"a": give, "b": look})
    result = await run(flow(host, act("a", output="who"), act("b", "a")))
    assert seen == [Person(name="Ada")]
    assert result.final_state["who"] is seen[0]
    assert result.to_json()["final_state"] == {"who": {"name": "Ada", "age": 3}}
    assert result.to_json()["step_results"]["a"]["output"] == {"name": "Ada", "age": 3}


_SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()


@given(st.recursive(_SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_every_json_value_can_be_kept(value):
    check_value(value, "here")


# --- steps.<id> -----------------------------------------------------------------------------------


async def test_steps_shows_output_and_status_of_the_ancestors_that_made_something_or_did_not_succeed():
    seen: dict[str, Any] = {}

    async def look(ctx):
        steps = ctx.state["steps"]
        seen.update({name: dict(steps[name]) for name in steps})
        assert len(steps) == len(seen)
        assert "silent" not in steps
        assert "apart" not in steps
        assert "unheard of" not in steps
        assert 5 not in steps

    async def broken(ctx):
        raise ValueError("no")

    async def raw(ctx):
        return StepOutcome(value={"parsed": True}, raw="as it came")

    host = host_of({"bad": broken, "raw": raw, "look": look})
    steps = [
        act("silent"),
        act("apart", value=1),
        act("bad"),
        act("raw", "silent", output="raw"),
        pick("r", "raw", choices=["no", "yes"], take=["yes"]),
        act("no", "r"),
        act("yes", "r", value="y"),
        act("look", "bad", "no", "yes"),
    ]
    result = await run(flow(host, *steps, config={"on_step_failure": "continue"}))
    assert statuses(result)["look"] == "success", result.step_results["look"].error
    assert seen == {
        "bad": {"output": None, "status": "failed"},
        "raw": {"output": "as it came", "status": "success"},
        "r": {"output": "yes", "status": "success"},
        "no": {"output": None, "status": "skipped"},
        "yes": {"output": "y", "status": "success"},
    }
    assert result.final_state == {"raw": {"parsed": True}}


async def test_a_state_key_called_steps_wins_over_the_view_of_the_steps():
    seen = []

    async def look(ctx):
        seen.append(ctx.state["steps"])

    await run(flow(host_of({"b": look}), act("a", value=1), act("b", "a"), state={"steps": "mine"}))
    assert seen == ["mine"]


async def test_a_missing_key_is_missing():
    async def look(ctx):
        assert "steps" in ctx.state
        assert "nothing" not in ctx.state
        assert ctx.state.get("nothing") is None
        return ctx.state["nothing"]

    result = await run(flow(host_of({"a": look}), act("a")))
    assert result.step_results["a"].error == "KeyError: 'nothing'"
