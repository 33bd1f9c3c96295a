"""``treadle run --dry-run``: what is asked and what it may cost, without a call, a key or a record."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

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
        "   'verdict' is written by step 'check'\n"
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
    assert (draft["from_steps"], check["from_steps"]) == ({"plan": ["plan"]}, {"draft": ["each.draft"]})
    assert (data["model_calls"], data["is_complete"]) == (3, False)


CHILD = """\
name: outer
config: {provider: mock}
state: {who: Ann, kind: post}
steps:
  - {id: first, type: llm_call, prompt: Name one, output: named}
  - id: sub
    type: subworkflow
    depends_on: [first]
    isolated_state: ISOLATED
    input: {who: "Bob and {state.who}", n: state.who, m: state.named, t: "So {state.named}"}
    workflow_inline:
      name: inner
      state: {who: Carl, own: mine, kind: none}
      steps:
        - {id: say, type: llm_call, prompt: "{state.who} {state.n} {state.m} {t} {own} {kind} {named}"}
"""


@pytest.mark.parametrize(
    ("isolated", "said"),
    [
        ("false", "Bob and Ann Ann {state.m} So {state.named} mine post {named}"),
        ("true", "Bob and Ann Ann {state.m} So {state.named} mine none {named}"),
    ],
)
def test_a_workflow_inside_a_step_is_shown_with_what_it_is_given_as_far_as_that_is_known(tmp_path, isolated, said):
    data = json.loads(dry_run(tmp_path, "--json", flow=CHILD.replace("ISOLATED", isolated)).stdout)
    _, sub, say = data["steps"]
    assert sub["fields"]["input"] == {"who": "Bob and Ann", "n": "Ann", "m": "state.named", "t": "So {state.named}"}
    (message,) = say["calls"][0]["messages"]
    assert message["content"] == said
    assert say["from_steps"] == ({"m": ["sub"], "named": ["first"]} if isolated == "false" else {"m": ["sub"]})


def test_an_agent_is_shown_with_its_tools_which_are_counted(tmp_path: Path):
    """Of a file as of one in the step, and agents used as tools; a tool says itself what the document leaves out."""
    (tmp_path / "desk.yaml").write_text(
        "name: desk\nsystem_prompt: 'For {state.who}, {state.named}'\ntools: [file_read, http_request]\n"
    )
    flow = """\
name: agents
config: {provider: openai, model: gpt-4o-mini}
state: {who: Ann}
steps:
  - {id: plain, type: agent, agent: {name: plain}, prompt: Hi}
  - {id: call, type: llm_call, prompt: Hi, tools: [{name: file_read}, {name: http_request}], output: named}
  - {id: inline, type: agent, agent: {name: d, tools: [file_read, {name: http_request}]}, prompt: Hi}
  - {id: file, type: agent, depends_on: [call], agent: desk.yaml, prompt: "Hi {who}"}
  - id: above
    type: agent
    agent:
      name: above
      tools: [{name: ask, agent: desk.yaml}]
      output_schema: {type: json_schema, schema: {type: object, properties: {a: {type: string}}}}
    prompt: Hi
"""
    done = dry_run(tmp_path, "--json", flow=flow)
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)
    file = data["steps"][3]
    tokens = [each["calls"][0]["input_tokens"] for each in data["steps"]]
    assert [each["tools"] for each in data["steps"]] == [
        [],
        ["file_read", "http_request"],
        ["file_read", "http_request"],
        ["file_read", "http_request"],
        ["ask", "final_result"],
    ]
    assert tokens[1] == tokens[2] > tokens[0] + 200
    assert tokens[3] > tokens[2]
    assert tokens[4] > tokens[0] + 50
    assert [each["content"] for each in file["calls"][0]["messages"]] == ["For Ann, {state.named}", "Hi Ann"]
    assert (file["from_steps"], data["is_complete"]) == ({"named": ["call"]}, True)


ROUTED = """\
name: routed
state: {kind: bug, files: [a, b], size: 3, code: utf-8}
steps:
  - id: route
    type: router
    depends_on: [sort]
    conditions:
      - {expression: "state.kind == 'bug'", target: bug}
      - {expression: "state.kind == 'bill'", target: bill}
    default: other
"""


def test_what_is_written_in_branches_is_written_by_one_of_them(tmp_path: Path):
    write = (
        "{id: ID, type: tool, tool_name: shell_command, tool_args: {command: ls}, depends_on: [ON], output: handled}"
    )
    read = '{id: ID, type: tool, tool_name: shell_command, tool_args: {command: "ls {handled}"}, depends_on: [ON]}'
    steps = [write.replace("ID", "sort").replace("[ON]", "[]")]
    steps += [write.replace("ID", each).replace("ON", "route") for each in ("bug", "bill", "other")]
    steps += [write.replace("ID", "fix").replace("ON", "bug").replace("output", "when: state.size > 1, output")]
    steps += [
        read.replace("ID", name).replace("ON", on)
        for name, on in (
            ("all", "bug, bill, other"),
            ("one", "bug"),
            ("fixed", "fix"),
            ("either", "bug, fix"),
            ("routed", "route"),
        )
    ]
    steps += [
        write.replace("ID", "join").replace("ON", "bug, bill, other"),
        read.replace("ID", "end").replace("ON", "join"),
    ]
    flow = ROUTED + "".join(f"  - {each}\n" for each in steps)
    data = json.loads(dry_run(tmp_path, "--json", flow=flow).stdout)
    origins = {each["id"]: each["from_steps"].get("handled") for each in data["steps"]}
    assert origins["all"] == ["sort", "bug", "bill", "other"]
    assert (origins["one"], origins["routed"], origins["end"]) == (["bug"], ["sort"], ["join"])
    assert (origins["fixed"], origins["either"]) == (["fix"], ["bug", "fix"])
    assert "   'handled' is written by one of the steps 'bug', 'fix'\n" in dry_run(tmp_path, flow=flow).stdout


def test_fields_are_shown_as_they_are_written_in_their_order_and_filled_where_they_can_be(tmp_path: Path):
    flow = ROUTED.replace("[sort]", "[]")
    for each in ("bug", "bill", "other"):
        flow += f"  - {{id: {each}, type: tool, tool_name: file_read, depends_on: [route], tool_args: {{path: "
        flow += '"{kind}.txt", encoding: state.code}}\n'
    flow += "  - id: each\n    type: foreach\n    items: state.files\n    step: {type: tool, tool_name: file_read, "
    flow += 'tool_args: {path: "{item}"}}\n'
    done = dry_run(tmp_path, flow=flow)
    assert done.stdout.startswith(
        "1. route: router\n"
        "   conditions.0.expression: state.kind == 'bug'\n"
        "   conditions.1.expression: state.kind == 'bill'\n"
        "2. bug: tool (after route)\n"
        "   tools: file_read\n"
        '   tool_args: {"path": "bug.txt", "encoding": "utf-8"}\n'
    ), done.stderr
    assert "each: foreach\n   items: state.files\n" in done.stdout
    assert done.stdout.endswith("\nno call of a model is known beforehand; nothing was called\n")


def test_a_workflow_that_asks_no_model_says_so(tmp_path: Path):
    flow = "name: n\nsteps: [{id: a, type: tool, tool_name: file_read, tool_args: {path: x}}]\n"
    assert dry_run(tmp_path, flow=flow).stdout.endswith("\nno call of a model; nothing was called\n")
