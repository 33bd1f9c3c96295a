"""A new run that begins in the middle of another one: what stands before a step is kept, the rest is run anew."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from treadle._document.graph import Graph
from treadle._engine.resuming import Record
from treadle._engine.state import RunState
from treadle._language import StatePath
from treadle._suggest import close_match
from treadle.contracts.journal import JournalEntry
from treadle.errors import ConfigurationError
from treadle.redaction import has_placeholder

if TYPE_CHECKING:
    from treadle._document import Workflow
    from treadle.contracts.journal import Journal

__all__ = ["fork", "state_before"]


def state_before(record: Record, workflow: Workflow, at: str) -> dict[str, Any]:
    """The state as the step saw it: the run's own and what the steps before it wrote.

    :raises ConfigurationError: the workflow has no such step.
    """
    graph, index = _placed(record, workflow, at)
    state, sees = RunState(record.state), 0
    for before in _before(graph, index):
        step, kept = graph.steps[before], record.steps.get(graph.steps[before].id)
        if kept is None or not kept.is_done:
            continue
        writes = {} if step.output is None else {str(step.output): kept.outcome.value}
        paths = [(StatePath.parse_state(path), value) for path, value in (writes | dict(kept.outcome.writes)).items()]
        state.prepare(graph.rank[before], sees, paths)()
        sees |= 1 << graph.rank[before]
    return {name: state.read(name, sees) for name in state.names(sees)}


def fork(journal: Journal, record: Record, workflow: Workflow, at: str, state: Mapping[str, Any]) -> Record:
    """Record a new run that is where the other was when the step had not yet begun.

    Finished steps are kept, but for the step and all that comes after it.

    :param state: values of whole keys that win over what the run had and what the kept steps wrote.
    :raises ConfigurationError: there is no such step, or a value that was redacted in the record is not given.
    """
    graph, index = _placed(record, workflow, at)
    anew = _after(graph, index)
    kept = {
        step.id
        for position, step in enumerate(graph.steps)
        if position not in anew and step.id in record.steps and record.steps[step.id].is_done
    }
    known = [*record.state.items(), *(pair for name in kept for pair in record.steps[name].outcome.writes.items())]
    missing = sorted({name for name, value in known if name.partition(".")[0] not in state and has_placeholder(value)})
    if missing:
        raise ConfigurationError(
            f"run {record.run_id} was recorded without the values of: {', '.join(missing)}",
            hint="give each of them again, as -s key=value or in state=",
        )
    run_id = secrets.token_hex(6)
    begun = {
        "workflow": workflow,
        "state": {**record.state, **state},
        "tools": record.facts.get("tools", ()),
        "forked": {"run_id": record.run_id, "at": at, "set": sorted(state)},
    }
    journal.append(JournalEntry(run_id, "run_started", data=begun, at=time.time()))
    for entry in list(_kept_entries(journal, record.run_id, kept)):
        journal.append(replace(entry, run_id=run_id, at=time.time()))
    return Record(run_id, journal.entries(run_id))


def _kept_entries(journal: Journal, run_id: str, kept: set[str]) -> Iterator[JournalEntry]:
    for entry in journal.entries(run_id):
        if entry.step.partition(".")[0] in kept:
            yield entry


def _placed(record: Record, workflow: Workflow, at: str) -> tuple[Graph, int]:
    graph = workflow.graph
    index = graph.number.get(at)
    if index is None:
        outer, like = at.partition(".")[0], close_match(at, graph.number)
        hint = f"did you mean '{like}'?" if like else f"it has: {', '.join(graph.number)}"
        if outer in graph.number:
            hint = f"a run is forked at one of its own steps, not inside one; fork at '{outer}'"
        raise ConfigurationError(f"run {record.run_id} has no step '{at}'", hint=hint)
    return graph, index


def _before(graph: Graph, index: int) -> list[int]:
    """All that the step comes after, the earliest first."""
    found, pending = set(), [index]
    while pending:
        for each in graph.earlier[pending.pop()]:
            if each not in found:
                found.add(each)
                pending.append(each)
    return sorted(found, key=graph.rank.__getitem__)


def _after(graph: Graph, index: int) -> set[int]:
    """The step, and all that comes after it."""
    found, pending = {index}, [index]
    while pending:
        for each in graph.later[pending.pop()]:
            if each not in found:
                found.add(each)
                pending.append(each)
    return found
