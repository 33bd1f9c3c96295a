"""What treadle-flow offers."""

from __future__ import annotations

from collections.abc import Mapping

from treadle import Offer, hookimpl


@hookimpl
def treadle_step_types() -> Mapping[str, Offer]:
    """The step types that run workflows."""
    return {
        "subworkflow": Offer("treadle_flow.subworkflow:Subworkflow", "Run another workflow"),
        "foreach": Offer("treadle_flow.foreach:Foreach", "Run steps once for each item of a list or mapping"),
        "loop": Offer("treadle_flow.loop:Loop", "Run steps again until something holds"),
    }
