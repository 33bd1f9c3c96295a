"""What ``treadle plugins check`` and the tests hold this plugin to. Nothing else imports it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from acme_trim_policy.policy import AcmeTrimPolicy
from acme_trim_policy.preview import Preview
from treadle.testing import check_step, check_trim_policy, offering

__all__ = ["contract_checks"]


def contract_checks() -> Mapping[str, Callable[[], Awaitable[None]]]:
    """Each check with what it is about."""
    fields = {"turns": ["one two", "three", "four five"], "budget": 3, "output": "kept"}
    policy = offering({"trim_policy": {"my_trim_policy": AcmeTrimPolicy}})
    return {
        "trim policy my_trim_policy": lambda: check_trim_policy(AcmeTrimPolicy),
        "step my_trim_policy_preview": lambda: check_step(
            Preview, fields, plugins={"policy": policy}, expect={"kept": ["four five"]}
        ),
    }
