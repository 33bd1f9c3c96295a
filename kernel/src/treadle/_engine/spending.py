"""Budgets around the calls of a run: reserved before, settled after."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from treadle._dataclasses import dataclass
from treadle.contracts.budget import Budget, BudgetTerms, PlannedCall
from treadle.messages import EmbedRequest, ModelRequest, Usage

if TYPE_CHECKING:
    from treadle._engine.gateway import CallSite
    from treadle._engine.run import Run
    from treadle.contracts.provider import Provider
    from treadle.contracts.step import Step

__all__ = ["Reservation", "budgets_of_run", "budgets_of_step"]


def budgets_of_run(run: Run, outer: Sequence[Budget]) -> Sequence[Budget]:
    """All that hold the run, outermost first: those around it, and its own where its config sets one."""
    limit = run.config.budget_usd
    if limit is None:
        return outer
    terms = BudgetTerms(
        limit_usd=limit,
        whose=f"run {run.run_id}" if run._parent else "the run",
        run_id=run.run_id,
        spent_usd=run.spent_before(""),
        config=run.config,
        warn=partial(run.warn, None),
        exceeded=run.halt,
    )
    return (*outer, run.session.new_budget(terms))


def budgets_of_step(run: Run, step: Step) -> Sequence[Budget]:
    """All that hold a step with a budget, in all its attempts: the run's, and its own."""
    assert step.budget_usd is not None
    terms = BudgetTerms(
        limit_usd=step.budget_usd,
        whose=f"step '{step.id}'",
        run_id=run.run_id,
        step_id=step.id,
        spent_usd=run.spent_before(step.id),
        config=run.config,
        warn=partial(run.warn, step.id),
    )
    return (*run.budgets, run.session.new_budget(terms))


@dataclass(slots=True, eq=False)
class Reservation:
    """What one call has set aside in every budget that holds it."""

    call: PlannedCall
    held: list[Budget]

    @classmethod
    async def of(cls, provider: Provider, request: ModelRequest | EmbedRequest, site: CallSite) -> Reservation:
        """Reserve, the outermost budget first.

        :raises BudgetExceededError: one of them refuses; nothing is then reserved anywhere.
        """
        session = site.run.session
        call = PlannedCall(
            step=site.run.path_of(site.step_id),
            provider=provider.name,
            request=request,
            price=partial(session.price, provider, request.model),
            counter=session.token_counter(),
            known_usd=provider.cost_of(request),
        )
        made = cls(call, [])
        try:
            for budget in site.budgets:
                await budget.reserve(call)
                made.held.append(budget)
        except BaseException:
            made.settle(0.0)
            raise
        return made

    def settle(self, cost_usd: float | None, usage: Usage | None = None) -> None:
        """Give back what the call has not cost; None where it may have cost something. The first time counts."""
        self.call.cost_usd, self.call.usage = cost_usd, usage
        while self.held:
            self.held.pop().settle(self.call)
