"""A plugin with one step that does nothing: what is left of a run is what the engine costs.

run.py registers it by writing the metadata of a distribution into a temporary folder.
"""

from __future__ import annotations

from collections.abc import Mapping

from treadle.contracts.offers import Offer
from treadle.contracts.step import Step, StepContext, StepOutcome
from treadle.hookspecs import hookimpl


class Noop(Step):
    """Writes 1 to its output."""

    async def run(self, ctx: StepContext) -> StepOutcome:
        return StepOutcome(value=1)


@hookimpl
def treadle_step_types() -> Mapping[str, Offer]:
    return {"bench_noop": Offer("noop_plugin:Noop", "Do nothing")}
