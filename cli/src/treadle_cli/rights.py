"""What a workflow asks for: the tools, models, commands, paths and hosts that its steps name."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import treadle
from treadle import DocumentCheck, LoadedDocument, Reference, Right

if TYPE_CHECKING:
    from pydantic import BaseModel

    from treadle import Step, Tool, Workflow

__all__ = ["rights_json", "rights_lines"]

ModelT = TypeVar("ModelT", bound="BaseModel")

_SECTIONS = {
    "tools": ("tool",),
    "models": ("model",),
    "commands": ("command",),
    "paths": ("read", "write"),
    "hosts": ("host",),
}
_ANY = {"command": "any command", "read": "any path", "write": "any path", "host": "any host"}


@dataclass
class _Asking(DocumentCheck):
    """Listens to what the steps of a checked workflow say of themselves."""

    checked: Workflow
    above: str = ""
    step: str = ""
    found: dict[Right, dict[str, None]] = field(default_factory=dict)
    referred: dict[str, None] = field(default_factory=dict)

    def load(
        self, path: str, model: type[ModelT], *, field: str, of: LoadedDocument[BaseModel] | None = None
    ) -> LoadedDocument[ModelT] | None:
        known = self.checked.documents.get((path, model))
        return LoadedDocument(known, path) if isinstance(known, model) else None

    def refer(self, reference: Reference, *, of: LoadedDocument[BaseModel] | None = None) -> None:
        if reference.role == "tool":
            self.referred.setdefault(reference.name)

    def note(self, message: str, **place: Any) -> None:
        """It has been said when the workflow was checked."""

    def tool(self, name: str) -> Tool | None:
        try:
            loaded = self.checked.host.load("tool", name)
        except treadle.TreadleError:
            return None  # validate has warned of it
        made: Tool = loaded if isinstance(loaded, treadle.Tool) else loaded()
        return made

    def ask(self, right: Right) -> None:
        self.found.setdefault(right, {}).setdefault(self.step)

    def hear(self, step: Step) -> None:
        """Take in all that a step says."""
        self.step, self.referred = f"{self.above}{step.id}", {}
        asked = len(self.found)
        step.check_document(self)
        for reference in step.references():
            self.refer(reference)
        own = {right.name for right, steps in self.found.items() if right.kind == "tool" and self.step in steps}
        for name in self.referred:
            if name in own:
                continue  # the step has said itself with which arguments
            self.ask(Right(kind="tool", name=name))
            tool = self.tool(name)
            for right in tool.rights(None) if tool is not None else ():
                self.ask(right)
        for request in step.model_requests(self.checked.config):
            self.ask(Right(kind="model", name=request.model or "*"))
        if "provider" in step.needs and not any(
            right.kind == "model" and self.step in steps for right, steps in list(self.found.items())[asked:]
        ):
            self.ask(Right(kind="model", name=self.checked.config.model or "*"))


def _asked(workflow: Workflow) -> dict[Right, list[str]]:
    """What the steps ask for, and those of the workflows that they run, by their dotted ids."""
    found: dict[Right, dict[str, None]] = {}
    pending = [("", workflow)]
    while pending:
        above, each = pending.pop(0)
        asking = _Asking(each, above=above, found=found)
        for step in each.steps:
            asking.hear(step)
        pending += [(f"{above}{step_id}.", child) for (step_id, _), child in each.children.items()]
    return {right: list(steps) for right, steps in found.items()}


def rights_json(workflow: Workflow) -> dict[str, Any]:
    """By section, each thing with the steps that ask for it; ``*`` is any. ``sandbox`` is what limits them."""
    asked = _asked(workflow)
    found: dict[str, Any] = {
        section: [
            {
                "name": right.name,
                **({"access": right.kind} if section == "paths" else {}),
                "steps": steps,
            }
            for right, steps in asked.items()
            if right.kind in kinds
        ]
        for section, kinds in _SECTIONS.items()
    }
    return {**found, "sandbox": _sandbox(workflow)}


def rights_lines(workflow: Workflow) -> Iterator[str]:
    """The same for people, a line for each thing."""
    asked = _asked(workflow)
    for section, kinds in _SECTIONS.items():
        for right, steps in asked.items():
            if right.kind in kinds:
                name = _name(right, workflow)
                access = f" ({right.kind})" if section == "paths" else ""
                yield f"  {section + ':':<10}{name}{access}  [{', '.join(steps)}]"
    block = _sandbox(workflow, exclude_defaults=True)
    if block is None:
        limits = "none is installed, so that the tools for commands, files and requests fail"
    elif block.get("enabled"):
        limits = "enabled: " + "; ".join(
            f"{name} {_shown(value)}" for name, value in block.items() if name != "enabled"
        )
    else:
        limits = "not enabled: it limits neither commands nor paths nor hosts"
    yield f"  {'sandbox:':<10}{limits}"


def _name(right: Right, workflow: Workflow) -> str:
    if right.name != "*":
        return right.name
    if right.kind == "model":
        return f"the default of provider '{workflow.config.provider or workflow.host.default_provider()}'"
    return _ANY.get(right.kind, "any")


def _shown(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def _sandbox(workflow: Workflow, *, exclude_defaults: bool = False) -> dict[str, Any] | None:
    """The block that the run will be held to, the deployment's in it; None where no sandbox is installed."""
    block = workflow.sandbox_block()
    return None if block is None else block.model_dump(mode="json", exclude_defaults=exclude_defaults)
