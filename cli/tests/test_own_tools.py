"""Tools of one's own from the command line, without Python around it; and what `config show` says of new blocks."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Invoke = Callable[..., Any]

FLOW = "name: t\nsteps:\n  - {id: a, type: tool, tool_name: shout, tool_args: {text: hi}, output: x}\n"
TOOLS = "import treadle\n@treadle.tool\ndef shout(text: str) -> str:\n    return text.upper()\n"


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.path", list(__import__("sys").path))
    (tmp_path / "flow.yaml").write_text(FLOW, encoding="utf-8")
    (tmp_path / "mine.py").write_text(TOOLS, encoding="utf-8")


def test_a_flag_brings_tools_into_a_run_and_a_check(invoke: Invoke) -> None:
    assert "no tool 'shout'" in invoke("validate", "flow.yaml").stderr
    assert invoke("validate", "--strict", "flow.yaml", "--tools", "mine.py").exit_code == 0
    result = invoke("run", "flow.yaml", "--tools", "mine.py", "--json")
    assert json.loads(result.stdout)["final_state"] == {"x": "HI"}


def test_the_settings_bring_them_too(invoke: Invoke, tmp_path: Path) -> None:
    (tmp_path / "treadle.yaml").write_text("tools: [mine.py]\n", encoding="utf-8")
    result = invoke("run", "flow.yaml", "--json")
    assert (result.exit_code, json.loads(result.stdout)["final_state"]) == (0, {"x": "HI"})


@pytest.mark.parametrize(
    ("source", "error"),
    [
        ("nine.py", "error: --tools: no such file: 'nine.py'; did you mean 'mine.py'?\n"),
        (
            "broken.py",
            "error: broken.py (--tools) could not be imported, line 1: ZeroDivisionError: division by zero\n",
        ),
    ],
)
def test_a_source_that_cannot_be_had_is_a_mistake_of_the_user(
    source: str, error: str, invoke: Invoke, tmp_path: Path
) -> None:
    (tmp_path / "broken.py").write_text("1 / 0", encoding="utf-8")
    result = invoke("run", "flow.yaml", "--tools", source)
    assert (result.exit_code, result.stderr) == (2, error)


def test_what_tools_print_goes_to_stderr_and_stdout_has_the_result_alone(invoke: Invoke, tmp_path: Path) -> None:
    talks = TOOLS.replace("    return", "    print('at work')\n    return") + "print('imported')\n"
    (tmp_path / "mine.py").write_text(talks, encoding="utf-8")
    (tmp_path / "items.jsonl").write_text("{}\n", encoding="utf-8")
    result = invoke("run", "flow.yaml", "--tools", "mine.py", "--json")
    assert json.loads(result.stdout)["final_state"] == {"x": "HI"}
    assert "imported\n" in result.stderr
    assert "at work\n" in result.stderr
    assert invoke("run", "flow.yaml", "--tools", "mine.py").stdout == "x: HI\n"
    assert json.loads(invoke("validate", "flow.yaml", "--tools", "mine.py", "--json").stdout)[0]["ok"]
    lines = invoke("batch", "flow.yaml", "--tools", "mine.py", "--inputs", "items.jsonl")
    assert json.loads(lines.stdout)["output"] == {"x": "HI"}
    assert "at work\n" in lines.stderr


@pytest.mark.parametrize("command", [("plugins",), ("config", "show"), ("--help",), ("validate", "plain.yaml")])
def test_commands_that_need_no_tool_import_none(command: tuple[str, ...], invoke: Invoke, tmp_path: Path) -> None:
    (tmp_path / "plain.yaml").write_text(
        "name: t\nsteps:\n  - {id: a, type: router, conditions: [], default: b}\n"
        "  - {id: b, type: router, depends_on: [a], default: c}\n"
        "  - {id: c, type: router, depends_on: [b], default: c}\n",
        encoding="utf-8",
    )
    (tmp_path / "treadle.yaml").write_text("tools: [broken.py]\naliases: {tools: {a: b}}\n", encoding="utf-8")
    (tmp_path / "broken.py").write_text("raise AssertionError('imported')", encoding="utf-8")
    assert "imported" not in invoke(*command).stderr


def test_a_broken_source_of_the_settings_is_told_at_the_tool_that_is_looked_for(invoke: Invoke, tmp_path: Path) -> None:
    (tmp_path / "treadle.yaml").write_text("tools: [broken.py]\n", encoding="utf-8")
    (tmp_path / "broken.py").write_text("1 / 0", encoding="utf-8")
    result = invoke("run", "flow.yaml")
    assert result.exit_code == 2
    assert result.stderr.splitlines()[0] == (
        "flow.yaml:3:36: steps.a.tool_name: broken.py (treadle.yaml:1:9) could not be imported, line 1: "
        "ZeroDivisionError: division by zero"
    )


def test_config_show_says_where_the_blocks_come_from(invoke: Invoke, tmp_path: Path) -> None:
    (tmp_path / "treadle.yaml").write_text(
        "tools: [mine.py]\nprices: {m: {input: 1}}\nproviders: {openai: {limits: {breaker: {failures: 2}}}}\n"
        "redaction: {keys: [x], salt: env:NO_SUCH_SALT}\n",
        encoding="utf-8",
    )
    shown = {each["key"]: each for each in json.loads(invoke("config", "show", "--json").stdout)["settings"]}
    assert {
        key: (shown[key]["value"], shown[key]["origin"]) for key in shown if key.startswith(("tools", "prices"))
    } == {
        "tools": (["mine.py"], "treadle.yaml:1:8"),
        "prices.m.input": (1, "treadle.yaml:2:21"),
    }
    assert shown["providers.openai.limits.breaker.failures"]["origin"] == "treadle.yaml:3:51"
    assert shown["redaction.keys"]["value"] == ["x"]
    assert (shown["redaction.salt"]["value"], shown["redaction.salt"]["set"]) == ("env:NO_SUCH_SALT", False)


def test_a_budget_that_is_none_is_told_in_words(invoke: Invoke) -> None:
    for command in (("run", "flow.yaml"), ("batch", "flow.yaml", "--inputs", "x.jsonl")):
        assert "'x' is not a valid amount in US dollars." in invoke(*command, "-b", "x").stderr
