"""The steps are held to the contract."""

from __future__ import annotations

from flow_world import PLUGINS

from treadle.testing import check_plugin, check_step
from treadle_flow.foreach import Foreach
from treadle_flow.loop import Loop
from treadle_flow.subworkflow import Subworkflow

SAY = {"type": "say", "text": "{item}!"}
NO = {"type": "say", "text": "x", "fails_on": "x"}


async def test_the_plugin() -> None:
    await check_plugin("treadle_flow.plugin", offers={"step_type": ["foreach", "loop", "subworkflow"]})


async def test_subworkflow(autojump_clock: object) -> None:
    await check_step(
        Subworkflow,
        {
            "workflow_inline": {"name": "w", "steps": [{"id": "a", "type": "say", "text": "{state.x}", "output": "t"}]},
            "input": {"x": "{state.word}"},
            "return_keys": ["t"],
            "output": "made",
        },
        state={"word": "hello"},
        plugins=PLUGINS,
        expect={"made": {"t": "hello"}},
        failing=[{"workflow_inline": {"name": "w", "steps": [{"id": "a", **NO}]}}],
    )


async def test_foreach(autojump_clock: object) -> None:
    await check_step(
        Foreach,
        {"items": "state.words", "step": SAY, "output": "made"},
        state={"words": ["a", "b"]},
        plugins=PLUGINS,
        expect={"made": ["a!", "b!"]},
        failing=[{"items": "state.nothing", "step": SAY}, {"items": [1], "step": NO}],
    )


async def test_loop(autojump_clock: object) -> None:
    await check_step(
        Loop,
        {"step": {"type": "say", "text": "{index}"}, "until": "state.index == 2", "output": "made"},
        plugins=PLUGINS,
        expect={"made": "2"},
        failing=[{"step": NO, "until": "True"}, {"step": {"type": "count"}, "until": "False", "max_iterations": 2}],
    )
