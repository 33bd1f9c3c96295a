"""``treadle run --dry-run``: what is asked and what it may cost, without a call, a key or a record."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

FLOW = """\
name: report
config: {provider: openai, model: gpt-4o-mini}
state: {topic: looms, words: 80}
steps:
  - id: check
    type: llm_call
    depends_on: [draft]
    prompt: 'Check "{state.draft}" on {topic}; {"json": 1}'
    output: verdict
  - id: draft
    type: llm_call
    system_prompt: You write.
    prompt: "Write {state.words} words\\non {state.topic}."
    max_tokens: 300
    output: draft
  - id: save
    type: tool
    tool_name: file_write
    depends_on: [check]
    tool_args: {path: out.txt, content: "{state.verdict}"}
"""


def dry_run(folder: Path, *more: str, flow: str = FLOW) -> subprocess.CompletedProcess[str]:
    (folder / "flow.yaml").write_text(flow, encoding="utf-8")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OPENAI")}
    command = [sys.executable, "-m", "treadle_cli", "run", "flow.yaml", "--dry-run", *more]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, encoding="utf-8", timeout=60, check=False
    )


def test_every_step_is_shown_in_order_as_far_as_it_is_known(tmp_path: Path):
    done = dry_run(tmp_path, "-s", "topic=wool")
    assert (done.returncode, done.stderr) == (0, "")
    assert re.sub(r"about \d+ tokens", "about N tokens", done.stdout) == (
        "1. draft: llm_call\n"
        "   asks gpt-4o-mini of openai, about N tokens to read, at most 300 to write: at most $0.00018\n"
        "   system: You write.\n"
        "   user: Write 80 words\n"
        "      on wool.\n"
        "2. check: llm_call (after draft)\n"
        "   asks gpt-4o-mini of openai, about N tokens to read, a reply without a limit: $0.0000023 and what the "
        "reply costs\n"
        '   user: Check "{state.draft}" on wool; {"json": 1}\n'
        "   'draft' is written by step 'draft'\n"
        "3. save: tool (after check)\n"
        "   tools: file_write\n"
        '   tool_args: {"path": "out.txt", "content": "{state.verdict}"}\n'
        "\n"
        "2 first calls of models, about N tokens to read, $0.0000048 and what the replies cost; nothing was called\n"
    )
    assert {each.name for each in tmp_path.iterdir()} == {"flow.yaml"}


def test_json_has_the_same_with_null_for_what_is_unknown(tmp_path: Path):
    data = json.loads(dry_run(tmp_path, "--json", "--budget", "0.5").stdout)
    draft, check, save = data["steps"]
    assert [each["id"] for each in data["steps"]] == ["draft", "check", "save"]
    assert draft["calls"][0]["most_cost_usd"] > draft["calls"][0]["input_cost_usd"] > 0
    assert (check["calls"][0]["most_output_tokens"], check["calls"][0]["most_cost_usd"]) == (None, None)
    assert (save["calls"], save["tools"]) == ([], ["file_write"])
    assert (data["most_cost_usd"], data["budget_usd"], data["is_complete"]) == (None, 0.5, True)


def test_a_model_of_unknown_price_is_said_to_be_one(tmp_path: Path):
    done = dry_run(tmp_path, "-m", "nobodys-model")
    assert "asks nobodys-model of openai, about 17 tokens to read, at most 300 to write: price unknown" in done.stdout
    assert "tokens to read, costs unknown; nothing was called\n" in done.stdout


def test_a_free_provider_costs_nothing(tmp_path: Path):
    done = dry_run(tmp_path, "-p", "mock")
    assert "2 first calls of models, about 32 tokens to read, $0; nothing was called\n" in done.stdout


def test_a_mistake_in_the_file_is_told_as_in_a_run(tmp_path: Path):
    done = dry_run(tmp_path, flow=FLOW.replace("prompt: 'Check", "promt: 'Check"))
    assert done.returncode == 2
    assert "flow.yaml:8:5: steps.check.promt: unknown field; did you mean 'prompt'?" in done.stderr


def test_what_is_inside_steps_is_shown_under_dotted_ids_with_the_names_that_it_is_given(tmp_path: Path):
    flow = """\
name: letters
config: {provider: mock}
state: {people: [Ada, Grace], tone: dry}
steps:
  - {id: plan, type: llm_call, prompt: Plan, output: plan}
  - id: each
    type: foreach
    depends_on: [plan]
    items: state.people
    steps:
      - {id: draft, type: llm_call, prompt: "{tone}: {item}, {state.plan}", output: draft}
      - {id: check, type: llm_call, depends_on: [draft], prompt: "Check {state.draft}"}
"""
    done = dry_run(tmp_path, "--json", flow=flow)
    data = json.loads(done.stdout)
    assert [each["id"] for each in data["steps"]] == ["plan", "each", "each.draft", "each.check"]
    draft, check = data["steps"][2:]
    assert draft["calls"][0]["messages"][-1]["content"] == "dry: {item}, {state.plan}"
    assert (draft["from_steps"], check["from_steps"]) == ({"plan": "plan"}, {"draft": "each.draft"})
    assert (data["model_calls"], data["is_complete"]) == (3, False)
