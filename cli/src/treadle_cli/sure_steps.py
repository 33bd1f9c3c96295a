"""Steps that every run of a workflow reaches, and what they would fail for when models have been paid."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from treadle import DocumentError, NotInstalledError

if TYPE_CHECKING:
    from treadle import Step, Workflow

__all__ = ["refuse_missing_tools", "sure_steps"]


def refuse_missing_tools(workflow: Workflow) -> None:
    """Refuse a workflow of which a step that every run reaches names a tool that is not there.

    A check only warns of it, as it does not know whether the step is reached, or who else gives tools. Here both are
    known, and nothing has been paid yet.

    :raises DocumentError: with the warnings of the check about these, as errors.
    """
    missing = {
        f"steps.{step.id}.{reference.field}"
        for step in sure_steps(workflow)
        for reference in step.references()
        if reference.role == "tool" and reference.is_needed and not _is_there(workflow, reference.name)
    }
    refused = [each for each in workflow.warnings if each.code == "not-installed" and each.path in missing]
    if refused:
        raise DocumentError(replace(each, severity="error") for each in refused)


def sure_steps(workflow: Workflow) -> Iterator[Step]:
    """The workflow's own steps that no run skips, unless one before them fails: no condition and no router decides."""
    chosen = {target for step in workflow.steps for target in step.targets()}
    doubtful = {step.id for step in workflow.steps if step.when is not None or step.id in chosen}
    following: dict[str, list[str]] = {}
    for step in workflow.steps:
        for each in step.depends_on:
            following.setdefault(each, []).append(step.id)
    pending = list(doubtful)
    while pending:
        behind = [each for each in following.get(pending.pop(), ()) if each not in doubtful]
        doubtful.update(behind)
        pending += behind
    return (step for step in workflow.steps if step.id not in doubtful)


def _is_there(workflow: Workflow, name: str) -> bool:
    try:
        workflow.host.get("tool", name)
    except NotInstalledError:
        return False
    return True
