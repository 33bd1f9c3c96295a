"""Prices of one model, and what a usage costs by them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from treadle import Usage

__all__ = ["Price", "cost"]

_MILLION = 1_000_000

Rate = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Price(BaseModel):
    """What a model costs, in US dollars for a million tokens.

    A part without a price of its own costs what the whole of which it is a part costs: cached tokens are input,
    reasoning is output; what is written to a cache for an hour costs what is written for the usual time.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    input: Rate = Field(description="for tokens read")
    output: Rate | None = Field(default=None, description="for tokens written; a model without it writes none")
    cache_read: Rate | None = Field(default=None, description="for tokens read from a cache")
    cache_write: Rate | None = Field(default=None, description="for tokens written to a cache")
    cache_write_1h: Rate | None = Field(default=None, description="for tokens written to a cache for an hour")
    reasoning: Rate | None = Field(default=None, description="for tokens written while reasoning")


def cost(usage: Usage, price: Price) -> float | None:
    """US dollars. None where a count is unknown that must be known: that of a whole, or of a part that has a price of
    its own. None too where the parts are more than the whole, as then one of them is not what it is called."""
    hour = price.cache_write if price.cache_write_1h is None else price.cache_write_1h
    read = _side(
        usage.input_tokens,
        price.input,
        [
            (usage.cache_read_tokens, price.cache_read),
            (usage.cache_write_tokens, price.cache_write),
            (usage.cache_write_1h_tokens, hour),
        ],
    )
    written = _side(usage.output_tokens, price.output, [(usage.reasoning_tokens, price.reasoning)])
    return None if read is None or written is None else (read + written) / _MILLION


def _side(whole: int | None, rate: float | None, parts: Sequence[tuple[int | None, float | None]]) -> float | None:
    if whole == 0:
        return 0.0
    if rate is None:
        return None
    apart = [(count, own) for count, own in parts if own is not None and own != rate]
    if whole is None:
        return 0.0 if rate == 0 and not apart else None
    rest, total = whole, 0.0
    for count, own in apart:
        if count is None:
            return None
        rest -= count
        total += count * own
    return None if rest < 0 else total + rest * rate
