"""What treadle-approval offers."""

from __future__ import annotations

from collections.abc import Mapping

from treadle import ConfigOffer, Offer, hookimpl


@hookimpl
def treadle_step_types() -> Mapping[str, Offer]:
    """The step type ``approval_gate``."""
    return {"approval_gate": Offer("treadle_approval.step:ApprovalGate", "Wait for a person's answer")}


@hookimpl
def treadle_config_fields() -> Mapping[str, ConfigOffer]:
    """The key ``callback_url``."""
    return {
        "callback_url": ConfigOffer(
            "treadle_approval.config_fields:CallbackUrl", "Where `treadle serve` is reached, for webhooks to say so"
        )
    }
