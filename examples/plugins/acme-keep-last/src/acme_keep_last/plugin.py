"""What acme-keep-last offers. Nothing is imported from here until it is used."""

from __future__ import annotations

from collections.abc import Mapping

from treadle import Offer, hookimpl


@hookimpl
def treadle_trim_policies() -> Mapping[str, Offer]:
    """The trim policy ``acme_keep_last``."""
    return {"acme_keep_last": Offer("acme_keep_last.policy:AcmeKeepLast", "Keep the last three exchanges")}
