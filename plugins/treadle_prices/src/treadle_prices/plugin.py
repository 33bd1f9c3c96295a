"""What treadle-prices offers."""

from __future__ import annotations

from collections.abc import Mapping

from treadle import Offer, hookimpl


@hookimpl
def treadle_price_sources() -> Mapping[str, Offer]:
    """The price source ``genai_prices``."""
    return {"genai_prices": Offer("treadle_prices.source:GenaiPrices", "Vendors' list prices, kept up by genai-prices")}
