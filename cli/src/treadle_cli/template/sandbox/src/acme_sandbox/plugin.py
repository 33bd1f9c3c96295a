"""What acme-sandbox offers. Nothing is imported from here until it is used."""

from __future__ import annotations

from collections.abc import Mapping

from treadle import Offer, hookimpl


@hookimpl
def treadle_sandboxes() -> Mapping[str, Offer]:
    """The sandbox ``my_sandbox``."""
    return {"my_sandbox": Offer("acme_sandbox.sandbox:AcmeSandbox", "Files below one folder; no commands, no network")}
