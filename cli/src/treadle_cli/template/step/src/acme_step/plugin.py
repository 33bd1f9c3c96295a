"""What acme-step offers. Nothing is imported from here until it is used."""

from __future__ import annotations

from collections.abc import Mapping

from treadle import Offer, hookimpl


@hookimpl
def treadle_step_types() -> Mapping[str, Offer]:
    """The step type ``my_step``."""
    return {"my_step": Offer("acme_step.step:AcmeStep", "Write a text in capitals")}
