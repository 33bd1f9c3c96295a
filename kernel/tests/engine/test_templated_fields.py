"""One renderer for every templated field: each row of the language's table, through each kind of field, in a run."""

import runpy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from treadle import ArgumentTree, DocumentError, Step, StepContext, StepOutcome, Template, Tool, ToolContext
from treadle._document import build_workflow
from treadle._engine.sending import clean_text
from treadle._plugins import Host
from treadle.contracts.events import RunWarning
from treadle.testing import RecordingObserver, offering, run_workflow

TABLE = runpy.run_path(str(Path(__file__).parents[1] / "language" / "template_table.py"))
KINDS = ("plain", "optional", "listed", "mapped", "inside", "argument")


class Inner(BaseModel):
    text: Template


class Fill(Step):
    """Renders what it is given, in a field of each kind."""

    plain: Template = Template.compile("unset")
    optional: Template | None = None
    listed: tuple[Template, ...] = ()
    mapped: Mapping[str, Template] = {}
    inside: Inner | None = None
    argument: ArgumentTree | None = None

    async def run(self, ctx: StepContext) -> StepOutcome:
        if self.argument is not None:
            arguments = ctx.render_arguments(self.argument)
            return StepOutcome(value=(await ctx.call_tool("same", arguments))["a"][0]["b"])
        given = [self.optional, *self.listed, *self.mapped.values(), self.inside and self.inside.text]
        others = [each for each in given if each is not None]
        return StepOutcome(value=ctx.render(others[0] if others else self.plain))


class Same(Tool):
    """Gives its arguments back."""

    name = "same"

    async def call(self, arguments: Mapping[str, Any], context: ToolContext) -> Any:
        return arguments


PLUGINS = {"test": offering({"step_type": {"fill": Fill}, "tool": {"same": Same}})}


def field(kind: str, source: str) -> dict[str, Any]:
    nested = {
        "listed": [source],
        "mapped": {"a": source},
        "inside": {"text": source},
        "argument": {"a": [{"b": source}]},
    }
    return {kind: nested.get(kind, source)}


def workflow(kind: str, sources: list[str], **config: Any) -> dict[str, Any]:
    steps = [{"id": f"s{n}", "type": "fill", **field(kind, source)} for n, source in enumerate(sources)]
    return {"name": "table", "state": TABLE["STATE"], "steps": steps, "config": config}


@pytest.mark.parametrize("kind", KINDS)
async def test_every_row_comes_out_the_same_in_every_kind_of_field(kind: str) -> None:
    rows = TABLE["RENDERED"]
    result = await run_workflow(workflow(kind, [source for source, _ in rows]), plugins=PLUGINS)
    assert [each.error for each in result.step_results.values() if each.error] == []
    assert [result.step_results[f"s{n}"].output for n in range(len(rows))] == [clean_text(text) for _, text in rows]
    assert len(rows) > 80


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("table", "strict"), [("STRICT", True), ("MISFITS", False)])
async def test_every_failure_is_the_same_in_every_kind_of_field(kind: str, table: str, strict: bool) -> None:
    rows = TABLE[table]
    document = workflow(kind, [source for source, _ in rows], strict_templates=strict)
    result = await run_workflow(document, plugins=PLUGINS)
    assert [result.step_results[f"s{n}"].error for n in range(len(rows))] == [error for _, error in rows]


@pytest.mark.parametrize("kind", KINDS)
async def test_every_warning_is_the_same_in_every_kind_of_field(kind: str) -> None:
    for source, expected in TABLE["WARNINGS"]:
        observer = RecordingObserver()
        await run_workflow(workflow(kind, [source]), plugins=PLUGINS, observers=[observer])
        told = [event.message for event in observer.events if isinstance(event, RunWarning)]
        assert [message for message in told if "'" in message] == expected


@pytest.mark.parametrize("kind", KINDS)
def test_every_template_that_goes_wrong_is_found_in_every_kind_of_field(kind: str) -> None:
    rows = TABLE["ERRORS"]
    with pytest.raises(DocumentError) as caught:
        build_workflow(workflow(kind, [source for source, _ in rows]), host=Host.of(PLUGINS))
    found = [problem.message for problem in caught.value.problems if problem.severity == "error"]
    assert len(found) == len(rows)
    for (_, error), message in zip(rows, found, strict=True):
        assert error.partition("; ")[0] in message
