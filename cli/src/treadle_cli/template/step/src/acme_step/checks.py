"""What ``treadle plugins check`` and the tests hold this plugin to. Nothing else imports it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from acme_step.step import AcmeStep
from treadle.testing import check_step

__all__ = ["contract_checks"]


def contract_checks() -> Mapping[str, Callable[[], Awaitable[None]]]:
    """Each check with what it is about."""
    fields = {"text": "Hello {state.name}", "output": "greeting"}
    return {
        "step my_step": lambda: check_step(AcmeStep, fields, state={"name": "Ada"}, expect={"greeting": "HELLO ADA"}),
    }
