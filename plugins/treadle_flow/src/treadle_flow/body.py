"""What is run again and again: one step, some steps, or a workflow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Self

from pydantic import AfterValidator, Field, model_validator

from treadle import (
    CheckedChild,
    DocumentCheck,
    Expression,
    RunResult,
    StatePath,
    Step,
    StepContext,
    Template,
    Workflow,
    close_match,
)
from treadle.fields import MISSING, look_up
from treadle_flow.results import names_at_end

__all__ = ["BodyStep", "Name"]

_FORMS = ("step", "steps", "workflow_inline", "workflow_path")


def _is_name(name: str) -> str:
    if not name.isidentifier() or name in ("state", "steps"):
        raise ValueError(f"{name!r} cannot be a name here; use letters, digits and _, and neither 'state' nor 'steps'")
    return name


Name = Annotated[str, AfterValidator(_is_name)]
"""What a value is called inside the body."""


class BodyStep(Step):
    """A step that runs a body several times, each time as a child run over the state that the step sees."""

    step: dict[str, Any] | None = Field(
        default=None, description="the body: one step, without id", json_schema_extra={"x-treadle-form": "step"}
    )
    steps: list[Any] | None = Field(
        default=None, min_length=1, description="the body: its steps", json_schema_extra={"x-treadle-form": "steps"}
    )
    workflow_inline: dict[str, Any] | None = Field(
        default=None, description="the body: a workflow", json_schema_extra={"x-treadle-form": "workflow"}
    )
    workflow_path: str | None = Field(
        default=None,
        min_length=1,
        description="the body: a workflow's file, from the working directory or else beside the file that names it",
    )
    result: Expression | None = Field(
        default=None,
        description="what one run of the body makes, over its state and steps; without it what the step makes, or a "
        "mapping of the keys that the body writes",
    )

    @model_validator(mode="after")
    def _has_one_body(self) -> Self:
        given = [form for form in _FORMS if getattr(self, form) is not None]
        if len(given) != 1:
            there = f"{' and '.join(given)} are there" if given else "none is there"
            raise ValueError(f"the body is given by one of {', '.join(_FORMS[:-1])} and {_FORMS[-1]}, and {there}")
        return self

    @property
    def body_field(self) -> str:
        """The field in which the body is written."""
        return next(form for form in _FORMS if getattr(self, form) is not None)

    def expressions_at_end(self) -> Iterator[tuple[str, Expression]]:
        """Each expression that is evaluated over the body's state, with its field."""
        if self.result is not None:
            yield "result", self.result

    def reads(self) -> Iterable[tuple[str, Template | Expression | StatePath]]:
        """What it reads itself; the body's reads are the body's."""
        inside = {field for field, _ in self.expressions_at_end()}
        return ((place, value) for place, value in super().reads() if place not in inside)

    def check_body(self, check: DocumentCheck, names: Iterable[str], *, repeats: bool) -> None:
        """Have the body checked, and the expressions that read its state."""
        field = self.body_field
        names = frozenset(names)

        def reads_what_is_there(child: CheckedChild) -> None:
            known = child.keys | child.outer_keys
            ids = {step.id for step in child.workflow.steps}
            for place, expression in self.expressions_at_end():
                for each in expression.references:
                    root = str(each.parts[0]) if each.parts else ""
                    if each.root == "steps" and root and root not in ids:
                        check.note(
                            f"no step '{root}' in the body", field=place, code="unknown-step", hint=_like(root, ids)
                        )
                    elif each.root == "state" and root and root not in known:
                        message = f"nothing provides '{each.text}' in the body"
                        check.note(
                            message, field=place, code="nothing-provides", hint=_like(root, known), severity="warning"
                        )

        written = getattr(self, field)
        if field == "step":
            written = {"id": "step", "output": "result", **written}
        form = {"workflow_inline": "workflow", "workflow_path": "path"}.get(field, field)
        check.workflow(
            written,
            field=field,
            form=form,  # type: ignore[arg-type]  # one of the four
            scoped=names,
            repeats=repeats,
            then=reads_what_is_there,
        )

    def value_of(self, ctx: StepContext, body: Workflow, result: RunResult) -> Any:
        """What one run of the body made.

        :raises ExpressionError: ``result`` cannot be evaluated.
        """
        if self.result is not None:
            return ctx.evaluate(self.result, names_at_end(result))
        if self.step is not None:
            output = body.steps[0].output
            value = MISSING if output is None else look_up(result.final_state, output.parts)
            return None if value is MISSING else value
        return written_by(body, result)

    def shown_names(self, ctx: StepContext, *fields: str) -> list[str]:
        """Of the names in those fields the ones that are used: what nobody named hides nothing of the state."""
        taken = set(ctx.state)
        return [field for field in fields if field in self.model_fields_set or getattr(self, field) not in taken]


def written_by(body: Workflow, result: RunResult) -> Mapping[str, Any]:
    """The keys of the state that the body's steps write, with what is in them at its end."""
    names = dict.fromkeys(path.root for step in body.steps for path in step.writes())
    return {name: result.final_state[name] for name in names if name in result.final_state}


def _like(name: str, known: Iterable[str]) -> str | None:
    match = close_match(name, known)
    return f"did you mean '{match}'?" if match else None
