"""Checks between the parts of a workflow: ids, dependencies, targets, and what must be installed."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING

from treadle._document.linked import Linked, StepCheck
from treadle._document.outside import check_references
from treadle._document.problems import Path, Reporter, dotted_path, part_of
from treadle.contracts.step import Step
from treadle.errors import TreadleError

if TYPE_CHECKING:
    from treadle._plugins import Host
    from treadle.contracts.config import RunConfig

__all__ = [
    "check_default_provider",
    "check_dependencies",
    "check_duplicate_ids",
    "check_provider",
    "check_steps",
    "declared_by",
    "find_cycles",
    "note_fault",
]


def check_duplicate_ids(ids: Mapping[int, str], report: Reporter) -> None:
    """Two steps may not share an id; the message names both places."""
    first: dict[str, int] = {}
    for index, step_id in ids.items():
        if step_id not in first:
            first[step_id] = index
            continue
        if report.marks is None:
            where = f"by step number {first[step_id]}"
        else:
            where = f"on line {report.marks.value(('steps', first[step_id], 'id'))[0]}"
        report.add(("steps", index, "id"), "duplicate-id", f"the id '{step_id}' is taken {where}", hint="rename one")


def check_provider(config: RunConfig, host: Host, report: Reporter) -> None:
    """The provider that the config names must be there."""
    if config.provider is not None:
        try:
            host.get("provider", config.provider)
        except TreadleError as error:
            fix = report.only(config.provider, host.all_names("provider"))
            report.add(("config", "provider"), "not-installed", error.message, hint=error.hint, fix=fix)


def check_default_provider(config: RunConfig, steps: Mapping[int, Step], host: Host, report: Reporter) -> None:
    """Where a step calls models and the config names no provider, there must be a default one."""
    first = next((index for index, step in steps.items() if "provider" in step.needs), None)
    if first is None or config.provider is not None:
        return
    try:
        host.default_provider()
    except TreadleError as error:
        report.add(("steps", first, "type"), "no-provider", error.message, hint=error.hint)


def check_dependencies(ids: Mapping[int, str], depends_on: Mapping[int, Sequence[str]], report: Reporter) -> None:
    """Dependencies must be there and may not go round in a circle.

    Both are by the step's place in the document and hold what is legible, of steps that are wrong elsewhere too.
    """
    known = set(ids.values())
    graph: dict[str, Sequence[str]] = {}
    place_of: dict[str, int] = {}
    for index, dependencies in depends_on.items():
        for position, dependency in enumerate(dependencies):
            if dependency not in known:
                path = ("steps", index, "depends_on", position)
                _unknown_step(dependency, ids.get(index), known, path, report)
        if index in ids:
            graph.setdefault(ids[index], dependencies)
            place_of.setdefault(ids[index], index)
    for cycle in find_cycles(graph):
        message = "the step waits for itself"
        if len(cycle) > 1:
            shown = [*cycle, cycle[0]] if len(cycle) <= 12 else [*cycle[:10], "...", cycle[0]]
            message = f"the steps wait for each other: {' -> '.join(shown)}"
        report.add(("steps", place_of[cycle[0]], "depends_on"), "cycle", message)


def check_steps(
    steps: Mapping[int, Step], broken: Container[int], ids: Mapping[int, str], linked: Linked, report: Reporter
) -> None:
    """What steps say of their targets and of what must be installed.

    ``steps`` are by their place in the document, of ``broken`` ones what is left; ``ids`` also has those of the
    others, so that one mistake is reported once.
    """
    known = set(ids.values())
    by_id = {step.id: step for step in steps.values()}
    for index, step in steps.items():
        place: Path = ("steps", index)
        _check_targets(step, place, known, by_id, report)
        check_references(step, place, linked.host, report)
        try:
            step.check_document(StepCheck(linked, place, step, is_broken=index in broken))
        except Exception as error:
            note_fault((*place, "type"), step.type, "fails in check_document()", error, linked.host, report)


_DECLARATIONS = ("reads", "writes", "conversations", "targets", "target_fields", "references")


def declared_by(step: Step) -> list[str]:
    """The methods by which the step says something of itself in a way that is not the kernel's own."""
    return [name for name in _DECLARATIONS if getattr(type(step), name) is not getattr(Step, name)]


def note_fault(path: Path, name: str, doing: str, error: Exception, host: Host, report: Reporter) -> None:
    """Note that a step type's class does not do what is asked of it: its plugin's fault, not the document's."""
    told = host.get("step_type", name).fault(doing, error)
    report.add(path, "plugin", told.message, hint=told.hint)


def _unknown_step(name: str, asked_by: str | None, known: set[str], path: Path, report: Reporter) -> None:
    if report.is_wrong(path):  # no name at all
        return
    block = reduce(part_of, path[:-1], report.data)
    if not name and isinstance(block, Mapping) and path[-1] not in block:  # a field that is missing is told already
        return
    others = [each for each in known if each != asked_by]
    hint = report.did_you_mean(name, others)
    report.add(path, "unknown-step", f"no step '{name}'", hint=hint, fix=report.only(name, others))


def _check_targets(step: Step, place: Path, known: set[str], by_id: Mapping[str, Step], report: Reporter) -> None:
    for dotted, target in step.target_fields().items():
        path = (*place, *dotted_path(dotted))
        if target not in known:
            _unknown_step(target, step.id, known, path, report)
        elif target in by_id and step.id not in by_id[target].depends_on:
            report.add(
                path,
                "loose-target",
                f"step '{target}' does not depend on '{step.id}', so it runs whatever is chosen",
                hint=f"add depends_on: [{step.id}] to it",
                severity="warning",
            )


def find_cycles(dependencies: Mapping[str, Sequence[str]]) -> Iterator[list[str]]:
    """Steps that wait for each other in a circle, in the order of waiting; no two circles share a step.

    Iterative, as a chain may be longer than Python's stack.
    """
    done: set[str] = set()
    for start in dependencies:
        if start in done:
            continue
        trail: dict[str, None] = {start: None}  # the way from start to here, in order
        pending = [iter(dependencies[start])]
        while pending:
            following = next(pending[-1], None)
            if following is None:
                pending.pop()
                done.add(trail.popitem()[0])
            elif following in trail:
                way = list(trail)
                yield way[way.index(following) :]
                done.update(trail)
                break
            elif following in dependencies and following not in done:
                trail[following] = None
                pending.append(iter(dependencies[following]))
