"""The step ``my_trim_policy_preview``: what the policy keeps of a conversation, without any model."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from treadle import (
    AssistantMessage,
    Message,
    ModelRequest,
    ModelResponse,
    Reference,
    Step,
    StepContext,
    StepError,
    StepOutcome,
    UserMessage,
)

__all__ = ["Preview"]


class Preview(Step):
    """Show what a trim policy keeps: the turns are the user's and the model's, one after the other."""

    turns: tuple[str, ...] = Field(description="the texts of the conversation, oldest first, the user's to begin with")
    budget: int = Field(description="how many words may stay")
    policy: str = Field(default="my_trim_policy", description="the trim policy")

    def references(self) -> Sequence[Reference]:
        """So that ``treadle validate`` looks the policy up."""
        return [Reference(role="trim_policy", name=self.policy, field="policy")]

    async def run(self, ctx: StepContext) -> StepOutcome:
        """Trim, and give the texts that are left."""
        groups = [
            ((UserMessage if index % 2 == 0 else AssistantMessage).of(text),) for index, text in enumerate(self.turns)
        ]
        trimmed = await ctx.role("trim_policy", self.policy).trim(
            groups, budget=self.budget, summary=None, count=_words, complete=_no_model
        )
        return StepOutcome(value=[message.text for group in trimmed.groups for message in group])


def _words(messages: Sequence[Message]) -> int:
    return sum(len(str(getattr(message, "text", "")).split()) for message in messages)


async def _no_model(request: ModelRequest) -> ModelResponse:
    raise StepError("a preview asks no model")
