"""The Python API: load, open, run; and the names that programs parse."""

from __future__ import annotations

import asyncio
import json
from types import ModuleType
from typing import Any

import pytest
import trio

import treadle
from treadle import Host, Offer, Step, StepOutcome, hookimpl


class Say(Step):
    """Gives a text, or fails."""

    text: treadle.Template
    fails: bool = False

    async def run(self, ctx):
        await trio.lowlevel.checkpoint()
        if self.fails:
            raise ValueError("cannot speak")
        return StepOutcome(value=ctx.render(self.text))


@pytest.fixture
def host() -> Host:
    """A host with the one step type `say`."""
    plugin = ModuleType("lab")

    @hookimpl
    def treadle_step_types() -> dict[str, Offer]:
        return {"say": Offer(Say, "Give a text")}

    plugin.treadle_step_types = treadle_step_types  # type: ignore[attr-defined] # a module made on the spot
    return Host.of({"lab": plugin})


@pytest.fixture
def workflow(host: Host) -> treadle.Workflow:
    """Two steps, of which the second uses what the first made."""
    return treadle.parse_workflow(
        """
name: greeting
state: {who: you}
steps:
  - {id: greet, type: say, text: "hello {state.who}", output: greeting}
  - {id: shout, type: say, text: "{state.greeting}!", output: shouted, depends_on: [greet]}
""",
        host=host,
    )


async def test_run_gives_the_result(workflow):
    result = await treadle.run(workflow)
    assert result.status == treadle.RunStatus.SUCCESS
    assert result.ok
    assert result.workflow_name == "greeting"
    assert result.final_state == {"who": "you", "greeting": "hello you", "shouted": "hello you!"}
    assert list(result.step_results) == ["greet", "shout"]


def test_run_sync_gives_the_result_without_a_loop(workflow):
    events: list[Any] = []
    result = treadle.run_sync(workflow, state={"who": "world"}, on_event=events.append)
    assert result.final_state["shouted"] == "hello world!"
    assert [type(event).__name__ for event in events][::5] == ["RunStarted", "RunFinished"]


def test_a_workflow_runs_any_number_of_times_and_stays_as_it_is(workflow):
    before = workflow.digest
    first, second = treadle.run_sync(workflow), treadle.run_sync(workflow)
    assert first.final_state == second.final_state
    assert first.run_id != second.run_id
    assert workflow.digest == before


def test_what_is_done_to_a_result_or_to_the_state_that_was_given_reaches_no_other_run(host):
    workflow = treadle.build_workflow(
        {"name": "f", "state": {"seen": []}, "steps": [{"id": "a", "type": "say", "text": "x"}]}, host=host
    )
    given: dict[str, Any] = {"mine": [1]}
    first = treadle.run_sync(workflow, state=given)
    first.final_state["seen"].append("spoilt")
    first.final_state["mine"].append("spoilt")
    assert given == {"mine": [1]}
    assert treadle.run_sync(workflow, state=given).final_state == {"seen": [], "mine": [1]}


def test_a_file_is_loaded_by_its_path(host, workflow, tmp_path):
    file = tmp_path / "flow.yaml"
    file.write_text("name: f\nsteps:\n  - {id: a, type: say, text: hi}\n", encoding="utf-8")
    loaded = treadle.load_workflow(file, host=host)
    assert loaded.name == "f"
    assert treadle.run_sync(loaded).step_results["a"].output == "hi"
    with pytest.raises(treadle.DocumentError, match="no such file"):
        treadle.load_workflow(tmp_path / "flaw.yaml", host=host)


async def test_a_session_runs_one_workflow_after_another(host, workflow):
    async with treadle.open(host=host) as session:
        results = [await session.run(workflow, state={"who": str(number)}) for number in range(3)]
    assert [each.final_state["greeting"] for each in results] == ["hello 0", "hello 1", "hello 2"]


async def test_a_run_id_is_twelve_hexadecimal_digits_unless_one_is_given(host, workflow):
    async with treadle.open(host=host) as session:
        made = (await session.run(workflow)).run_id
        assert len(made) == 12
        assert int(made, 16) >= 0
        assert (await session.run(workflow, run_id="mine")).run_id == "mine"


