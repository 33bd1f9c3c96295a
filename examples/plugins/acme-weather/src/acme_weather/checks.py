"""What ``treadle plugins check`` and the tests hold this plugin to. Nothing else imports it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from acme_weather import plugin
from acme_weather.step import AcmeForecast
from acme_weather.tool import acme_weather
from treadle.testing import FakeSandbox, check_step, check_tool

__all__ = ["contract_checks", "world"]


def world() -> FakeSandbox:
    """A folder with an almanac, and with a file that is none."""
    return FakeSandbox(files={"almanac.json": '{"Oslo": -3, "Lima": 19.5, "Århus": 4}', "list.json": "[1]"})


def contract_checks() -> Mapping[str, Callable[[], Awaitable[None]]]:
    """Each check with what it is about."""
    return {
        "tool acme_weather": lambda: check_tool(
            acme_weather,
            {"city": "Århus"},
            sandbox=world,
            expect={"city": "Århus", "celsius": 4.0},
            failing=[
                {},
                {"city": "Nowhere"},
                {"city": "Oslo", "almanac": "none.json"},
                {"city": "Oslo", "almanac": "list.json"},
            ],
        ),
        "step acme_forecast": lambda: check_step(
            AcmeForecast,
            {"cities": ["Oslo", "{state.other}"], "output": "warmest"},
            state={"other": "Lima"},
            plugins={"weather": plugin},
            sandbox=world,
            expect={"warmest": {"Lima": 19.5, "Oslo": -3.0}},
            failing=[{"cities": ["Nowhere"]}],
        ),
    }
