"""The step ``loop``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from pydantic import Field

from treadle import DocumentCheck, Expression, RunStatus, StepContext, StepError, StepOutcome
from treadle_flow.body import BodyStep, Name, written_by
from treadle_flow.results import failure, names_at_end

__all__ = ["Loop"]


class Loop(BodyStep):
    """Run the body again until an expression over its state holds. ``output`` receives what the last time made.

    Each time is a child run over the state that the step sees, and over what the time before has written.
    """

    until: Expression = Field(description="tried after each time, over the body's state and steps")
    max_iterations: int = Field(default=10, ge=1, strict=True, le=100_000, description="most times")
    on_max: Literal["fail", "stop"] = Field(
        default="fail", description="where it does not hold after those: fail, or go on with what there is"
    )
    index: Name = Field(default="index", description="what the number of the time, from 0, is called inside the body")

    def expressions_at_end(self) -> Iterator[tuple[str, Expression]]:
        """Besides the result's, the one that ends the loop."""
        yield "until", self.until
        yield from super().expressions_at_end()

    def check_document(self, check: DocumentCheck) -> None:
        """Have the body checked, which goes on from what it wrote itself."""
        self.check_body(check, (self.index,), repeats=True)

    async def run(self, ctx: StepContext) -> StepOutcome:
        """Run the body until it is enough.

        :raises StepError: a time failed, or the most there may be were not enough.
        :raises ExpressionError: ``until`` cannot be evaluated.
        """
        body = ctx.workflow(self.body_field)
        shown = self.shown_names(ctx, "index")
        written: dict[str, Any] = {}
        number = 0
        while True:
            state = {**written, **{getattr(self, field): number for field in shown}}
            result = await ctx.run_child(body, key=str(number), state=state, inherit=True)
            if result.status is RunStatus.PAUSED:
                return StepOutcome()  # the engine knows what for
            if result.status is not RunStatus.SUCCESS:
                raise failure(result, f"iteration {number}: ", again=self.retry.max_retries is not None)
            written |= written_by(body, result)
            if ctx.evaluate(self.until, names_at_end(result)):
                break
            number += 1
            if number == self.max_iterations:
                self._note_enough(ctx)
                break
        return StepOutcome(value=self.value_of(ctx, body, result))

    def _note_enough(self, ctx: StepContext) -> None:
        text = f"`{self.until.source}` was not true after {self.max_iterations} iterations"
        if self.on_max == "fail":
            raise StepError(text, hint="raise max_iterations, or say on_max: stop")
        ctx.warn(f"{text}; the last one's result is taken")
