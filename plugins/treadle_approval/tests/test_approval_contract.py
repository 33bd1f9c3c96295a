"""The gate is held to the contract of steps."""

from __future__ import annotations

import pytest

from treadle.testing import check_plugin, check_step
from treadle_approval.step import ApprovalGate


async def test_the_plugin() -> None:
    await check_plugin(
        "treadle_approval.plugin", offers={"step_type": ["approval_gate"], "config_field": ["callback_url"]}
    )


@pytest.mark.parametrize(
    ("fields", "answer"),
    [
        ({}, "rejected"),
        ({"question": "Hi {state.who}?", "choices": ["a", "b"]}, "b"),
        ({"choices": []}, "any text"),
    ],
)
async def test_the_step(fields: dict[str, object], answer: str) -> None:
    expect = {"x": answer}
    await check_step(ApprovalGate, {"output": "x", **fields}, state={"who": "ann"}, answers={"": answer}, expect=expect)
