"""The price source: a deployment's own prices first, then those of genai-prices."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from importlib import import_module
from typing import Any, ClassVar

from treadle import Usage
from treadle_prices.price import Price, cost
from treadle_prices.table import PriceTable

__all__ = ["GenaiPrices"]

_THOUSAND = 1000


class GenaiPrices:
    """Vendors' list prices, as genai-prices ships them: nothing is fetched, so they are as new as the package.

    Making one imports the data, which takes its time; the kernel does so in a thread.
    """

    settings_model: ClassVar[type[PriceTable]] = PriceTable

    def __init__(self, table: PriceTable | None = None) -> None:
        self._table = table or PriceTable()
        self._data: Any = import_module("genai_prices.data_snapshot").get_snapshot()
        self._find = lru_cache(maxsize=1024)(self._look_up)

    def price(
        self, *, provider: str, model: str, usage: Usage, kind: str = "", base_url: str | None = None
    ) -> float | None:
        """US dollars, or None where nobody knows the model or a count is unknown that must be known."""
        own = self._table.find(provider, model)
        if own is not None:
            return cost(usage, own)
        listed = self._find(kind or provider, base_url, model.removeprefix("models/"))
        if listed is None:
            return None
        rates = vars(listed.get_prices(datetime.now(UTC)))
        try:
            found = _price(rates, usage)
        except LookupError:
            return None
        tokens = cost(usage, found)
        return None if tokens is None else tokens + float(rates.get("requests_kcount") or 0) / _THOUSAND

    def _look_up(self, kind: str, base_url: str | None, model: str) -> Any:
        """The model's entry. A server's address says whose prices hold; else the provider's kind does."""
        vendor: str | None = kind
        if base_url is not None:
            try:
                return self._data.find_provider_model(model, None, None, base_url)[1]
            except LookupError:
                pass  # a server that nobody lists
        if kind == "generic_openai":
            # Names such as `openai/gpt-4o` are OpenRouter's. At an address of one's own they are not its prices.
            if base_url is not None or "/" not in model:
                return None
            vendor = "openrouter"
        try:
            return self._data.find_provider_model(model, None, vendor, None)[1]
        except LookupError:
            return None


def _price(rates: dict[str, Any], usage: Usage) -> Price:
    """The prices that hold for a usage: some grow with the size of the input, and then for all of it.

    :raises LookupError: none is known for the input, or its size is needed and unknown.
    """

    def rate(*names: str) -> float | None:
        value = next((rates[name] for name in names if rates.get(name) is not None), None)
        tiers = getattr(value, "tiers", None)
        if value is None or tiers is None:
            return None if value is None else float(value)
        if usage.input_tokens is None:
            raise LookupError("the tier depends on the size of the input")
        reached = [tier.price for tier in tiers if usage.input_tokens > tier.start]
        return float(reached[-1] if reached else value.base)

    read = rate("input_mtok")
    if read is None:
        raise LookupError("no price for tokens read")
    return Price(
        input=read,
        output=rate("output_mtok"),
        cache_read=rate("cache_read_mtok"),
        cache_write=rate("cache_write_5m_mtok", "cache_write_mtok"),
        cache_write_1h=rate("cache_write_1h_mtok"),
        reasoning=rate("output_reasoning_mtok"),
    )
