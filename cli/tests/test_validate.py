"""``treadle validate``."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

Invoke = Callable[..., Result]

GOOD = "name: good\nconfig: {provider: mock}\nsteps:\n- {id: a, type: llm_call, prompt: hi}\n"
BAD = """\
name: bad
config: {provider: mock}
steps:
- {id: a, type: llm_call, prompt: hi, modl: x}
- {id: b, type: lm_call}
"""
SLIPS = """\
name: slips
config: {provider: mok}
state: {topic: tides, subject: {author: Ann}}
steps:
- id: first
  type: llm_call
  prompt: |
    Über {topik}:
      {state.topik!r} of {state.subject.autor}
  outptu: text
- id: second
  type: tool
  depends_on: ['frist']
  tool_name: http_reqest
  tool_args: {url: state.topic, body: {more: ["{state.topyc}"]}}
- id: route
  type: router
  depends_on: [first]
  conditions:
  - {expression: state.text == "x" and steps.frist.status == 'success', target: 'lst'}
  default: last
- {id: last, type: "llm_cal", depends_on: [route], prompt: "{steps.first.output}"}
"""
LOOSE = """\
name: loose
steps:
- {id: r, type: router, conditions: [], default: b}
- {id: b, type: llm_call, prompt: x}
"""


@pytest.fixture(autouse=True)
def files(tmp_path: Path) -> None:
    for name, text in (("good.yaml", GOOD), ("bad.yaml", BAD), ("loose.yaml", LOOSE)):
        (tmp_path / name).write_text(text, encoding="utf-8")


def test_a_good_file_is_named_on_stdout(invoke: Invoke) -> None:
    result = invoke("validate", "good.yaml")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "good.yaml: ok (1 step)\n", "")


def test_problems_are_on_stderr_with_the_path_as_typed_and_all_files_are_checked(invoke: Invoke) -> None:
    result = invoke("validate", "./bad.yaml", "good.yaml", "gone.yaml")
    assert result.exit_code == 2
    assert result.stdout == "good.yaml: ok (1 step)\n"
    assert result.stderr.splitlines() == [
        "./bad.yaml:4:39: steps.a.modl: unknown field; did you mean 'model'?",
        "./bad.yaml:5:17: steps.b.type: no step type 'lm_call'; did you mean 'llm_call' (treadle-llm-call 0.1.0)?",
        "./bad.yaml: 2 errors",
        "gone.yaml: no such file",
        "gone.yaml: 1 error",
    ]


def test_a_warning_is_told_and_passes(invoke: Invoke) -> None:
    result = invoke("validate", "loose.yaml")
    assert (result.exit_code, result.stdout) == (0, "loose.yaml: ok (2 steps, 1 warning)\n")
    assert result.stderr.startswith("loose.yaml:3:")
    assert ": warning: steps.r.default: step 'b' does not depend on 'r'" in result.stderr


def test_strict_fails_on_a_warning(invoke: Invoke) -> None:
    result = invoke("validate", "--strict", "loose.yaml")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.splitlines()[-1] == "loose.yaml: 1 warning"


def test_json_lists_each_file_with_its_problems(invoke: Invoke) -> None:
    result = invoke("validate", "--json", "good.yaml", "bad.yaml")
    good, bad = json.loads(result.stdout)
    assert (result.exit_code, result.stderr) == (2, "")
    assert good == {"file": "good.yaml", "ok": True, "steps": 1, "placeholders": {}, "problems": []}
    assert (bad["file"], bad["ok"], bad["steps"], len(bad["problems"])) == ("bad.yaml", False, None, 2)
    where = {"start": {"line": 4, "column": 39}, "end": {"line": 4, "column": 43}}
    assert bad["problems"][0] == {
        "file": "bad.yaml",
        "line": 4,
        "column": 39,
        "range": where,
        "path": "steps.a.modl",
        "severity": "error",
        "code": "unknown-field",
        "message": "unknown field",
        "hint": "did you mean 'model'?",
        "fix": {"range": where, "text": "model"},
    }


def test_json_says_which_braces_are_placeholders(invoke: Invoke, tmp_path: Path) -> None:
    """Of all the braces in a prompt only some are read from the state."""
    prompt = '"{a} and {state.b[0]}, {state.b[0]}; {{c}} and { d } and {\\"e\\": 1}"'
    step = f"- {{id: a, type: llm_call, prompt: {prompt}}}"
    text = f"name: x\nconfig: {{provider: mock}}\nstate: {{a: 1, b: [2]}}\nsteps:\n{step}\n"
    (tmp_path / "braces.yaml").write_text(text, encoding="utf-8")
    (file,) = json.loads(invoke("validate", "--json", "braces.yaml").stdout)
    assert (file["problems"], file["placeholders"]) == ([], {"steps.a.prompt": ["a", "state.b[0]"]})


def test_every_fix_can_be_put_into_the_file_and_mends_it(invoke: Invoke, tmp_path: Path) -> None:
    """From the last to the first, as they are; then nothing is left but what has no fix."""
    (tmp_path / "slips.yaml").write_text(SLIPS, encoding="utf-8")
    (file,) = json.loads(invoke("validate", "--json", "slips.yaml").stdout)
    assert [problem["code"] for problem in file["problems"] if problem["fix"] is None] == []
    lines = SLIPS.split("\n")
    for fix in reversed([problem["fix"] for problem in file["problems"]]):
        start, end = fix["range"]["start"], fix["range"]["end"]
        assert start["line"] == end["line"]
        line = lines[start["line"] - 1]
        lines[start["line"] - 1] = line[: start["column"] - 1] + fix["text"] + line[end["column"] - 1 :]
    (tmp_path / "slips.yaml").write_text("\n".join(lines), encoding="utf-8")
    mended = invoke("validate", "--strict", "slips.yaml")
    assert (mended.exit_code, mended.stdout, mended.stderr) == (0, "slips.yaml: ok (4 steps)\n", "")


def test_a_state_key_given_to_the_run_is_not_warned_about(invoke: Invoke, tmp_path: Path) -> None:
    step = '- {id: a, type: llm_call, prompt: "{state.topic} {state.user.name}"}'
    text = f"name: x\nconfig: {{provider: mock}}\nsteps:\n{step}\n"
    (tmp_path / "asks.yaml").write_text(text, encoding="utf-8")
    assert "nothing provides 'state.topic'" in invoke("validate", "asks.yaml").stderr
    (tmp_path / "user.json").write_text('{"user": {}}', encoding="utf-8")
    ran = invoke("run", "asks.yaml", "-s", "topic=tides", "--state-file", "user.json")
    assert (ran.exit_code, "nothing provides" in ran.stderr) == (0, False)


def test_without_leaves_a_plugin_out(invoke: Invoke) -> None:
    result = invoke("validate", "good.yaml", "--without", "llm_call")
    assert result.exit_code == 2
    assert "plugin 'llm_call' (treadle-llm-call 0.1.0) is disabled; leave out --without llm_call" in result.stderr


def test_no_file_is_a_usage_error(invoke: Invoke) -> None:
    result = invoke("validate")
    assert result.exit_code == 2
    assert "Missing argument 'FILE...'" in result.stderr
