"""What treadle-anthropic offers."""

from __future__ import annotations

from collections.abc import Mapping

from treadle import ProviderOffer, hookimpl


@hookimpl
def treadle_providers() -> Mapping[str, ProviderOffer]:
    """The provider ``anthropic``."""
    return {
        "anthropic": ProviderOffer(
            "treadle_anthropic.provider:AnthropicProvider",
            "Claude models, through Anthropic's Messages API",
            default_model="claude-sonnet-4-5",
        )
    }
