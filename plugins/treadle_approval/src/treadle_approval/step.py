"""The step at which a run waits for a person."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import ConfigDict, Field, field_validator, model_validator

from treadle import Pending, Step, StepContext, StepOutcome, Template
from treadle_approval.webhook import Webhook

if TYPE_CHECKING:
    from typing import Self

    from treadle import DocumentCheck

__all__ = ["ApprovalGate"]

_APPROVAL = ("approved", "rejected")
_DECISIONS = {"approve": "approved", "reject": "rejected", "approved": "approved", "rejected": "rejected"}


class ApprovalGate(Step):
    """Pause the run until somebody has answered. ``output`` receives the answer.

    A rejection is an answer like another: the run goes on, and later steps look at it.
    """

    may_pause = True
    # For editors; what choices of one's own allow, only the checks know.
    model_config = ConfigDict(
        json_schema_extra={
            "if": {"not": {"required": ["choices"]}},
            "then": {"properties": {"on_timeout": {"enum": [*_DECISIONS, None], "description": "approved, rejected"}}},
        }
    )

    question: Template | None = Field(default=None, description="what is asked; a template")
    choices: tuple[str, ...] = Field(
        default=_APPROVAL, description="the answers there are: approved and rejected without it; any text with []"
    )
    notify: Webhook | None = Field(default=None, description="the webhook that tells somebody, once")
    timeout_seconds: float | None = Field(
        default=None, gt=0, strict=True, allow_inf_nan=False, description="how long it waits; for ever without it"
    )
    on_timeout: str | None = Field(
        default=None,
        description="the answer when nobody answered in time: approved or (the default) rejected, also written approve "
        "and reject; with choices of your own, one of them",
    )

    @field_validator("choices")
    @classmethod
    def _are_different(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if any(not each.strip() for each in value):
            raise ValueError("an answer must not be empty")
        if len(set(value)) < len(value):
            raise ValueError("an answer stands there twice")
        return value

    @model_validator(mode="after")
    def _times_out_with_an_answer(self) -> Self:
        if self._asks_for_approval:
            if self.on_timeout not in (None, *_DECISIONS):
                raise ValueError(f"on_timeout: must be approved or rejected, not '{self.on_timeout}'")
        elif self.timeout_seconds is not None and self.on_timeout is None:
            raise ValueError("on_timeout: say what the answer is when nobody answers in time")
        elif self.choices and self.on_timeout is not None and self.on_timeout not in self.choices:
            raise ValueError(f"on_timeout: must be one of {', '.join(self.choices)}, not '{self.on_timeout}'")
        return self

    @property
    def _asks_for_approval(self) -> bool:
        return set(self.choices) == set(_APPROVAL)

    async def run(self, ctx: StepContext) -> StepOutcome:
        """Give the answer, or wait for it. Whoever is to be told is told once, before the run pauses."""
        question = self._asked(ctx)
        answer = ctx.answer(question)
        if answer is not None:
            return StepOutcome(value=answer)
        if self.notify is not None and not ctx.was_asked(question):
            from treadle_approval.sending import send

            await send(ctx, self.notify, question)
        return StepOutcome(pending=(question,))

    def _asked(self, ctx: StepContext) -> Pending:
        text = f"Approve '{self.id}'?" if self._asks_for_approval else f"What is the answer to '{self.id}'?"
        if self.question is not None:
            text = self.question.render(ctx.told_state, strict=ctx.config.strict_templates, warn=ctx.warn)
        default: Any = None
        if self.timeout_seconds is not None:
            default = _DECISIONS[self.on_timeout or "reject"] if self._asks_for_approval else self.on_timeout
        return Pending(question=text, choices=self.choices, timeout=self.timeout_seconds, default=default)

    def check_document(self, check: DocumentCheck) -> None:
        """Say what the webhook's placeholders stand for nothing of, and that an answer without a time limit is never
        given; and tell which host the webhook reaches."""
        if self.on_timeout is not None and self.timeout_seconds is None:
            check.note(
                "there is no timeout_seconds, so it waits for ever and this is never the answer",
                field="on_timeout",
                severity="warning",
            )
        if self.notify is not None:
            for right in self.notify.rights():
                check.ask(right)
            has_callback = check.config is None or getattr(check.config, "callback_url", None) is not None
            for message in self.notify.doubts(asks_for_approval=self._asks_for_approval, has_callback=has_callback):
                check.note(message, field="notify.body_template", severity="warning")
