"""What treadle-router offers."""

from __future__ import annotations

from collections.abc import Mapping

from treadle import Offer, hookimpl


@hookimpl
def treadle_step_types() -> Mapping[str, Offer]:
    """The step type ``router``."""
    return {"router": Offer("treadle_router.step:Router", "Choose which of several steps run next")}
