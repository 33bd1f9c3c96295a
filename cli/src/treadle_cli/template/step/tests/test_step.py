"""The plugin keeps the contract, and does what its README says."""

from __future__ import annotations

import pytest

from acme_step import plugin
from acme_step.checks import contract_checks
from treadle.testing import check_plugin, run_workflow

CHECKS = contract_checks()


async def test_the_plugin_keeps_the_contract() -> None:
    await check_plugin("acme_step.plugin", offers={"step_type": ["my_step"]})


@pytest.mark.parametrize("name", CHECKS)
async def test_what_it_offers_keeps_the_contract(name: str) -> None:
    await CHECKS[name]()


async def test_it_writes_capitals() -> None:
    result = await run_workflow(
        {
            "name": "t",
            "state": {"name": "Zoë"},
            "steps": [{"id": "a", "type": "my_step", "text": "Hello {state.name}", "output": "said"}],
        },
        plugins={"my_step": plugin},
    )
    assert result.error is None
    assert result.final_state["said"] == "HELLO ZOË"