RUN_NAMES = {
    "run_id", "workflow_name", "status", "step_results", "final_state", "total_tokens", "total_cost_usd",
    "budget_usd", "total_duration_ms", "error", "pending", "warnings", "annotations",
}  # fmt: skip
STEP_NAMES = {
    "step_id", "status", "output", "error", "error_classification", "duration_ms", "token_usage", "cost_usd", "model",
    "provider", "attachment_count", "time_to_first_token_ms", "prompt_metadata", "reasoning_content",
    "pending",
    "reason", "finish_reason", "attempts",
}  # fmt: skip
USAGE_NAMES = {
    "prompt_tokens", "completion_tokens", "reasoning_tokens", "total_tokens", "cache_read_tokens", "cache_write_tokens",
}  # fmt: skip


async def test_the_result_is_json_with_the_names_that_scripts_parse(workflow):
    result = json.loads(json.dumps((await treadle.run(workflow)).to_json(), allow_nan=False))
    assert set(result) == RUN_NAMES
    assert set(result["step_results"]) == {"greet", "shout"}
    greet = result["step_results"]["greet"]
    assert set(greet) == STEP_NAMES
    assert set(greet["token_usage"]) == USAGE_NAMES
    assert result["status"] == "success"
    assert (greet["status"], greet["output"], greet["attempts"]) == ("success", "hello you", 1)
    assert (greet["cost_usd"], greet["token_usage"]["total_tokens"]) == (0.0, 0)
    assert (greet["error"], greet["reason"], greet["model"]) == (None, None, None)
    assert greet["duration_ms"] >= 0
    assert result["final_state"] == {"who": "you", "greeting": "hello you", "shouted": "hello you!"}
    assert (result["total_tokens"], result["total_cost_usd"], result["error"]) == (0, 0.0, None)


async def test_a_failed_run_is_a_result_and_not_an_exception(host):
    workflow = treadle.build_workflow(
        {
            "name": "f",
            "config": {"max_retries": 0},
            "steps": [
                {"id": "a", "type": "say", "text": "x", "fails": True},
                {"id": "b", "type": "say", "text": "x", "depends_on": ["a"]},
            ],
        },
        host=host,
    )
    result = await treadle.run(workflow)
    assert (result.ok, result.status, result.error) == (False, "failed", "step 'a': ValueError: cannot speak")
    printed = result.to_json()["step_results"]
    assert (printed["a"]["error_classification"], printed["b"]["reason"]) == ("permanent", "step 'a' failed")
    assert (printed["b"]["status"], printed["b"]["attempts"]) == ("skipped", 0)


async def test_a_lone_error_of_the_program_leaves_a_session_as_itself(host):
    with pytest.raises(KeyError, match=r"^'mine'$"):
        async with treadle.open(host=host):
            raise KeyError("mine")


async def test_a_lone_error_of_a_run_leaves_it_as_itself(workflow):
    with pytest.raises(treadle.StateError, match=r"^state\.who: a value of type set cannot be kept in the state"):
        await treadle.run(workflow, state={"who": {1}})


def test_a_lone_error_leaves_run_sync_as_itself(workflow):
    with pytest.raises(treadle.StateError, match=r"^state\.who: a value of type set cannot be kept in the state"):
        treadle.run_sync(workflow, state={"who": {1}})


async def test_two_sessions_do_not_share_anything(host, workflow):
    async with treadle.open(host=host) as one, treadle.open(host=host) as two:
        assert one.journal is not two.journal
        assert (await one.run(workflow)).final_state == (await two.run(workflow)).final_state


async def test_a_session_runs_a_file_too(host, tmp_path):
    file = tmp_path / "flow.yaml"
    file.write_text("name: x\nsteps:\n  - {id: a, type: say, text: hi, output: v}\n", encoding="utf-8")
    async with treadle.open(host=host) as session:
        result = await session.run(file)
    assert result.final_state == {"v": "hi"}


def one_step(host: Host, **config: Any) -> treadle.Workflow:
    step = {"id": "a", "type": "say", "text": "hi {who}", "output": "v"}
    data = {"name": "x", "config": config, "state": {"who": "you"}, "steps": [step]}
    return treadle.build_workflow(data, host=host)


def test_a_program_on_asyncio_awaits_a_run(host):
    seen: list[Any] = []

    async def main():
        return await treadle.run(one_step(host), state={"who": "me"}, on_event=seen.append)

    result = asyncio.run(main())
    assert result.final_state == {"who": "me", "v": "hi me"}
    assert type(seen[-1]).__name__ == "RunFinished"


def test_a_config_given_to_a_run_wins_over_the_documents(host):
    workflow = one_step(host, max_retries=1)
    assert treadle.run_sync(workflow, config={"max_concurrent_steps": 2}).status == "success"
    with pytest.raises(treadle.ConfigurationError, match="max_concurrent_steps"):
        treadle.run_sync(workflow, config={"max_concurrent_steps": 0})
