"""What treadle-ollama offers."""

from __future__ import annotations

from collections.abc import Mapping

from treadle import ProviderOffer, hookimpl


@hookimpl
def treadle_providers() -> Mapping[str, ProviderOffer]:
    """The provider ``ollama``."""
    return {
        "ollama": ProviderOffer(
            "treadle_ollama.provider:OllamaProvider",
            "Models of an Ollama server, through its chat API",
        )
    }
