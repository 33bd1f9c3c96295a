"""What is said of a run at its end."""

from __future__ import annotations

from typing import Any

import pytest

import treadle
from treadle import (
    ConfigurationError,
    CredentialError,
    Host,
    RunResult,
    RunStatus,
    StepError,
    StepResult,
    StepStatus,
)
from treadle_cli.summary import exit_code, failure_lines, last_line, result_text, written


def result_of(status: RunStatus, *steps: StepResult, **fields: Any) -> RunResult:
    defaults: dict[str, Any] = {
        "run_id": "r1",
        "workflow_name": "w",
        "final_state": {},
        "total_tokens": 1200,
        "total_cost_usd": 0.0012,
        "total_duration_ms": 4200.0,
    }
    return RunResult(status=status, step_results={each.step_id: each for each in steps}, **{**defaults, **fields})


def step(name: str, status: StepStatus, **fields: Any) -> StepResult:
    return StepResult(step_id=name, status=status, **fields)


@pytest.mark.parametrize("status", [RunStatus.SUCCESS, RunStatus.PAUSED])
def test_a_run_that_is_well_has_no_failures(status: RunStatus) -> None:
    assert failure_lines(result_of(status, step("a", StepStatus.SKIPPED, reason="'r' did not choose it"))) == []


def test_every_failed_step_is_told_and_the_skipped_are_gathered_by_reason() -> None:
    skipped = [step(f"s{number}", StepStatus.SKIPPED, reason="step 'a' failed") for number in range(12)]
    result = result_of(
        RunStatus.FAILED,
        step("a", StepStatus.FAILED, error="no bucket"),
        step("b", StepStatus.TIMEOUT, error="timed out after 1 s"),
        step("c", StepStatus.SKIPPED, reason="'r' did not choose it"),
        *skipped,
        error="step 'a': no bucket",
    )
    assert failure_lines(result) == [
        "error: step 'a': no bucket",
        "error: step 'b': timed out after 1 s",
        "skipped: c: 'r' did not choose it",
        "skipped: s0, s1, s2, s3, s4, s5, s6, s7, s8, s9 and 2 more: step 'a' failed",
    ]


def test_a_run_that_was_ended_says_why_once() -> None:
    why = "interrupted by Ctrl-C"
    waiting = step("b", StepStatus.SKIPPED, reason=why)
    result = result_of(RunStatus.CANCELLED, step("a", StepStatus.CANCELLED, error=why), waiting, error=why)
    assert failure_lines(result) == ["error: interrupted by Ctrl-C"]


def test_the_last_line_has_status_time_tokens_cost_and_the_id_of_a_run_that_others_know() -> None:
    assert (
        last_line(result_of(RunStatus.SUCCESS), is_recorded=True)
        == "success after 4.2 s, 1,200 tokens, $0.0012, run r1"
    )
    unknown = result_of(RunStatus.FAILED, total_tokens=None, total_cost_usd=None)
    assert last_line(unknown, is_recorded=False) == "failed after 4.2 s, tokens unknown, cost unknown, not recorded"


def _of_a_child(error: Exception) -> StepError:
    outer = StepError("step 'ask': it failed")
    outer.__cause__ = error
    return outer


MISTAKE, FAILURE = CredentialError("OPENAI_API_KEY is not set"), StepError("no bucket")


@pytest.mark.parametrize(
    ("status", "errors", "code"),
    [
        (RunStatus.SUCCESS, [], 0),
        (RunStatus.SUCCESS, [MISTAKE], 0),  # on_step_failure: continue
        (RunStatus.FAILED, [FAILURE], 1),
        (RunStatus.FAILED, [MISTAKE], 2),
        (RunStatus.FAILED, [MISTAKE, ConfigurationError("no base_url")], 2),
        (RunStatus.FAILED, [_of_a_child(MISTAKE)], 2),
        (RunStatus.FAILED, [_of_a_child(FAILURE)], 1),
        (RunStatus.FAILED, [MISTAKE, FAILURE], 1),
        (RunStatus.FAILED, [None], 1),
        (RunStatus.FAILED, [], 1),
        (RunStatus.TIMEOUT, [MISTAKE], 1),
        (RunStatus.CANCELLED, [MISTAKE], 1),
        (RunStatus.BUDGET_EXCEEDED, [], 1),
    ],
)
def test_a_run_that_failed_by_mistakes_in_the_settings_alone_is_told_apart(
    status: RunStatus, errors: list[Exception | None], code: int
) -> None:
    failed = [step(f"s{at}", StepStatus.FAILED, exception=error) for at, error in enumerate(errors)]
    assert exit_code(result_of(status, *failed), may_pause=True) == code


def test_a_pause_that_nobody_can_end_is_a_failure() -> None:
    paused = result_of(RunStatus.PAUSED)
    assert (exit_code(paused, may_pause=True), exit_code(paused, may_pause=False)) == (0, 1)


def test_short_values_are_lines_and_long_ones_have_a_heading() -> None:
    assert result_text({"a": "x", "b": [1, 2], "c": None, "d": ""}) == 'a: x\nb: [1, 2]\nc: null\nd: ""\n'
    long = {"text": "one\ntwo\n", "label": "x", "data": {"key": "v" * 60}}
    assert result_text(long) == ("text:\none\ntwo\n\nlabel: x\n\n" + 'data:\n{\n  "key": "' + "v" * 60 + '"\n}\n')
    assert result_text({}) == ""


def test_what_steps_wrote_is_shown_and_what_the_caller_gave_is_not() -> None:
    host = Host.discover()
    workflow = treadle.build_workflow(
        {
            "name": "w",
            "config": {"provider": "mock"},
            "state": {"given": 1},
            "steps": [
                {"id": "a", "type": "llm_call", "prompt": "x", "output": "out.a"},
                {"id": "b", "type": "llm_call", "prompt": "x", "output": "out.b"},
                {"id": "c", "type": "llm_call", "prompt": "x", "output": "text"},
            ],
        },
        host=host,
    )
    result = treadle.run_sync(workflow)
    out = {"a": "Mock response", "b": "Mock response"}
    assert written(workflow, result) == {"out": out, "text": "Mock response"}
    # A key stays as long as one of its writers has not been on the screen.
    assert written(workflow, result, lambda name, _value: name in "ac") == {"out": out}
    assert written(workflow, result, lambda _name, _value: True) == {}
