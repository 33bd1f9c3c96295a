"""The router is held to the contract of steps."""

from __future__ import annotations

import treadle
from treadle.testing import check_plugin, check_step, offering
from treadle_router.step import Router


class Leaf(treadle.Step):
    """A target."""

    async def run(self, ctx: treadle.StepContext) -> treadle.StepOutcome:
        return treadle.StepOutcome()


LEAVES = [{"id": name, "type": "leaf", "depends_on": ["step"]} for name in ("high", "low")]


async def test_the_plugin() -> None:
    await check_plugin("treadle_router.plugin", offers={"step_type": ["router"]})


async def test_the_step() -> None:
    await check_step(
        Router,
        {"conditions": [{"expression": "state.word == 'a'", "target": "high"}], "default": "low", "output": "chosen"},
        state={"word": "a"},
        plugins=[offering({"step_type": {"leaf": Leaf}})],
        others=LEAVES,
        expect={"chosen": "high"},
        failing=[
            {
                "conditions": [
                    {"expression": f"state.word == '{other}'", "target": "high"},
                    {"expression": "0", "target": "low"},
                ]
            }
            for other in "xy"
        ],
    )
