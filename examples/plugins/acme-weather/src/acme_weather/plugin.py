"""What acme-weather offers. Nothing is imported from here until it is used."""

from __future__ import annotations

from collections.abc import Mapping

from treadle import Offer, hookimpl


@hookimpl
def treadle_tools() -> Mapping[str, Offer]:
    """The tool ``acme_weather``."""
    return {"acme_weather": Offer("acme_weather.tool:acme_weather", "Say what the weather will be")}


@hookimpl
def treadle_step_types() -> Mapping[str, Offer]:
    """The step type ``acme_forecast``."""
    return {"acme_forecast": Offer("acme_weather.step:AcmeForecast", "Compare the weather of several cities")}
