"""The step ``acme_forecast``."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from treadle import Step, StepContext, StepOutcome, Template
from treadle.nurseries import open_nursery

__all__ = ["AcmeForecast"]


class AcmeForecast(Step):
    """Compare the weather of several cities. ``output`` receives their temperatures, the warmest first."""

    cities: tuple[Template, ...] = Field(min_length=1, description="the cities")
    almanac: str = Field(default="almanac.json", description="the file of temperatures by city")

    async def run(self, ctx: StepContext) -> StepOutcome:
        """Ask for all of them at once.

        :raises ToolError: a city is not in the almanac.
        """
        found: dict[str, float] = {}

        async def look(city: str) -> None:
            answer: dict[str, Any] = await ctx.call_tool("acme_weather", {"city": city, "almanac": self.almanac})
            found[city] = answer["celsius"]

        async with open_nursery() as nursery:  # one error leaves it as itself
            for city in self.cities:
                nursery.start_soon(look, ctx.render(city))
        return StepOutcome(value=dict(sorted(found.items(), key=lambda each: (-each[1], each[0]))))
