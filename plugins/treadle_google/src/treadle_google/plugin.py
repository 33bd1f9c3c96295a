"""What treadle-google offers."""

from __future__ import annotations

from collections.abc import Mapping

from treadle import ProviderOffer, hookimpl


@hookimpl
def treadle_providers() -> Mapping[str, ProviderOffer]:
    """The provider ``google``."""
    return {
        "google": ProviderOffer(
            "treadle_google.provider:GoogleProvider",
            "Gemini models, through Google's Gemini API",
            default_model="gemini-2.5-flash",
        )
    }
