"""What treadle-agent offers."""

from __future__ import annotations

from collections.abc import Mapping

from treadle import Offer, hookimpl


@hookimpl
def treadle_step_types() -> Mapping[str, Offer]:
    """The step type ``agent``."""
    return {"agent": Offer("treadle_agent.step:AgentStep", "Run one turn of an agent")}
