"""What treadle-policies offers."""

from __future__ import annotations

from collections.abc import Mapping

from treadle import ConfigOffer, LayerOffer, Offer, hookimpl


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


@hookimpl
def treadle_budgets() -> Mapping[str, Offer]:
    """The budget ``reserving``."""
    return {"reserving": Offer("treadle_policies.budget:ReservingBudget", "Sets aside the most that a call may cost")}


@hookimpl
def treadle_config_fields() -> Mapping[str, ConfigOffer]:
    """What a budget does about models of unknown price."""
    return {
        "unknown_price": ConfigOffer(
            "treadle_policies.unknown_price:UnknownPrice", "What a budget does about a model of unknown price"
        )
    }
