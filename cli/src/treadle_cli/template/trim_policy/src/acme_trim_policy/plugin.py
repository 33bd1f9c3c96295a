"""What acme-trim-policy offers. Nothing is imported from here until it is used."""

from __future__ import annotations

from collections.abc import Mapping

from treadle import Offer, hookimpl


@hookimpl
def treadle_trim_policies() -> Mapping[str, Offer]:
    """The trim policy ``my_trim_policy``."""
    return {"my_trim_policy": Offer("acme_trim_policy.policy:AcmeTrimPolicy", "Keep the newest turns that fit")}


@hookimpl
def treadle_step_types() -> Mapping[str, Offer]:
    """A step that shows what the policy keeps."""
    return {"my_trim_policy_preview": Offer("acme_trim_policy.preview:Preview", "Show what a trim policy keeps")}
