"""The router: conditions in order, the first true one wins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from treadle import Expression, Step, StepContext, StepError, StepOutcome

__all__ = ["Condition", "Router"]


class Condition(BaseModel):
    """One way on."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    expression: Expression = Field(description="taken where this is true, e.g. state.score > 80")
    target: str = Field(description="the step that then runs")


class Router(Step):
    """Choose which of several steps run next.

    Conditions are tried in order and the first true one names the target; where none is true it is ``default``.
    The steps named by the others are skipped, and so is what follows them only. ``output`` receives the target.
    """

    conditions: tuple[Condition, ...] = Field(default=(), description="tried in order; the first true one wins")
    default: str | None = Field(
        default=None, description="the target where no condition is true; the step fails there without it"
    )

    @model_validator(mode="after")
    def _has_a_way(self) -> Self:
        if not self.conditions and self.default is None:
            raise ValueError("a router needs conditions or a default")
        return self

    def targets(self) -> Mapping[str, str]:
        """Each target with its condition as label; one named twice has the first label."""
        labels: dict[str, str] = {}
        for condition in self.conditions:
            labels.setdefault(condition.target, condition.expression.source)
        if self.default is not None:
            labels.setdefault(self.default, "default")
        return labels

    def target_fields(self) -> Mapping[str, str]:
        """Where targets are named."""
        fields = {f"conditions.{index}.target": each.target for index, each in enumerate(self.conditions)}
        return fields if self.default is None else {**fields, "default": self.default}

    async def run(self, ctx: StepContext) -> StepOutcome:
        """Choose.

        :raises ExpressionError: a condition cannot be evaluated.
        :raises StepError: no condition is true and there is no default.
        """
        chosen = self.default
        for condition in self.conditions:
            if ctx.evaluate(condition.expression):
                chosen = condition.target
                break
        if chosen is None:
            raise StepError("no condition is true and there is no default", hint="add a default")
        return StepOutcome(value=chosen, not_taken=frozenset(self.targets()) - {chosen})
