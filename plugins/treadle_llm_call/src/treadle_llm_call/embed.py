"""The step ``embed``: texts as vectors."""

from __future__ import annotations

from pydantic import Field, field_validator

from treadle import EmbedRequest, StateError, StatePath, Step, StepContext, StepOutcome
from treadle.fields import MISSING, look_up

__all__ = ["Embed"]


class Embed(Step):
    """Turn texts of the state into vectors. ``output`` receives a list of them, one for each text, in order.

    The step's own output says how many there are and how long they are.
    """

    needs = ("provider",)

    inputs: StatePath = Field(description="state path of a text or a list of texts, as state.documents")
    model: str | None = Field(default=None, min_length=1, description="the model; config.model without it")
    dimensions: int | None = Field(default=None, ge=1, description="how long a vector is; the model's own without it")

    @field_validator("inputs", mode="before")
    @classmethod
    def _is_of_the_state(cls, inputs: object) -> object:
        if not isinstance(inputs, str):
            return inputs
        path = inputs.strip()
        if path.startswith("{") and path.endswith("}"):
            path = path[1:-1].strip()
        if not path.startswith("state."):
            raise ValueError(f"'{path}' must begin with 'state.', as state.documents")
        if "[" in path:
            raise ValueError(f"'{path}' must name a key and not an entry of a list, as state.documents")
        return path

    async def run(self, ctx: StepContext) -> StepOutcome:
        """Ask for the vectors; without texts, nobody is asked.

        :raises StateError: what is there is neither a text nor a list of texts.
        :raises ProviderError: the call failed, or the provider has no embeddings.
        """
        texts = self._texts(ctx)
        if not texts:
            return StepOutcome(value=[], raw="0 vectors x 0")
        response = await ctx.embed(
            EmbedRequest(
                model=self.model or ctx.config.model or "", inputs=texts, dimensions=self.dimensions, key=self.id
            )
        )
        vectors = [list(each) for each in response.vectors]
        return StepOutcome(value=vectors, raw=f"{len(vectors)} vectors x {len(vectors[0])}")

    def _texts(self, ctx: StepContext) -> tuple[str, ...]:
        found = look_up(ctx.state, self.inputs.parts)
        if found is MISSING:
            raise StateError(f"inputs: nothing is at 'state.{self.inputs}'", hint="it takes a text or a list of texts")
        if isinstance(found, str):
            return (found,)
        if not isinstance(found, list | tuple):
            raise StateError(f"inputs: 'state.{self.inputs}' is neither a text nor a list of texts")
        for number, each in enumerate(found):
            if not isinstance(each, str):
                raise StateError(f"inputs: 'state.{self.inputs}[{number}]' is no text")
        return tuple(found)
