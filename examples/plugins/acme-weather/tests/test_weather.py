"""The plugin keeps the contract, and says what is wrong."""

from __future__ import annotations

import pytest

from acme_weather.checks import contract_checks
from treadle.testing import check_plugin

CHECKS = contract_checks()


async def test_the_plugin_keeps_the_contract() -> None:
    await check_plugin("acme_weather.plugin", offers={"tool": ["acme_weather"], "step_type": ["acme_forecast"]})


@pytest.mark.parametrize("name", CHECKS)
async def test_what_it_offers_keeps_the_contract(name: str) -> None:
    await CHECKS[name]()
