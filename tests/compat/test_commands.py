"""AgentLoom's commands, flags and JSON names, as far as they are there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from compat.al_fields import ADDED, ROWS

from e2e.command import treadle
from wire.http_server import Json, WireServer

FLOW = """\
name: greet
config: {provider: nobody, model: config-model}
state: {who: you, list: []}
steps:
  - {id: ask, type: llm_call, prompt: "Hi {state.who} {state.list}", output: reply}
  - {id: named, type: llm_call, prompt: "Hi", model: step-model}
"""


def names(where: str) -> set[str]:
    rows = {row.place.partition(".")[2] for row in ROWS if row.place.partition(".")[0] == where}
    return rows | ADDED.get(where, set())


async def test_json_has_agentlooms_names(tmp_path: Path) -> None:
    (tmp_path / "flow.yaml").write_text(FLOW, encoding="utf-8")
    done = await treadle("run", "flow.yaml", "-p", "mock", "--json", cwd=tmp_path)
    result = json.loads(done.stdout)
    assert done.returncode == 0
    assert set(result) == names("result")
    assert set(result["step_results"]["ask"]) == names("step result")
    assert set(result["step_results"]["ask"]["token_usage"]) == names("usage")
    assert {"hash", "length_chars", "template_id", "template_vars"} <= set(
        result["step_results"]["ask"]["prompt_metadata"]
    )
    assert (result["workflow_name"], result["status"]) == ("greet", "success")


async def test_the_flags_of_run_override_the_config(tmp_path: Path) -> None:
    (tmp_path / "flow.yaml").write_text(FLOW, encoding="utf-8")
    state = ("-s", "who=Ann=Lee", "--state", 'list=["a", 1]')
    flags = ("--provider", "mock", "--model", "other-model")
    done = await treadle("run", "flow.yaml", *state, *flags, "--json", cwd=tmp_path)
    result = json.loads(done.stdout)
    assert result["final_state"]["who"] == "Ann=Lee"
    assert result["final_state"]["list"] == ["a", 1]
    models = {step: each["model"] for step, each in result["step_results"].items()}
    assert models == {"ask": "other-model", "named": "step-model"}
    streamed = await treadle("run", "flow.yaml", "-p", "mock", "-m", "m", "--stream", cwd=tmp_path)
    assert (streamed.returncode, streamed.stdout.count("Mock response")) == (0, 2)


COSTLY = """\
name: costly
config: {provider: mock, responses_file: replies.json, budget_usd: 1.0}
steps:
  - {id: one, type: llm_call, prompt: "Hi"}
  - {id: two, type: llm_call, prompt: "Hi", depends_on: [one]}
