"""Budgets: who is asked before a model call is paid for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Protocol

from treadle._dataclasses import dataclass
from treadle.messages import EmbedRequest, ModelRequest, Usage

if TYPE_CHECKING:
    from treadle.contracts.config import RunConfig
    from treadle.contracts.memory import TokenCounter
    from treadle.errors import BudgetExceededError

__all__ = ["Budget", "BudgetTerms", "PlannedCall"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetTerms:
    """What one budget is to hold, and for whom.

    :param limit_usd: the most that may be spent, in US dollars.
    :param whose: for messages: ``the run``, ``step 'draft'``, ``agent 'desk'``.
    :param run_id: the run that it belongs to, or whose step it belongs to; empty where several runs share it.
    :param step_id: that step; empty where it is the whole run's.
    :param spent_usd: what earlier processes of the run have spent of it.
    :param soft: whether a call that does not fit is made all the same once nothing else of it is under way and
        something is left; calls of unknown price are then not counted. So with ``max_cost_usd`` of agents.
    :param config: of the run; None where several share it.
    :param warn: tells the run's owner something.
    :param exceeded: to be called where calls have cost more than was reserved for them and the limit is broken.
    """

    limit_usd: float
    whose: str
    run_id: str = ""
    step_id: str = ""
    spent_usd: float = 0.0
    soft: bool = False
    config: RunConfig | None = None
    warn: Callable[[str], None] = lambda _message: None
    exceeded: Callable[[BudgetExceededError], None] = lambda _error: None


@dataclass(slots=True, kw_only=True, eq=False)
class PlannedCall:
    """A call of a model that is about to be made, at one provider.

    :param step: whose it is, dotted from the outermost run.
    :param request: what will be sent; a budget may put another in its place, as with a smaller ``max_tokens``.
    :param price: what a usage of that model costs in US dollars, None where nobody knows.
    :param counter: the token counter of this deployment, None where there is none.
    :param known_usd: what the call will cost, where the provider knows that beforehand.
    :param reserved_usd: the most that it may cost; filled in by the budget.
    :param usage: what the reply came to; filled in by the engine before it settles.
    :param cost_usd: what it has cost, filled in with it: 0 where nothing was to pay; None where something may have
        been, and nobody said how much.
    """

    step: str
    provider: str
    request: ModelRequest | EmbedRequest
    price: Callable[[Usage], Awaitable[float | None]]
    counter: TokenCounter | None = None
    known_usd: float | None = None
    reserved_usd: float = 0.0
    usage: Usage | None = None
    cost_usd: float | None = None


class Budget(Protocol):
    """Keeps what it stands for within a limit, by reserving the most that each call may cost.

    One is made for each limit that is set: of a run (``config.budget_usd``), of a step (its ``budget_usd``), or by
    :meth:`StepContext.within_budget`. A call is held to all that stand around it, the outermost first.
    """

    async def reserve(self, call: PlannedCall) -> None:
        """Set aside the most that the call may cost. May wait for others to be settled, and may change its request.

        :raises BudgetExceededError: there is not enough left, and waiting would not help.
        :raises ConfigurationError: nobody knows the price; where there is another candidate, that one is asked.
        """
        ...

    def settle(self, call: PlannedCall) -> None:
        """The call has ended: give back what it has not cost. Called once for each one reserved, however it ended."""
        ...
