"""Price sources for programs that call models without a run."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from pydantic import BaseModel

from treadle import ConfigurationError, Host, Offer, Settings, Usage, hookimpl
from treadle.api import price_sources


class Table(BaseModel):
    model: float


class Listed:
    """Takes the block."""

    settings_model = Table

    def __init__(self, table: Table) -> None:
        self.table = table

    def price(
        self, *, provider: str, model: str, usage: Usage, kind: str = "", base_url: str | None = None
    ) -> float | None:
        return self.table.model


class Plain(Listed):
    """Takes nothing."""

    settings_model = None  # type: ignore[assignment]

    def __init__(self) -> None:
        super().__init__(Table(model=7))


class Plugin:
    @hookimpl
    def treadle_price_sources(self) -> Mapping[str, Offer]:
        return {"b": Offer(Plain, "b"), "a": Offer(Listed, "a")}


def told(sources: object) -> list[float | None]:
    assert isinstance(sources, list)
    return [each.price(provider="p", model="m", usage=Usage()) for each in sources]


def test_they_are_made_as_the_settings_say_or_of_the_prices_that_are_given() -> None:
    host = Host.of({"prices": Plugin()}, settings=Settings(prices={"model": 1}))
    assert told(price_sources(host)) == [1, 7]
    assert told(price_sources(host, block={"model": 2})) == [2, 7]
    assert price_sources(Host.of({})) == []


def test_prices_that_are_wrong_are_told_where_they_stand(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host.of({"prices": Plugin()})
    with pytest.raises(ConfigurationError, match=r"^prices\.model: Input should be a valid number"):
        price_sources(host, block={"model": "dear"})
    monkeypatch.setattr("treadle.api.default_host", lambda: host)
    with pytest.raises(ConfigurationError, match=r"^settings: prices\.model: Field required"):
        price_sources()