"""


async def test_a_budget_ends_the_run_and_says_what_was_spent(tmp_path: Path) -> None:
    (tmp_path / "flow.yaml").write_text(COSTLY, encoding="utf-8")
    replies = {key: {"content": "x", "cost_usd": 0.6} for key in ("one", "two")}
    (tmp_path / "replies.json").write_text(json.dumps({"_version": 2, **replies}), encoding="utf-8")
    done = await treadle("run", "flow.yaml", "--json", cwd=tmp_path)
    result = json.loads(done.stdout)
    said = "step 'two': the run has a budget of $1, $0.6 of it spent; asked for: at most $0.6 for a call of 'mock'"
    assert (done.returncode, result["status"], result["error"]) == (1, "budget_exceeded", said)
    assert (result["total_cost_usd"], result["budget_usd"]) == (0.6, 1.0)
    again = await treadle("resume", result["run_id"], "--budget", "1.2", cwd=tmp_path)
    assert (again.returncode, "$1.20 of $1.20" in again.stderr) == (0, True)
    more = await treadle("run", "flow.yaml", "-b", "2", "--json", cwd=tmp_path)
    assert (more.returncode, json.loads(more.stdout)["budget_usd"]) == (0, 2.0)
    short = await treadle("run", "flow.yaml", "--budget", "0.7", cwd=tmp_path)
    assert short.returncode == 1
    assert f"[BUDGET] {said.replace('$1,', '$0.7,')}\n" in short.stderr
    assert "$0.600 of $0.700" in short.stderr
    wrong = await treadle("run", "flow.yaml", "--budget", "-1", cwd=tmp_path)
    assert (wrong.returncode, "-1.0 is not in the range x>=0" in wrong.stderr) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("run", "none.yaml"), 2),
        (("run", "flow.yaml", "-s", "novalue"), 2),
        (("run", "flow.yaml", "--nonsense"), 2),
        (("run", "flow.yaml"), 2),  # a provider that nobody has
        (("run", "fails.yaml"), 1),
        ((), 2),
    ],
)
async def test_exit_codes(tmp_path: Path, arguments: tuple[str, ...], code: int) -> None:
    (tmp_path / "flow.yaml").write_text(FLOW, encoding="utf-8")
    fails = (
        FLOW.partition("steps:")[0] + "steps:\n  - {id: a, type: tool, tool_name: file_read, tool_args: {path: none}}\n"
    )
    fails = fails.replace("provider: nobody, model: config-model", "max_retries: 0")
    (tmp_path / "fails.yaml").write_text(fails, encoding="utf-8")
    done = await treadle(*arguments, cwd=tmp_path)
    assert (done.returncode, "Traceback" in done.stderr) == (code, False)


async def test_validate_finds_every_problem(tmp_path: Path) -> None:
    broken = (
        FLOW.replace("model: step-model", "modle: x, depends_on: [nobody]")
        + "  - {id: t, type: tool, tool_name: nope}\n"
    )
    (tmp_path / "flow.yaml").write_text(broken, encoding="utf-8")
    done = await treadle("validate", "flow.yaml", cwd=tmp_path)
    assert done.returncode == 2
    for told in ("config.provider", "steps.named.modle", "steps.named.depends_on", "no tool 'nope'"):
        assert told in done.stdout + done.stderr


@pytest.mark.parametrize(("name", "told"), [("ascii", "ask"), ("mermaid", "flowchart")])
async def test_visualize_has_agentlooms_formats(tmp_path: Path, name: str, told: str) -> None:
    (tmp_path / "flow.yaml").write_text(FLOW.replace("nobody", "mock"), encoding="utf-8")
    done = await treadle("visualize", "flow.yaml", "-f", name, cwd=tmp_path)
    assert (done.returncode, told in done.stdout) == (0, True)


async def test_info_shows_no_part_of_a_key(tmp_path: Path) -> None:
    done = await treadle("info", cwd=tmp_path, OPENAI_API_KEY="sk-verysecretkey")
    assert done.returncode == 0
    assert "OPENAI_API_KEY" in done.stdout
    assert "sk-" not in done.stdout


async def test_http_request_gives_status_headers_and_body(tmp_path: Path) -> None:
    async with WireServer.open() as server:
        server.reply(Json({"got": "it"}, status=404, headers={"X-Kind": "a", "Set-Cookie": "secret=1"}))
        (tmp_path / "flow.yaml").write_text(
            "name: x\nsteps:\n- {id: a, type: tool, tool_name: http_request, output: order,"
            f" tool_args: {{url: '{server.url}/x', method: POST, headers: {{A: b}}, body: {{c: 1}}, timeout: 30}}}}\n",
            encoding="utf-8",
        )
        done = await treadle("run", "flow.yaml", "--json", cwd=tmp_path)
    order = json.loads(done.stdout)["final_state"]["order"]
    assert order["status_code"] == 404
    assert json.loads(order["body"]) == {"got": "it"}
    assert (server.last.method, server.last.headers["a"], server.last.json) == ("POST", "b", {"c": 1})
    lower = {name.lower(): value for name, value in order["headers"].items()}
    assert lower["x-kind"] == "a"
    assert "set-cookie" not in lower


async def test_agent_inspect_prints_what_the_agent_is(tmp_path: Path) -> None:
    text = "name: desk\nmodel: gpt-4o-mini\nsystem_prompt: Be brief.\ntools: [file_read]\n"
    (tmp_path / "desk.yaml").write_text(text, encoding="utf-8")
    done = await treadle("agent", "inspect", "desk.yaml", "--json", cwd=tmp_path)
    agent = json.loads(done.stdout)
    assert (agent["name"], agent["model"], agent["system_prompt"]) == ("desk", "gpt-4o-mini", "Be brief.")
    assert agent["prices_usd_per_million"].keys() == {"input", "output"}
    assert agent["tools"][0]["parameters"]["required"] == ["path"]


async def test_a_run_is_recorded_listed_and_gone_on_with(tmp_path: Path) -> None:
    """The first try fails, as the provider is not there; what is asked of ``resume``, ``runs`` and their flags."""
    (tmp_path / "flow.yaml").write_text(FLOW, encoding="utf-8")
    (tmp_path / "treadle.yaml").write_text("journal: {path: kept/runs.db}\nproviders: {mock: {strict: true}}\n")
    failed = await treadle("run", "flow.yaml", "-p", "mock", "--json", cwd=tmp_path)
    assert failed.returncode == 1
    assert (tmp_path / "kept" / "runs.db").is_file()
    (tmp_path / "treadle.yaml").write_text("journal: {path: kept/runs.db}\n")
    run_id = json.loads(failed.stdout)["run_id"]
    resumed = await treadle("resume", run_id, "-p", "mock", "-m", "later-model", "--json", cwd=tmp_path)
    result = json.loads(resumed.stdout)
    assert (result["run_id"], result["status"]) == (run_id, "success")
    assert result["step_results"]["ask"]["model"] == "later-model"
    again = await treadle("run", "flow.yaml", "-p", "mock", "-q", cwd=tmp_path)
    assert again.returncode == 0
    unrecorded = await treadle("run", "flow.yaml", "-p", "mock", "-q", "--no-journal", cwd=tmp_path)
    assert unrecorded.returncode == 0

    async def listed(*flags: str) -> list[str]:
        done = await treadle("runs", "--json", *flags, cwd=tmp_path)
        return [run["run_id"] for run in json.loads(done.stdout)]

    newest, *others = await listed()
    assert others == [run_id]
    assert await listed("--limit", "1") == [newest]
    assert await listed("--workflow", "greet", "--provider", "mock/later") == [run_id]
    assert await listed("--workflow", "other") == []
    assert await listed("--since", "2020-01-01", "--min-cost", "0", "--max-cost", "0") == [newest, run_id]
    assert await listed("--until", "2020-01-01") == []
    kept = ("--checkpoint", "--checkpoint-dir", "elsewhere")
    elsewhere = await treadle("run", "flow.yaml", "-p", "mock", "--json", *kept, cwd=tmp_path)
    assert await listed("--checkpoint-dir", "elsewhere") == [json.loads(elsewhere.stdout)["run_id"]]
    history = await treadle("history", "--json", "--runs-dir", "elsewhere", cwd=tmp_path)
    assert [run["run_id"] for run in json.loads(history.stdout)] == [json.loads(elsewhere.stdout)["run_id"]]
    streamed = await treadle("resume", run_id, "--stream", "--checkpoint-dir", "kept2", cwd=tmp_path)
    place = tmp_path / "kept2" / "journal.db"
    assert (streamed.returncode, streamed.stderr) == (
        2, f"error: there is no journal at {place}; run a workflow, or name the file\n"
    )  # fmt: skip
    streamed = await treadle("resume", run_id, "--stream", cwd=tmp_path)
    assert (streamed.returncode, streamed.stderr) == (
        2, f"error: run {run_id} has succeeded; there is nothing to resume\n"
    )  # fmt: skip


async def test_recordings_have_agentlooms_flags(tmp_path: Path) -> None:
    """Recorded here from a server that is then gone, as AgentLoom's page has it: `-r` and `--recording` are one."""
    (tmp_path / "flow.yaml").write_text(FLOW.replace("nobody", "mock"), encoding="utf-8")
    recorded = await treadle("run", "flow.yaml", "--record", "rec.json", "--record-tools", cwd=tmp_path)
    assert recorded.returncode == 0, recorded.stderr
    for flag in ("-r", "--recording"):
        done = await treadle("replay", "flow.yaml", flag, "rec.json", "--state", "who=you", "--json", cwd=tmp_path)
        assert json.loads(done.stdout)["status"] == "success", done.stderr
    changed = await treadle("replay", "flow.yaml", "-r", "rec.json", "-s", "who=me", cwd=tmp_path)
    assert changed.returncode == 1
    (tmp_path / "rec.json").write_text('{"_version": 2, "named": "x"}', encoding="utf-8")
    how = ("--recording", "rec.json", "--allow-default-fallback", "--json")
    allowed = await treadle("replay", "flow.yaml", *how, cwd=tmp_path)
    assert json.loads(allowed.stdout)["final_state"]["reply"] == "Mock response"
    mocked = await treadle("run", "flow.yaml", "--mock-responses", "rec.json", "--json", cwd=tmp_path)
    assert json.loads(mocked.stdout)["final_state"]["reply"] == "Mock response"
    both = await treadle("run", "flow.yaml", "--mock-responses", "rec.json", "--record", "r2.json", cwd=tmp_path)
    assert both.returncode == 2
