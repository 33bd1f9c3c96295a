"""``subworkflow``: whose state it starts from, what it gives back, and what becomes of pauses and failures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from flow_world import PLUGINS, document, said

import treadle
from treadle import Host, MemoryJournal, RunResult, RunStatus
from treadle.testing import run_workflow


@pytest.fixture(autouse=True)
def _quiet() -> None:
    said.clear()


def child(*steps: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"name": "inner", "steps": list(steps), **more}


SAY = {"id": "a", "type": "say", "text": "{state.who} {state.how}", "output": "text"}


async def run(state: dict[str, Any] | None = None, workflow: dict[str, Any] | None = None, **fields: Any) -> RunResult:
    fields = {"id": "sub", "type": "subworkflow", "output": "made", **fields}
    return await run_workflow(document(fields, state=state, **(workflow or {})), plugins=PLUGINS)


async def test_it_starts_over_the_parents_state_and_gives_back_all_of_its_own():
    inline = child(SAY, state={"who": "nobody", "how": "well"})
    result = await run({"who": "Ann"}, workflow_inline=inline)
    assert result.final_state["made"] == {"who": "Ann", "how": "well", "text": "Ann well"}
    assert "text" not in result.final_state


async def test_input_is_put_on_top_rendered_with_whole_values_by_path():
    inline = child(SAY, state={"how": "well"})
    given = {"who": "dear {state.who}", "list": "state.l"}
    result = await run({"who": "Ann", "l": [1, 2]}, workflow_inline=inline, input=given)
    assert result.final_state["made"]["text"] == "dear Ann well"
    assert result.final_state["made"]["list"] == [1, 2]


async def test_isolated_it_starts_from_its_own_state_and_the_input():
    inline = child(SAY, state={"who": "nobody", "how": "well"})
    result = await run({"who": "Ann", "x": 1}, workflow_inline=inline, isolated_state=True, input={"how": "ill"})
    assert result.final_state["made"] == {"who": "nobody", "how": "ill", "text": "nobody ill"}


async def test_return_keys_are_what_is_given_back():
    inline = child(SAY, state={"how": "well"})
    result = await run({"who": "Ann"}, workflow_inline=inline, return_keys=["text", "who"])
    assert result.final_state["made"] == {"text": "Ann well", "who": "Ann"}


async def test_a_return_key_that_is_missing_is_a_warning_and_an_error_under_strict_templates():
    inline = child({**SAY, "when": "False"}, state={"how": "well"})
    result = await run({"who": "Ann"}, workflow_inline=inline, return_keys=["text", "how"])
    assert result.final_state["made"] == {"how": "well"}
    text = "return_keys: the workflow's state has no text at its end"
    assert [each.message for each in result.warnings] == [f"{text}; left out"]
    strict = {"config": {"strict_templates": True}}
    result = await run({"who": "Ann"}, strict, workflow_inline=inline, return_keys=["text", "how"])
    assert result.error == f"step 'sub': {text}"


async def test_its_failure_is_the_steps_with_the_same_words_and_it_is_not_tried_again():
    step = {**SAY, "fails_on": "Ann well", "retry": {"max_retries": 0}}
    result = await run({"who": "Ann", "how": "well"}, workflow_inline=child(step))
    assert result.error == "step 'sub': step 'a': 'Ann well' will not do"
    assert result.step_results["sub"].attempts == 1


async def test_the_config_of_the_parent_holds_where_its_own_says_nothing():
    retried = {**SAY, "text": "x", "fails_on": "x"}
    result = await run(None, {"config": {"strict_templates": True}}, workflow_inline=child({**SAY, "output": "t"}))
    assert "state.who" in str(result.error)
    own = child({**SAY, "output": "t"}, config={"strict_templates": False})
    result = await run(None, {"config": {"strict_templates": True}}, workflow_inline=own)
    assert result.status == "success"
    assert retried["fails_on"] == "x"


async def test_a_pause_inside_is_the_runs_and_it_goes_on_inside():
    journal, flow = MemoryJournal(), document(
        {"id": "sub", "type": "subworkflow", "output": "made", "return_keys": ["end"], "workflow_inline": child(
            {"id": "a", "type": "say", "text": "first"},
            {"id": "gate", "type": "say", "text": "{state.ask}", "asks_on": "yes", "depends_on": ["a"]},
            {"id": "b", "type": "say", "text": "then", "depends_on": ["gate"], "output": "end"},
        )},
        state={"ask": "yes"},
    )  # fmt: skip
    host = Host.of(PLUGINS)
    async with treadle.open(host=host, journal=journal) as session:
        result = await session.run(treadle.build_workflow(flow, host=host), run_id="r")
        assert result.status is RunStatus.PAUSED
        assert [(each.step_id, each.question) for each in result.pending] == [("sub.gate", "Is yes right?")]
        result = await session.resume("r", state={"ask": "no"})
    assert result.status is RunStatus.SUCCESS
    assert said == ["first", "no", "then"]
    assert result.final_state["made"] == {"end": "then"}


# --- files ---------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(folder: Path, name: str, text: str) -> str:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text, encoding="utf-8")
    return name


def outer(path: str) -> str:
    return f"name: o\nsteps:\n  - {{id: s, type: subworkflow, workflow_path: {path}, output: made}}\n"


SAYS = "name: i\nsteps:\n  - {{id: a, type: say, text: {}, output: said}}\n"


async def go(path: str, **more: Any) -> RunResult:
    host = Host.of(PLUGINS)
    async with treadle.open(host=host) as session:
        return await session.run(treadle.load_workflow(path, host=host), **more)


async def test_a_path_is_looked_for_in_the_working_directory_then_beside_the_file_that_names_it(folder):
    main = write(folder, "flows/main.yaml", outer("part.yaml"))
    write(folder, "flows/part.yaml", SAYS.format("beside"))
    assert (await go(main)).final_state["made"] == {"said": "beside"}
    write(folder, "part.yaml", SAYS.format("here"))
    assert (await go(main)).final_state["made"] == {"said": "here"}


async def test_files_below_files_are_looked_for_beside_each(folder):
    main = write(folder, "a/main.yaml", outer("b/one.yaml"))
    write(folder, "a/b/one.yaml", outer("two.yaml"))
    write(folder, "a/b/two.yaml", SAYS.format("deep"))
    assert (await go(main)).final_state["made"] == {"made": {"said": "deep"}}


async def test_three_hundred_files_below_each_other(folder):
    for number in range(300):
        write(folder, f"f{number}.yaml", outer(f"f{number + 1}.yaml"))
    write(folder, "f300.yaml", SAYS.format("'{state.x}'"))
    result = await go("f0.yaml", state={"x": "deep"})
    assert result.status == "success"
    assert said == ["deep"]
    host = Host.of(PLUGINS)
    assert treadle.load_workflow("f0.yaml", host=host).with_config(max_retries=1).config.max_retries == 1


async def test_the_file_is_kept_with_the_workflow_that_was_checked(folder):
    main = write(folder, "main.yaml", outer("part.yaml"))
    write(folder, "part.yaml", SAYS.format("as it was"))
    host = Host.of(PLUGINS)
    workflow = treadle.load_workflow(main, host=host)
    write(folder, "part.yaml", SAYS.format("other"))
    async with treadle.open(host=host) as session:
        result = await session.run(workflow)
    assert result.final_state["made"] == {"said": "as it was"}
