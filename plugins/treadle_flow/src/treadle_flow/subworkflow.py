"""The step ``subworkflow``."""

from __future__ import annotations

from typing import Any, Self

from pydantic import Field, model_validator

from treadle import (
    ArgumentTree,
    CheckedChild,
    DocumentCheck,
    RunStatus,
    Step,
    StepContext,
    StepError,
    StepOutcome,
    close_match,
)
from treadle_flow.results import failure

__all__ = ["Subworkflow"]


class Subworkflow(Step):
    """Run another workflow. ``output`` receives its state as it is at its end, or what ``return_keys`` names of it.

    The workflow starts over this one's state, or with ``isolated_state`` over its own alone; ``input`` is put on top.
    What it writes is its own until it ends.
    """

    workflow_path: str | None = Field(
        default=None,
        min_length=1,
        description="the workflow's file, from the working directory or else beside the file that names it",
    )
    workflow_inline: dict[str, Any] | None = Field(
        default=None, description="the workflow itself", json_schema_extra={"x-treadle-form": "workflow"}
    )
    isolated_state: bool = Field(default=False, description="start from the workflow's own state, not over this one's")
    input: ArgumentTree = Field(default={}, validate_default=True, description="values put on top of its state")
    return_keys: tuple[str, ...] | None = Field(
        default=None, description="what of its state at the end is the result; all of it without them"
    )

    @model_validator(mode="after")
    def _is_one_workflow(self) -> Self:
        if (self.workflow_path is None) == (self.workflow_inline is None):
            there = "neither is there" if self.workflow_path is None else "both are"
            raise ValueError(f"a subworkflow is given by one of workflow_path and workflow_inline, and {there}")
        return self

    @property
    def _field(self) -> str:
        return "workflow_inline" if self.workflow_path is None else "workflow_path"

    def check_document(self, check: DocumentCheck) -> None:
        """Have the workflow checked, and see whether it reads what it is given and will have the keys that are to be
        returned."""

        def compare_keys(child: CheckedChild) -> None:
            returned = child.keys if self.return_keys is None else self.return_keys
            for key in self.input.source:
                doubt = next(iter(child.workflow.doubts_about([key])), None)
                # What is returned whole may be given to be in it, unless it is most like another name.
                if doubt is not None and (
                    key not in returned or (self.return_keys is None and "did you mean" in doubt)
                ):
                    check.note(doubt, field=f"input.{key}", severity="warning")
            known = child.keys if self.isolated_state else child.keys | child.outer_keys
            for index, key in enumerate(self.return_keys or ()):
                if key not in known:
                    match = close_match(key, known)
                    hint = f"did you mean '{match}'?" if match else None
                    message = f"nothing in the workflow provides '{key}'"
                    check.note(
                        message, field=f"return_keys.{index}", code="nothing-provides", hint=hint, severity="warning"
                    )

        check.workflow(
            self.workflow_inline if self.workflow_path is None else self.workflow_path,
            field=self._field,
            form="workflow" if self.workflow_path is None else "path",
            keys=self.input.source,
            isolated=self.isolated_state,
            then=compare_keys,
        )

    def child_start(self, field: str) -> tuple[ArgumentTree | None, bool]:
        """Its ``input``, over this state unless it is isolated from it."""
        return self.input, not self.isolated_state

    async def run(self, ctx: StepContext) -> StepOutcome:
        """Run it.

        :raises StepError: the workflow failed, or under ``strict_templates`` has a key not that is to be returned.
        """
        given = ctx.render_arguments(self.input)
        result = await ctx.run_child(ctx.workflow(self._field), state=given, inherit=not self.isolated_state)
        if result.status is RunStatus.PAUSED:
            return StepOutcome()  # the engine knows what for
        if result.status is not RunStatus.SUCCESS:
            raise failure(result, again=self.retry.max_retries is not None)
        final = dict(result.final_state)
        if self.return_keys is None:
            return StepOutcome(value=final)
        if missing := [key for key in self.return_keys if key not in final]:
            message = f"return_keys: the workflow's state has no {', '.join(missing)} at its end"
            if ctx.config.strict_templates:
                raise StepError(message)
            ctx.warn(f"{message}; left out")
        return StepOutcome(value={key: final[key] for key in self.return_keys if key in final})
