"""What this plugin offers. Imports nothing heavy."""

from __future__ import annotations

from collections.abc import Mapping

from treadle import ProviderOffer, hookimpl


@hookimpl
def treadle_providers() -> Mapping[str, ProviderOffer]:
    """The provider ``local``. Its default model is the file that is found, so the offer names none."""
    return {
        "local": ProviderOffer(
            "treadle_local.provider:LocalProvider", "A small model in this process, no key and no network"
        )
    }
