"""What treadle-policies offers."""

from __future__ import annotations

from collections.abc import Mapping

from treadle import LayerOffer, hookimpl


@hookimpl
def treadle_provider_layers() -> Mapping[str, LayerOffer]:
    """A circuit breaker around a rate limiter, for each provider."""
    return {
        "circuit_breaker": LayerOffer(
            "treadle_policies.breaker:CircuitBreaker",
            "Stops asking a provider that keeps failing",
            order=10,
            limits=True,
        ),
        "rate_limiter": LayerOffer(
            "treadle_policies.limiter:RateLimiter",
            "Holds a provider's requests and tokens per minute",
            order=20,
            limits=True,
        ),
    }
