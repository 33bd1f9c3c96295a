"""What ``treadle plugins check`` and the tests hold this plugin to. Nothing else imports it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from acme_tool.tool import my_tool
from treadle.testing import check_tool

__all__ = ["contract_checks"]


def contract_checks() -> Mapping[str, Callable[[], Awaitable[None]]]:
    """Each check with what it is about."""
    return {
        "tool my_tool": lambda: check_tool(
            my_tool, {"text": "one two"}, expect={"words": 2, "characters": 7}, failing=[{}, {"text": 3}]
        ),
    }
