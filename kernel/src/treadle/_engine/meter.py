"""What a step has spent."""

from __future__ import annotations

from treadle._dataclasses import dataclass
from treadle.messages import ModelResponse, Usage

__all__ = ["Meter"]


@dataclass(slots=True)
class Meter:
    """Counts the model calls of one step, failed attempts included. Unknown stays unknown.

    What a step of a child run spends is at once spent by the parent step too, ``outer``, and so on outward.
    """

    usage: Usage = Usage.ZERO
    cost_usd: float | None = 0.0
    model: str | None = None
    provider: str | None = None
    finish_reason: str | None = None
    time_to_first_token_ms: float | None = None
    outer: Meter | None = None

    def add(self, usage: Usage, cost_usd: float | None) -> None:
        """Count something spent."""
        meter: Meter | None = self
        while meter is not None:
            if usage is not Usage.ZERO:
                meter.usage = meter.usage + usage
            meter.cost_usd = None if meter.cost_usd is None or cost_usd is None else meter.cost_usd + cost_usd
            meter = meter.outer

    def add_response(self, response: ModelResponse) -> None:
        """Count a whole response."""
        self.add(response.usage, response.cost_usd)
        self.model, self.provider = response.model, response.provider
        self.finish_reason = response.finish_reason
