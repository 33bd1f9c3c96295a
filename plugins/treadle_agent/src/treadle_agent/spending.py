"""What a turn has spent, and the turns above it with it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from treadle import ModelResponse, StepError

__all__ = ["Spending"]


@dataclass(slots=True, eq=False)
class Spending:
    """Counts what the model calls of one turn cost, those of agents that it uses included.

    :param agent: whose turn it is.
    :param limit: the most that the turn may spend, in US dollars.
    :param above: the turn that called this agent.
    """

    agent: str
    limit: float | None
    warn: Callable[[str], None]
    above: Spending | None = None
    spent: float = 0.0
    _is_unknown: bool = field(default=False)

    def add(self, response: ModelResponse) -> None:
        """Count a reply, here and above.

        :raises StepError: it breaks a limit.
        """
        turn: Spending | None = self
        while turn is not None:
            if response.cost_usd is None:
                turn._unknown(response.model)
            else:
                turn.spent += response.cost_usd
            turn = turn.above
        self.check()

    def check(self, *, before_a_call: bool = False) -> None:
        """Fail where a limit is broken, or where a further call would break it for certain.

        :raises StepError: naming the agent whose limit it is.
        """
        turn: Spending | None = self
        while turn is not None:
            if turn.limit is not None and (
                turn.spent > turn.limit or (before_a_call and turn.spent == turn.limit and turn.spent > 0)
            ):
                raise StepError(
                    f"agent '{turn.agent}' has spent ${turn.spent:.6g}, and its constraints.max_cost_usd is "
                    f"${turn.limit:g}"
                )
            turn = turn.above

    def _unknown(self, model: str) -> None:
        if self.limit is not None and not self._is_unknown:
            self._is_unknown = True
            self.warn(f"agent '{self.agent}': nobody knows the price of '{model}', so max_cost_usd does not count it")
