"""The ``thinking`` block."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from treadle import Reasoning

__all__ = ["Thinking"]


class Thinking(BaseModel):
    """Reasoning before the reply. What a provider does with each setting is in its own documentation."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    enabled: bool = Field(default=False, description="turn reasoning on; without it the block says nothing")
    budget_tokens: int | None = Field(
        default=None, ge=1, description="most tokens to reason with, where the provider takes a budget"
    )
    level: Literal["low", "medium", "high"] | None = Field(
        default=None, description="how much to reason, where the provider takes a level"
    )
    capture_reasoning: bool = Field(default=True, description="keep the readable reasoning in the step's result")

    def reasoning(self) -> Reasoning | None:
        """As a request has it; None where it is off."""
        if not self.enabled:
            return None
        return Reasoning(budget_tokens=self.budget_tokens, level=self.level, capture=self.capture_reasoning)
