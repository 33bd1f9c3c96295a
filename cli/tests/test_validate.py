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
        "gone.yaml: no such file; did you mean 'good.yaml'?",
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
    assert good == {"file": "good.yaml", "ok": True, "steps": 1, "problems": []}
    assert (bad["file"], bad["ok"], bad["steps"], len(bad["problems"])) == ("bad.yaml", False, None, 2)
    assert bad["problems"][0] == {
        "file": "bad.yaml",
        "line": 4,
        "column": 39,
        "path": "steps.a.modl",
        "severity": "error",
        "code": "unknown-field",
        "message": "unknown field",
        "hint": "did you mean 'model'?",
    }


def test_without_leaves_a_plugin_out(invoke: Invoke) -> None:
    result = invoke("validate", "good.yaml", "--without", "llm_call")
    assert result.exit_code == 2
    assert "plugin 'llm_call' (treadle-llm-call 0.1.0) is disabled; leave out --without llm_call" in result.stderr


def test_no_file_is_a_usage_error(invoke: Invoke) -> None:
    result = invoke("validate")
    assert result.exit_code == 2
    assert "Missing argument 'FILE...'" in result.stderr
