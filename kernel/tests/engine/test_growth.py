"""What a step costs does not grow with the workflow: counted in calls, not in time."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

import pytest
from engine_doubles import host_of

import treadle

SHAPES = {"chain": lambda i: [f"s{i - 1}"], "fan-out": lambda _: ["s0"]}


def workflow(shape: str, count: int, host: treadle.Host) -> treadle.Workflow:
    steps: list[dict[str, Any]] = [{"id": "s0", "type": "act", "output": "v0"}]
    steps += [
        {"id": f"s{i}", "type": "act", "output": f"v{i}", "depends_on": SHAPES[shape](i)} for i in range(1, count)
    ]
    return treadle.build_workflow({"name": "w", "steps": steps}, host=host)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_calls_of_a_step_do_not_grow_with_the_number_of_steps(shape: str) -> None:
    host = host_of()

    def calls_of_a_step(count: int) -> float:
        ready = workflow(shape, count, host)
        calls = 0

        def count_calls(_frame: FrameType, event: str, _argument: object) -> None:
            nonlocal calls
            calls += event in ("call", "c_call")

        before = sys.getprofile()
        sys.setprofile(count_calls)
        try:
            result = treadle.run_sync(ready)
        finally:
            sys.setprofile(before)
        assert result.status == "success"
        return calls / count

    calls_of_a_step(2)  # what is made on first use is not a step's
    few, many = calls_of_a_step(100), calls_of_a_step(2000)
    assert many < few * 1.1
    assert many < 150, "about 125"
