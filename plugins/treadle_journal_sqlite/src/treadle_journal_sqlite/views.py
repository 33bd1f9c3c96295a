"""What commands show of the journal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from treadle import JournalEntry, Record, StepResult, StepStatus, amounts
from treadle.contracts.results import json_value
from treadle_journal_sqlite.call_texts import CallTexts
from treadle_journal_sqlite.encoding import undecided
from treadle_journal_sqlite.journal import SqliteJournal
from treadle_journal_sqlite.processes import is_alive

__all__ = ["find_run", "list_runs", "run_object", "run_versions", "step_notes"]

_COLUMNS = (
    "run_id, workflow, status, started, updated, finished, cost, tokens, duration_ms, error, digest, providers, "
    "pid, born"
)
_CALLS = (
    "SELECT step, attempt, ordinal, kind = 'model_call_started', instr(data, '\"known_usd\":') FROM entries "
    "WHERE run_id = ? AND kind IN ('model_call_started', 'model_call_finished') ORDER BY seq"
)


def list_runs(
    journal: SqliteJournal,
    *,
    workflow: str | None = None,
    provider: str | None = None,
    status: str | None = None,
    since: float | None = None,
    until: float | None = None,
    min_cost: float | None = None,
    max_cost: float | None = None,
    limit: int | None = None,
) -> list[dict[str, Any]]:
    """Runs, the newest first.

    :param provider: the beginning of a ``provider/model`` that answered.
    :param since: seconds since 1970; a run that began then is in it.
    :param until: a run that began then is not in it.
    """
    is_running = status in ("running", "interrupted")
    tests: list[tuple[str, Any]] = [
        ("workflow = ?", workflow),
        ("status = ?", "running" if is_running else status),
        ("instr(providers, ' ' || ?)", provider),
        ("started >= ?", since),
        ("started < ?", until),
        ("cost >= ?", min_cost),
        ("cost <= ?", max_cost),
    ]
    given = [(test, value) for test, value in tests if value is not None]
    where = f"WHERE {' AND '.join(test for test, _ in given)}" if given else ""
    found: list[dict[str, Any]] = []
    # Whether a run is still under way is not in the file, so that is asked here.
    query = f"SELECT {_COLUMNS} FROM runs {where} ORDER BY started DESC, rowid DESC"
    is_sifted = is_running or min_cost is not None or max_cost is not None
    last = f" LIMIT {limit}" if limit is not None and not is_sifted else ""
    for row in journal.store.rows(query + last, [value for _, value in given]):
        run = _run(row, journal)
        # What an interrupted run has cost may turn out to be unknown only now.
        is_in_range = run["total_cost_usd"] is not None or (min_cost is None and max_cost is None)
        if is_in_range and status in (None, run["status"]):
            found.append(run)
    return found[:limit]


def find_run(journal: SqliteJournal, run_id: str) -> dict[str, Any] | None:
    """One of them."""
    rows = journal.store.rows(f"SELECT {_COLUMNS} FROM runs WHERE run_id = ?", (run_id,))
    return _run(rows[0], journal) if rows else None


def _run(row: tuple[Any, ...], journal: SqliteJournal) -> dict[str, Any]:
    (
        run_id,
        workflow,
        status,
        started,
        updated,
        finished,
        cost,
        tokens,
        duration,
        error,
        digest,
        providers,
        pid,
        born,
    ) = row
    if status == "running" and not is_alive(pid, born):
        status = "interrupted"
        unheard = _unheard(journal, run_id)
        tokens = None if unheard else tokens
        cost = cost if all(unheard) else None
    return {
        "run_id": run_id,
        "workflow_name": workflow,
        "status": status,
        "started_at": _time(started),
        "updated_at": _time(updated),
        "finished_at": _time(finished),
        "total_duration_ms": duration,
        "total_cost_usd": cost,
        "total_tokens": tokens,
        "providers_used": providers.split(),
        "workflow_hash": digest,
        "error": error,
    }


def _unheard(journal: SqliteJournal, run_id: str) -> list[bool]:
    """The model calls of which nothing more was heard: of each, whether it is known what it has cost (nothing)."""
    begun: dict[tuple[Any, ...], bool] = {}
    for *call, is_start, is_known in journal.store.rows(_CALLS, (run_id,)):
        if is_start:
            begun[tuple(call)] = bool(is_known)
        else:
            begun.pop(tuple(call), None)
    return list(begun.values())


def _time(seconds: float | None) -> str | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")


def run_object(record: Record, run: Mapping[str, Any]) -> dict[str, Any]:
    """The result object of a run, as ``treadle run --json`` prints it; of a run that has none, as far as it came."""
    if record.result is not None:
        return record.result.to_json()
    results = {step["id"]: _so_far(step, record, run["status"]) for step in record.workflow["document"]["steps"]}
    return {
        "run_id": record.run_id,
        "workflow_name": run["workflow_name"],
        "status": run["status"],
        "step_results": {step_id: result.to_json() for step_id, result in results.items()},
        "final_state": json_value(_state_so_far(record)),
        "total_tokens": run["total_tokens"],
        "total_cost_usd": run["total_cost_usd"],
        "total_duration_ms": record.elapsed * 1000,
        "error": None if run["status"] == "running" else "the process ended before the run did",
        "pending": [],
        "warnings": [],
        "annotations": [],
    }


def _so_far(told: Mapping[str, Any], record: Record, run_status: str) -> StepResult:
    step_id = told["id"]
    step = record.steps.get(step_id)
    if step is None:
        order = record.workflow.get("order") or ()
        earlier = {*(told.get("depends_on") or ()), *(first for first, second in order if second == step_id)}
        if any(each not in record.steps or record.steps[each].result is None for each in earlier):
            return undecided(step_id)
        why = "it has not begun yet" if run_status == "running" else "the process ended before it began"
        return StepResult(step_id=step_id, status=StepStatus.PENDING, reason=why)
    if step.result is not None:
        return step.result
    record.steps[step_id].end_attempt()
    spent = step.spent
    status = StepStatus.RUNNING
    return StepResult(step_id=step_id, status=status, attempts=step.attempt, usage=spent.usage, cost_usd=spent.cost_usd)


def _state_so_far(record: Record) -> dict[str, Any]:
    """The keys that finished steps of the outermost run have written whole, over what it began with."""
    state = dict(record.state)
    for each in record.workflow["document"]["steps"]:
        step = record.steps.get(each["id"])
        if step is not None and step.is_done:
            output = each.get("output")
            writes = ({output: step.outcome.value} if output else {}) | dict(step.outcome.writes)
            state |= {path.removeprefix("state."): value for path, value in writes.items()}
    return state


def run_versions(record: Record) -> dict[str, str]:
    """What it was run by."""
    return dict(record.facts.get("versions") or {})


def step_notes(entries: Iterable[JournalEntry], *, with_texts: bool = False) -> dict[str, list[str]]:
    """By the dotted path of a step, what it called, in the order of the calls, and what was tried again.

    :param with_texts: what was asked and answered as well.
    """
    notes: dict[str, list[str]] = {}
    asked: dict[tuple[str, int, int, str], str] = {}
    texts = CallTexts() if with_texts else None
    shown: dict[tuple[str, int, int, str], list[str]] = {}
    for entry in entries:
        data, key = entry.data, (entry.step, entry.attempt, entry.ordinal, entry.kind.partition("_")[0])
        lines = notes.setdefault(entry.step, [])
        if entry.kind == "step_started" and entry.attempt > 1:
            lines.append(f"attempt {entry.attempt}")
        elif entry.kind == "model_call_started":
            asked[key] = f"model {data['provider']}/{data['request'].model}"
        elif entry.kind == "tool_call_started":
            asked[key] = f"tool {data['tool_name']} ({data['call_id']})"
        elif entry.kind.endswith("call_finished") and key in asked:
            lines.append(f"{asked.pop(key)}: {_came_to(data)}")
            lines += [*shown.pop(key, ()), *(texts.of(entry) if texts else ())]
        elif entry.kind == "run_resumed":
            lines.append("resumed")
        elif entry.kind == "answered":
            lines += [f"{gate}: answered '{value}'" for gate, value in data["answers"].items()]
            lines += [f"{gate}: nobody answered in time, so '{value}'" for gate, value in data["expired"].items()]
        if texts and entry.kind.endswith("call_started"):
            shown[key] = texts.of(entry)
    for key, what in asked.items():
        notes[key[0]] += [f"{what}: no answer is recorded", *shown.get(key, ())]
    return {step: lines for step, lines in notes.items() if lines}


def _came_to(data: Mapping[str, Any]) -> str:
    if "error" in data:
        return f"failed: {data['error']}"
    response = data.get("response")
    if response is None:
        return "done"
    tokens, calls = response.usage.total_tokens, ", ".join(call.tool_name for call in response.message.tool_calls)
    told = f"asks for {calls}" if calls else "answered"
    return told if tokens is None else f"{told}, {amounts.tokens(tokens)}"
