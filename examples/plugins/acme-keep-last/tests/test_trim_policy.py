"""The policy keeps the contract, and the last three exchanges."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from acme_keep_last.checks import contract_checks
from acme_keep_last.policy import AcmeKeepLast
from treadle import AssistantMessage, Message, ModelRequest, ModelResponse, SystemMessage, UserMessage
from treadle.testing import check_plugin

CHECKS = contract_checks()
CONVERSATION = [
    (SystemMessage(text="S"),),
    *(((UserMessage if n % 2 == 0 else AssistantMessage).of(str(n)),) for n in range(11)),
]


async def test_the_plugin_keeps_the_contract() -> None:
    await check_plugin("acme_keep_last.plugin", offers={"trim_policy": ["acme_keep_last"]})


@pytest.mark.parametrize("name", CHECKS)
async def test_what_it_offers_keeps_the_contract(name: str) -> None:
    await CHECKS[name]()


async def no_model(request: ModelRequest) -> ModelResponse:
    raise AssertionError("a model was asked")


@pytest.mark.parametrize(
    ("budget", "kept"), [(12, "S 0 1 2 3 4 5 6 7 8 9 10"), (11, "S 6 7 8 9 10"), (4, "S 8 9 10"), (1, "S 10")]
)
async def test_it_cuts_rarely_and_by_much(budget: int, kept: str) -> None:
    def count(messages: Sequence[Message]) -> int:
        return len(messages)

    trimmed = await AcmeKeepLast().trim(CONVERSATION, budget=budget, summary=None, count=count, complete=no_model)
    assert " ".join(str(getattr(group[0], "text", "")) for group in trimmed.groups) == kept
