"""The key ``unknown_price`` of a workflow's ``config:`` block."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

__all__ = ["Rates", "UnknownPrice"]


class Rates(BaseModel):
    """What models of unknown price are taken to cost, in US dollars for a million tokens."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    input: float = Field(ge=0, allow_inf_nan=False, description="for tokens read")
    output: float = Field(ge=0, allow_inf_nan=False, description="for tokens written")


UnknownPrice = Annotated[
    Literal["error", "warn"] | Rates,
    Field(
        description="what a budget does about a model whose price nobody knows: error refuses the call, warn does not "
        "count it, {input: 1, output: 4} takes it to cost that, in US dollars for a million tokens"
    ),
]
