"""What a run came to, for people: its results, its failures, and a last line."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from treadle import (
    ConfigurationError,
    Pending,
    RunResult,
    RunStatus,
    StepError,
    StepResult,
    StepStatus,
    Workflow,
)
from treadle.contracts.results import json_value
from treadle_cli import amounts
from treadle_cli.pending import question

__all__ = ["exit_code", "failure_lines", "going_on_line", "last_line", "pending_lines", "result_text", "written"]

_FAILED = (StepStatus.FAILED, StepStatus.TIMEOUT)

_MOST_NAMES = 10


def written(
    workflow: Workflow, result: RunResult, is_shown: Callable[[str, Any], bool] = lambda _step, _value: False
) -> dict[str, Any]:
    """What the steps made: the top-level keys of the state that they wrote, in the order of the document.

    Where nothing was written to the state, it is the output of each step that nothing waits for, by its id.

    :param is_shown: whether a step's output has been on the screen already; a key that has no other writer is left out.
    """
    keys: dict[str, bool] = {}
    succeeded = [step for step in workflow.steps if _of(result, step.id).status is StepStatus.SUCCESS]
    for step in succeeded:
        shown = is_shown(step.id, _of(result, step.id).output)
        for path in step.writes():
            keys[path.root] = keys.get(path.root, True) and shown
    if keys:
        state = result.final_state
        return {key: json_value(state[key]) for key, shown in keys.items() if not shown and key in state}
    waited_for = {dependency for step in succeeded for dependency in step.depends_on}
    outputs = result.to_json()["step_results"]
    return {
        step.id: outputs[step.id]["output"]
        for step in succeeded
        if step.id not in waited_for
        and outputs[step.id]["output"] is not None
        and not is_shown(step.id, _of(result, step.id).output)
    }


def _of(result: RunResult, step_id: str) -> StepResult:
    return result.step_results[step_id]


def result_text(values: Mapping[str, Any]) -> str:
    """``key: value`` where the value is short; else the key as a heading, and the value whole beneath it."""
    texts = {key: _value_text(value) for key, value in values.items()}
    blocks = []
    for key, text in texts.items():
        long = "\n" in text or len(key) + len(text) > 98
        blocks.append(f"{key}:\n{text.rstrip()}\n" if long else f"{key}: {text}\n")
    apart = any(block.count("\n") > 1 for block in blocks)
    return ("\n" if apart else "").join(blocks)


def _value_text(value: Any) -> str:
    if isinstance(value, str):
        return value if value.strip() else json.dumps(value)
    compact = json.dumps(value, ensure_ascii=False)
    return compact if len(compact) <= 60 else json.dumps(value, ensure_ascii=False, indent=2)


def exit_code(result: RunResult, *, may_pause: bool) -> int:
    """0 where the run succeeded or has paused, 2 where all that it failed by are mistakes in the command, the file or
    the settings, such as a key that is not set, else 1.

    :param may_pause: whether what it waits for can be answered.
    """
    if result.ok:
        return 0 if may_pause or result.status is RunStatus.SUCCESS else 1
    failed = [each.exception for each in result.step_results.values() if each.status in _FAILED]
    return 2 if result.status is RunStatus.FAILED and failed and all(map(_is_mistake, failed)) else 1


def _is_mistake(error: BaseException | None) -> bool:
    while isinstance(error, StepError) and error.__cause__ is not None:  # that of a child run, which says more
        error = error.__cause__
    return isinstance(error, ConfigurationError)


def failure_lines(result: RunResult) -> list[str]:
    """Why a run did not succeed: each failed step, and the steps that were skipped, by reason. A paused one may have
    failed as well."""
    failed = [each for each in result.step_results.values() if each.status in _FAILED]
    if result.ok and not failed:
        return []
    over = result.error if result.status is RunStatus.BUDGET_EXCEEDED else None
    lines = [f"error: {_told(each)}" for each in failed if over != f"step '{each.step_id}': {each.error}"]
    if result.status is RunStatus.BUDGET_EXCEEDED:
        lines.append(f"[BUDGET] {result.error}")
    elif result.error and (result.status not in (RunStatus.FAILED, RunStatus.PAUSED) or not failed):
        lines.append(f"error: {result.error}")
    skipped: dict[str, list[str]] = {}
    for each in result.step_results.values():
        if each.status is StepStatus.SKIPPED and each.reason != result.error:
            skipped.setdefault(each.reason or "no reason is known", []).append(each.step_id)
    for reason, names in skipped.items():
        more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
        lines.append(f"skipped: {', '.join(names[:_MOST_NAMES])}{more}: {reason}")
    return lines


def _told(step: StepResult) -> str:
    """What a step failed for, behind its name; which may be the first word of that."""
    name = f"step '{step.step_id}'"
    return f"{step.error}" if f"{step.error}".startswith(f"{name} ") else f"{name}{_tries(step)}: {step.error}"


def going_on_line(result: RunResult, options: str, *, quiet: bool = False) -> str | None:
    """The command that goes on with a recorded run which has not come to its end. A paused one has one for an answer.

    :param options: what it needs besides.
    :param quiet: only where it needs an option that one would not think of.
    """
    command = f"treadle resume {result.run_id}{f' {options}' if options else ''}"
    if result.status is RunStatus.BUDGET_EXCEEDED:
        return f"{command} --budget USD goes on, with a larger budget for all of the run"
    return None if result.ok or quiet else f"{command} goes on with it"


def pending_lines(
    run_id: str, pending: Sequence[Pending], options: str | None = "", *, is_replay: bool = False
) -> list[str]:
    """What a paused run waits for, each question with the commands that answer it.

    :param options: what those commands need besides; None where the run is not recorded.
    :param is_replay: whether it was to be recorded nowhere.
    """
    lines = []
    for each in pending:
        lines.append(f"waiting: step '{each.step_id}': {question(each)}")
        if options is None:
            continue
        if each.deadline is not None:
            until = datetime.fromtimestamp(each.deadline).astimezone().isoformat(sep=" ", timespec="seconds")
            lines.append(f"    without an answer until {until} it is '{each.default}'")
        command = f"treadle resume {run_id}{f' {options}' if options else ''}"
        lines += [f"    {command} {how}" for how in _ways_to_answer(each)]
    if lines and options is None:
        lines.append(
            "a replay ends here, as nobody can answer it"
            if is_replay
            else "error: the run is not recorded, so nobody can answer it; begin it again with a journal"
        )
    return lines


def _ways_to_answer(pending: Pending) -> list[str]:
    if pending.call_id is not None:
        return [f"--assume {shlex.quote(f'{pending.call_id}={each}')}" for each in pending.choices]
    if set(pending.choices) == {"approved", "rejected"}:
        return [f"--approve {pending.gate}", f"--reject {pending.gate}"]
    if 0 < len(pending.choices) <= _MOST_NAMES:
        return [f"--answer {shlex.quote(f'{pending.gate}={each}')}" for each in pending.choices]
    return [f"--answer {pending.gate}=..."]


def _tries(result: StepResult) -> str:
    return f" (attempt {result.attempts})" if result.attempts > 1 else ""


def last_line(result: RunResult, *, is_recorded: bool) -> str:
    """Status, time, tokens, cost and the run's id, where other commands know it."""
    return ", ".join(
        [
            f"{result.status} after {amounts.duration(result.total_duration_ms / 1000)}",
            amounts.tokens(result.total_tokens),
            amounts.cost(result.total_cost_usd, result.budget_usd),
            f"run {result.run_id}" if is_recorded else "not recorded",
        ]
    )
