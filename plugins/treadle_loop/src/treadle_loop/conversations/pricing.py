"""What model calls cost."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import treadle
from treadle_loop.errors import ConfigurationError

if TYPE_CHECKING:
    import trio

__all__ = ["Prices"]

_log = logging.getLogger("treadle_loop")


class Prices:
    """Asks price sources. What none of them knows is unknown, never 0.

    :param given: None for what is installed; a mapping of prices, as under ``prices:`` in ``treadle.yaml``, for what is
        installed to read; or a price source, or several, of one's own. Empty for none.
    :raises ConfigurationError: nothing is installed that reads the mapping, or what is given knows no prices.
    """

    def __init__(self, given: Any = None) -> None:
        self._block: Mapping[str, Any] | None = None
        self._sources: Sequence[treadle.PriceSource] | None = None
        self._loaded: trio.Event | None = None
        if isinstance(given, Mapping):
            self._block = given
            if not treadle.default_host().registry.names("price_source"):
                raise ConfigurationError("nothing is installed that reads prices=", hint="pip install treadle-prices")
        elif given is not None:
            sources = (given,) if hasattr(given, "price") else given
            if not isinstance(sources, Sequence) or not all(hasattr(each, "price") for each in sources):
                raise ConfigurationError(
                    "prices= takes a mapping of prices, or price sources, which have a method price(); not "
                    f"{type(given).__name__}"
                )
            self._sources = sources

    async def load(self) -> None:
        """On trio: have the sources at hand, in a thread: what they bring along may be large.

        Where that fails, costs are unknown and a warning says why: a reply that is paid for is not lost for its price.
        """
        import trio

        from treadle.api import price_sources

        while self._sources is None:
            if self._loaded is not None:
                await self._loaded.wait()
                continue
            self._loaded = trio.Event()
            try:
                self._sources = await trio.to_thread.run_sync(
                    lambda: price_sources(block=self._block), abandon_on_cancel=True
                )
            except treadle.TreadleError as error:
                _log.warning("costs are not known: %s", error)
                self._sources = ()
            finally:  # where this was cancelled, the next who needs them begins anew
                self._loaded.set()
                self._loaded = None

    async def cost(self, provider: treadle.Provider, *, kind: str, model: str, usage: treadle.Usage) -> float | None:
        """US dollars, None where nobody knows.

        :param kind: the provider that it is, whatever it is called here.
        """
        known = provider.known_cost(model)
        if known is not None:
            return known
        await self.load()
        base_url = getattr(provider.settings, "base_url", None)
        for source in self._sources or ():
            price = source.price(provider=provider.name, model=model, usage=usage, kind=kind, base_url=base_url)
            if price is not None:
                return price
        return None
