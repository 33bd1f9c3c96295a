"""What acme-provider offers. Nothing is imported from here until it is used."""

from __future__ import annotations

from collections.abc import Mapping

from treadle import ProviderOffer, hookimpl


@hookimpl
def treadle_providers() -> Mapping[str, ProviderOffer]:
    """The provider ``my_provider``."""
    return {
        "my_provider": ProviderOffer(
            "acme_provider.provider:AcmeProvider", "Repeats what it is told", default_model="parrot-1"
        )
    }
