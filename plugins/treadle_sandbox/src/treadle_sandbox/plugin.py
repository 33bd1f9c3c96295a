"""What treadle-sandbox offers. Imports nothing that it offers."""

from __future__ import annotations

from collections.abc import Mapping

from treadle import Offer, hookimpl

__all__ = ["treadle_sandboxes"]


@hookimpl
def treadle_sandboxes() -> Mapping[str, Offer]:
    """The sandbox ``policy``."""
    return {
        "policy": Offer(
            "treadle_sandbox.policy:PolicySandbox", "Files, commands and HTTP for tools, under config.sandbox"
        )
    }
