"""What a step has spent."""

from __future__ import annotations

from dataclasses import dataclass

from treadle.messages import ModelResponse, Usage

__all__ = ["Meter"]


@dataclass(slots=True)
class Meter:
    """Counts the model calls of one step, failed attempts included. Unknown stays unknown."""

    usage: Usage = Usage.ZERO
    cost_usd: float | None = 0.0
    model: str | None = None
    provider: str | None = None
    finish_reason: str | None = None
    time_to_first_token_ms: float | None = None

    def add(self, usage: Usage, cost_usd: float | None) -> None:
        """Count something spent."""
        if usage is not Usage.ZERO:
            self.usage = self.usage + usage
        self.cost_usd = None if self.cost_usd is None or cost_usd is None else self.cost_usd + cost_usd

    def add_response(self, response: ModelResponse) -> None:
        """Count a whole response."""
        self.add(response.usage, response.cost_usd)
        self.model, self.provider = response.model, response.provider
        self.finish_reason = response.finish_reason

    def add_unknown(self) -> None:
        """Count a call that was begun and not heard to its end: it cost something, and nobody said what."""
        self.add(Usage(), None)
