"""The plugin keeps the contract, and does what its README says."""

from __future__ import annotations

import pytest

from acme_tool.checks import contract_checks
from acme_tool.tool import my_tool
from treadle.testing import check_plugin

CHECKS = contract_checks()


async def test_the_plugin_keeps_the_contract() -> None:
    await check_plugin("acme_tool.plugin", offers={"tool": ["my_tool"]})


@pytest.mark.parametrize("name", CHECKS)
async def test_what_it_offers_keeps_the_contract(name: str) -> None:
    await CHECKS[name]()


def test_as_a_function_it_is_the_function() -> None:
    assert my_tool("one two three") == {"words": 3, "characters": 13}
