"""The plugin keeps the contract, and does what its README says."""

from __future__ import annotations

import pytest

from acme_trim_policy import plugin
from acme_trim_policy.checks import contract_checks
from treadle.testing import check_plugin, run_workflow

CHECKS = contract_checks()


async def test_the_plugin_keeps_the_contract() -> None:
    await check_plugin(
        "acme_trim_policy.plugin", offers={"trim_policy": ["my_trim_policy"], "step_type": ["my_trim_policy_preview"]}
    )


@pytest.mark.parametrize("name", CHECKS)
async def test_what_it_offers_keeps_the_contract(name: str) -> None:
    await CHECKS[name]()


async def test_the_oldest_turn_goes_with_its_answer() -> None:
    turns = ["one two", "three", "four", "five", "six"]
    result = await run_workflow(
        {
            "name": "t",
            "steps": [{"id": "a", "type": "my_trim_policy_preview", "turns": turns, "budget": 5, "output": "kept"}],
        },
        plugins={"my_trim_policy": plugin},
    )
    assert result.final_state["kept"] == ["four", "five", "six"]
