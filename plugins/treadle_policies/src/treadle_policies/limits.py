"""The ``limits:`` of a provider in ``treadle.yaml``."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, field_validator

__all__ = ["BreakerLimits", "ProviderLimits"]

_STRICT = ConfigDict(extra="forbid", frozen=True)


class BreakerLimits(BaseModel):
    """When a provider is no longer asked, and for how long."""

    model_config = _STRICT

    failures: int = Field(default=5, ge=1, description="failures in a row after which the provider is not asked")
    cooldown: float = Field(
        default=60.0, gt=0, allow_inf_nan=False, description="seconds after which one request tries again"
    )


class ProviderLimits(BaseModel):
    """How often one provider may be asked. What is not set is not limited."""

    model_config = _STRICT

    requests_per_minute: int | None = Field(default=None, ge=1, description="most requests in any 60 seconds")
    tokens_per_minute: int | None = Field(
        default=None, ge=1, description="most tokens in any 60 seconds, those of replies included"
    )
    max_concurrent: int | None = Field(default=None, ge=1, description="most requests under way at once")
    adaptive: bool = Field(
        default=False,
        description="learn from refusals (429) how many requests may be under way at once; max_concurrent is the most",
    )
    breaker: BreakerLimits | None = Field(
        default=None, description="when the provider is no longer asked; {} for 5 failures and 60 seconds"
    )

    @field_validator("breaker", mode="before")
    @classmethod
    def _is_said(cls, value: Any) -> Any:
        if value is None:  # `breaker:` with nothing after it
            raise ValueError("write {} for a breaker as it is by default, or leave it out")
        return value
