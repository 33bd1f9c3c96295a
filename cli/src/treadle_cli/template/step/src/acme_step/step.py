"""The step ``my_step``."""

from __future__ import annotations

from pydantic import Field

from treadle import Step, StepContext, StepOutcome, Template

__all__ = ["AcmeStep"]


class AcmeStep(Step):
    """Write a text in capitals.

    The fields are those of the YAML file. ``id``, ``type``, ``depends_on``, ``output``, ``timeout`` and ``retry`` come
    from ``Step``.
    """

    text: Template = Field(description="the text, e.g. Hello {state.name}")

    async def run(self, ctx: StepContext) -> StepOutcome:
        """Fill the template in and give the text; the engine writes it to ``output``."""
        return StepOutcome(value=ctx.render(self.text).upper())
