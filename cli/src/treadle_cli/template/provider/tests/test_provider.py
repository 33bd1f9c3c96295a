"""The plugin keeps the contract, and does what its README says."""

from __future__ import annotations

import pytest

from acme_provider.checks import contract_checks
from acme_provider.provider import AcmeProvider, AcmeProviderSettings
from treadle import BadRequestError, ModelRequest, UserMessage
from treadle.testing import check_plugin

CHECKS = contract_checks()


async def test_the_plugin_keeps_the_contract() -> None:
    await check_plugin("acme_provider.plugin", offers={"provider": ["my_provider"]})


@pytest.mark.parametrize("name", CHECKS)
async def test_what_it_offers_keeps_the_contract(name: str) -> None:
    await CHECKS[name]()


async def test_a_temperature_is_refused() -> None:
    provider = AcmeProvider("my_provider", AcmeProviderSettings())
    request = ModelRequest(model="parrot-1", messages=(UserMessage.of("Hello"),), temperature=0.5)
    with pytest.raises(BadRequestError, match="a parrot has no temperature"):
        async with provider.exchange(request):
            pass
