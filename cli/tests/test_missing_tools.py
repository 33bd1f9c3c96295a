"""A tool that is nowhere: what is known before a run costs nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Invoke = Callable[..., Any]

PAID = "  - {id: paid, type: llm_call, prompt: hi, output: text}\n"
TYPO = "id: t, type: tool, tool_name: file_raed, tool_args: {path: a}"
ROUTER = "  - {id: r, type: router, default: paid, conditions: [{expression: 'False', target: t}]}\n"


def _flow(steps: str) -> str:
    return f"name: x\nconfig: {{provider: mock}}\nsteps:\n{steps}"


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("behind", ["", ", depends_on: [paid]"])
@pytest.mark.parametrize("command", ["run", "batch"])
def test_a_run_that_would_pay_and_then_fail_is_refused(invoke: Invoke, command: str, behind: str) -> None:
    Path("flow.yaml").write_text(_flow(f"{PAID}  - {{{TYPO}{behind}}}\n"), encoding="utf-8")
    Path("items.jsonl").write_text('{"id": "1"}\n', encoding="utf-8")
    given = ("--inputs", "items.jsonl") if command == "batch" else ()
    done = invoke(command, "flow.yaml", *given)
    assert done.exit_code == 2
    assert "flow.yaml:5:36: steps.t.tool_name: no tool 'file_raed'; did you mean 'file_read'" in done.stderr
    assert "paid" not in done.stdout + done.stderr


def test_a_check_only_warns_of_it(invoke: Invoke) -> None:
    Path("flow.yaml").write_text(_flow(f"{PAID}  - {{{TYPO}}}\n"), encoding="utf-8")
    done = invoke("validate", "flow.yaml")
    assert done.exit_code == 0
    assert "flow.yaml:5:36: warning: steps.t.tool_name: no tool 'file_raed'" in done.stderr


@pytest.mark.parametrize(
    "steps",
    [
        f"{PAID}  - {{{TYPO}, when: \"state.text == 'x'\"}}\n",
        f"{ROUTER}  - {{id: paid, type: llm_call, prompt: hi, depends_on: [r]}}\n  - {{{TYPO}, depends_on: [r]}}\n",
        f"{PAID}  - {{id: o, type: llm_call, prompt: hi, when: 'False'}}\n  - {{{TYPO}, depends_on: [o]}}\n",
    ],
)
def test_a_step_that_may_be_skipped_stops_nothing(invoke: Invoke, steps: str) -> None:
    Path("flow.yaml").write_text(_flow(steps), encoding="utf-8")
    done = invoke("run", "flow.yaml")
    assert (done.exit_code, "warning: steps.t.tool_name: no tool" in done.stderr) == (0, True), done.stderr


def test_a_tool_that_is_given_is_no_reason(invoke: Invoke) -> None:
    Path("mine.py").write_text("import treadle\n@treadle.tool\ndef file_raed(path: str) -> str:\n    return path\n")
    Path("flow.yaml").write_text(_flow(f"  - {{{TYPO}}}\n"), encoding="utf-8")
    assert invoke("run", "flow.yaml", "--tools", "mine.py").exit_code == 0
    refused = invoke("run", "flow.yaml")
    assert refused.exit_code == 2


def test_the_way_out_is_told_where_nothing_is_like_it(invoke: Invoke) -> None:
    text = _flow("  - {id: t, type: tool, tool_name: find_order}\n")
    Path("flow.yaml").write_text(text, encoding="utf-8")
    way = "no tool 'find_order'; give a tool of your own with --tools FILE, or under tools: in treadle.yaml; there are"
    assert way in invoke("validate", "flow.yaml").stderr
    assert way in invoke("run", "flow.yaml").stderr
