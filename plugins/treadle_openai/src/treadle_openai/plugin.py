"""What this plugin offers. Nothing is imported from here until it is used."""

from __future__ import annotations

from collections.abc import Mapping

from treadle.contracts.offers import ProviderOffer
from treadle.hookspecs import hookimpl


@hookimpl
def treadle_providers() -> Mapping[str, ProviderOffer]:
    """The two providers."""
    return {
        "openai": ProviderOffer(
            "treadle_openai.provider:OpenAIProvider",
            "OpenAI's models (Chat Completions or Responses), through the official SDK",
            default_model="gpt-4o-mini",
            is_default=True,
        ),
        "generic_openai": ProviderOffer(
            "treadle_openai.provider:GenericOpenAIProvider",
            "Any server that speaks OpenAI's Chat Completions (vLLM, llama.cpp, LM Studio, OpenRouter, gateways)",
        ),
    }
