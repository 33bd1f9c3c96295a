"""``treadle validate --rights``: what a workflow asks for."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

Invoke = Callable[..., Result]

FLOW = """\
name: asks
state: {id: 7}
config:
  provider: mock
  sandbox: {enabled: true, allowed_commands: [ls], allowed_paths: [data]}
steps:
- {id: list, type: tool, tool_name: shell_command, tool_args: {command: "ls {state.id}", cwd: data}}
- {id: fetch, type: tool, tool_name: http_request, tool_args: {url: "https://api.test:8443/{state.id}"}}
- {id: keep, type: tool, tool_name: file_write, tool_args: {path: "data/{state.id}", content: x}}
- {id: think, type: llm_call, prompt: hi, model: big, tools: [{name: file_read}, {name: no_such_tool}]}
- {id: ask, type: agent, agent: desk.yaml, prompt: hi}
"""
DESK = "name: desk\nmodel: small\ntools: [shell_command]\n"


@pytest.fixture(autouse=True)
def files(tmp_path: Path) -> None:
    (tmp_path / "asks.yaml").write_text(FLOW, encoding="utf-8")
    (tmp_path / "desk.yaml").write_text(DESK, encoding="utf-8")


def test_everything_that_is_asked_for_is_listed_with_its_steps(invoke: Invoke) -> None:
    result = invoke("validate", "--rights", "asks.yaml")
    assert result.exit_code == 0
    assert result.stdout.splitlines()[1:] == [
        "  tools:    shell_command  [list, ask]",
        "  tools:    http_request  [fetch]",
        "  tools:    file_write  [keep]",
        "  tools:    file_read  [think]",
        "  tools:    no_such_tool  [think]",
        "  models:   big  [think]",
        "  models:   small  [ask]",
        "  commands: ls {state.id}  [list]",
        "  commands: any command  [ask]",
        "  paths:    data (read)  [list]",
        "  paths:    data/{state.id} (write)  [keep]",
        "  paths:    any path (read)  [think, ask]",
        "  hosts:    api.test  [fetch]",
        "  sandbox:  enabled: allowed_commands ls; allowed_paths data",
    ]


def test_json_has_a_list_for_each_kind(invoke: Invoke) -> None:
    (found,) = json.loads(invoke("validate", "--rights", "--json", "asks.yaml").stdout)
    rights = found["rights"]
    assert rights["commands"] == [{"name": "ls {state.id}", "steps": ["list"]}, {"name": "*", "steps": ["ask"]}]
    assert rights["paths"][1] == {"name": "data/{state.id}", "access": "write", "steps": ["keep"]}
    assert rights["hosts"] == [{"name": "api.test", "steps": ["fetch"]}]
    assert [each["name"] for each in rights["models"]] == ["big", "small"]
    assert [each["name"] for each in rights["tools"]][:2] == ["shell_command", "http_request"]
    assert rights["sandbox"]["enabled"] is True
    (found,) = json.loads(invoke("validate", "--json", "asks.yaml").stdout)
    assert "rights" not in found


def test_without_limits_that_is_said(invoke: Invoke, tmp_path: Path) -> None:
    (tmp_path / "free.yaml").write_text("name: f\nsteps:\n- {id: a, type: tool, tool_name: file_read, "
                                        "tool_args: {path: a}}\n", encoding="utf-8")  # fmt: skip
    lines = invoke("validate", "--rights", "free.yaml").stdout.splitlines()
    assert lines[-1] == "  sandbox:  not enabled: it limits neither commands nor paths nor hosts"


def test_the_default_model_is_named_as_that(invoke: Invoke, tmp_path: Path) -> None:
    text = "name: f\nconfig: {provider: mock}\nsteps:\n- {id: a, type: llm_call, prompt: x}\n"
    (tmp_path / "plain.yaml").write_text(text, encoding="utf-8")
    assert "  models:   the default of provider 'mock'  [a]" in invoke("validate", "--rights", "plain.yaml").stdout


def test_a_file_with_errors_has_no_rights(invoke: Invoke, tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text("name: b\nsteps: []\n", encoding="utf-8")
    (found,) = json.loads(invoke("validate", "--rights", "--json", "bad.yaml").stdout)
    assert (found["ok"], found["rights"]) == (False, None)


def test_what_workflows_inside_ask_for_is_listed_under_their_dotted_ids(invoke: Invoke) -> None:
    Path("inside.yaml").write_text(
        "name: x\n"
        "steps:\n"
        "  - id: each\n"
        "    type: foreach\n"
        "    items: [a]\n"
        "    step: {type: tool, tool_name: file_read, tool_args: {path: 'data/{item}'}}\n",
        encoding="utf-8",
    )
    (found,) = json.loads(invoke("validate", "--rights", "--json", "inside.yaml").stdout)
    assert found["rights"]["paths"] == [{"name": "data/{item}", "access": "read", "steps": ["each.step"]}]
