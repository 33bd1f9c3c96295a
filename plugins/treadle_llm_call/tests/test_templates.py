"""Prompts are filled in by the one renderer: every row of the language's table, through both fields of ``llm_call``."""

import runpy
from pathlib import Path
from typing import Any

import pytest

import treadle_llm_call.plugin
from treadle import SystemMessage
from treadle._engine.sending import clean_text
from treadle.testing import offering, run_workflow, scripted

REPOSITORY = Path(__file__).parents[3]
TABLE = runpy.run_path(str(REPOSITORY / "kernel" / "tests" / "language" / "template_table.py"))


async def rendered(field: str, sources: list[str], **config: Any) -> dict[str, tuple[str | None, str | None]]:
    """Step id -> what the model was sent in that field, or the step's error."""
    model = scripted(*["ok"] * len(sources))
    steps = [{"id": f"s{n}", "type": "llm_call", "prompt": "p", field: source} for n, source in enumerate(sources)]
    result = await run_workflow(
        {"name": "table", "state": TABLE["STATE"], "steps": steps, "config": {"provider": "scripted", **config}},
        plugins={"llm_call": treadle_llm_call.plugin, "test": offering({"provider": {"scripted": model}})},
    )
    texts = {
        request.key: each.text
        for request in model.requests
        for each in request.messages
        if isinstance(each, SystemMessage) is (field == "system_prompt")
    }
    return {step_id: (texts.get(step_id), step.error) for step_id, step in result.step_results.items()}


@pytest.mark.parametrize("field", ["prompt", "system_prompt"])
async def test_every_row_comes_out_as_the_table_says(field: str) -> None:
    rows = TABLE["RENDERED"]
    found = await rendered(field, [source for source, _ in rows])
    assert found == {f"s{n}": (clean_text(text), None) for n, (_, text) in enumerate(rows)}


@pytest.mark.parametrize("field", ["prompt", "system_prompt"])
@pytest.mark.parametrize(("table", "strict"), [("STRICT", True), ("MISFITS", False)])
async def test_every_failure_is_told_as_the_table_says_and_no_model_is_called(
    field: str, table: str, strict: bool
) -> None:
    rows = TABLE[table]
    found = await rendered(field, [source for source, _ in rows], strict_templates=strict)
    assert found == {f"s{n}": (None, error) for n, (_, error) in enumerate(rows)}
