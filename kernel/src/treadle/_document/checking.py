"""Checks between the parts of a workflow: ids, dependencies, targets, and what must be installed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from treadle._document.problems import Path, Reporter
from treadle._suggest import did_you_mean
from treadle.errors import NotInstalledError, TreadleError

if TYPE_CHECKING:
    from treadle._plugins import Host
    from treadle.contracts.config import RunConfig
    from treadle.contracts.step import Step

__all__ = ["check_config", "check_duplicate_ids", "check_steps", "find_cycle"]


def check_duplicate_ids(ids: Mapping[int, str], report: Reporter) -> None:
    """Two steps may not share an id; the message names both places."""
    first: dict[str, int] = {}
    for index, step_id in ids.items():
        if step_id not in first:
            first[step_id] = index
            continue
        where = f"steps.{first[step_id]}"
        if report.marks is not None:
            where = f"line {report.marks.value(('steps', first[step_id], 'id'))[0]}"
        report.add(("steps", index, "id"), "duplicate-id", f"the id '{step_id}' is taken on {where}", hint="rename one")


def check_config(config: RunConfig, host: Host, report: Reporter) -> None:
    """What the config names must be there."""
    if config.provider is not None:
        try:
            host.get("provider", config.provider)
        except TreadleError as error:
            report.add(("config", "provider"), "not-installed", error.message, hint=error.hint)


def check_steps(steps: Mapping[int, Step], all_ids: Sequence[str], host: Host, report: Reporter) -> None:
    """Everything that steps say of each other and of what must be installed.

    ``steps`` are those that are well-formed, by their place in the document; ``all_ids`` also has the ids of the
    others, so that one mistake is reported once.
    """
    known = set(all_ids)
    by_id = {step.id: step for step in steps.values()}
    for index, step in steps.items():
        place: Path = ("steps", index)
        for position, dependency in enumerate(step.depends_on):
            if dependency not in known:
                report.add(
                    (*place, "depends_on", position),
                    "unknown-step",
                    f"no step '{dependency}'",
                    hint=did_you_mean(dependency, known - {step.id}),
                )
        _check_targets(step, place, known, by_id, report)
        _check_references(step, place, host, report)
    cycle = find_cycle({step.id: step.depends_on for step in steps.values()})
    if cycle:
        index = next(index for index, step in steps.items() if step.id == cycle[0])
        arrows = " -> ".join([*cycle, cycle[0]]) if len(cycle) <= 12 else f"{' -> '.join(cycle[:10])} -> ... -> {cycle[0]}"
        report.add(("steps", index, "depends_on"), "cycle", f"the steps wait for each other: {arrows}")


def _check_targets(
    step: Step, place: Path, known: set[str], by_id: Mapping[str, Step], report: Reporter
) -> None:
    for dotted, target in step.target_fields().items():
        path = (*place, *_path(dotted))
        if target not in known:
            report.add(path, "unknown-step", f"no step '{target}'", hint=did_you_mean(target, known - {step.id}))
        elif target in by_id and step.id not in by_id[target].depends_on:
            report.add(
                path,
                "loose-target",
                f"step '{target}' does not depend on '{step.id}', so it runs whatever is chosen",
                hint=f"add depends_on: [{step.id}] to it",
                severity="warning",
            )


def _check_references(step: Step, place: Path, host: Host, report: Reporter) -> None:
    for role in step.needs:
        try:
            host.sole(role, f"step type '{step.type}'")
        except TreadleError as error:
            report.add((*place, "type"), "not-installed", error.message, hint=error.hint)
    for reference in step.references():
        try:
            host.get(reference.role, reference.name)
        except NotInstalledError as error:
            # A warning: the step may never be reached, and then the run is whole.
            report.add(
                (*place, *_path(reference.field)), "not-installed", error.message, hint=error.hint, severity="warning"
            )
        except TreadleError as error:
            report.add((*place, *_path(reference.field)), "not-installed", error.message, hint=error.hint)


def _path(dotted: str) -> Path:
    return tuple(int(part) if part.isdecimal() else part for part in dotted.split("."))


def find_cycle(dependencies: Mapping[str, Sequence[str]]) -> list[str]:
    """Steps that wait for each other in a circle, in the order of waiting, or an empty list.

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
                return way[way.index(following) :]
            elif following in dependencies and following not in done:
                trail[following] = None
                pending.append(iter(dependencies[following]))
    return []
