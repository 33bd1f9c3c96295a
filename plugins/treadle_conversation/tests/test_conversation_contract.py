"""The package against the suites of the test kit, as any plugin."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from treadle.testing import FakeContext, check_memory, check_plugin, check_trim_policy
from treadle_conversation.dropping import DropOldest, DropPairs
from treadle_conversation.estimate import Estimate
from treadle_conversation.memory import StateMemory
from treadle_conversation.summarizing import SummarizeOldest

POLICIES: Mapping[str, Any] = {
    "drop_oldest": DropOldest,
    "drop_pairs": DropPairs,
    "summarize_oldest": SummarizeOldest,
}


def context(state: Mapping[str, Any]) -> FakeContext:
    policies = {name: policy() for name, policy in POLICIES.items()}
    return FakeContext(state, roles={"trim_policy": policies, "token_counter": Estimate()})


async def test_the_plugin_keeps_the_contract() -> None:
    offers = {"memory": ["conversation"], "trim_policy": list(POLICIES), "token_counter": ["estimate"]}
    await check_plugin("treadle_conversation.plugin", offers=offers)


@pytest.mark.parametrize("policy", POLICIES.values())
@pytest.mark.parametrize("seed", [0, 1])
async def test_its_policies_keep_the_laws(policy: Any, seed: int) -> None:
    await check_trim_policy(policy, seed=seed)


@pytest.mark.parametrize("settings", [{}, {"token_budget": 10_000, "trim_policy": "summarize_oldest"}])
async def test_its_memory_keeps_the_contract(settings: Mapping[str, Any]) -> None:
    await check_memory(StateMemory, settings=settings, context=context)
