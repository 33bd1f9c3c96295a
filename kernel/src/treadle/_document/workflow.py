"""A workflow that has been checked and can be run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from treadle._dataclasses import dataclass
from treadle._document.graph import Graph
from treadle._suggest import did_you_mean
from treadle.contracts.config import RunConfig
from treadle.contracts.step import Step
from treadle.errors import ConfigurationError, PluginError, Problem

if TYPE_CHECKING:
    from pydantic import BaseModel

    from treadle._plugins import Host

__all__ = ["Workflow"]


def _raise(field_name: str, error: PluginError) -> None:
    raise ConfigurationError(f"config.{field_name}: {error.message}", hint=error.hint) from error


@dataclass(frozen=True, kw_only=True)
class Workflow:
    """A checked workflow. Immutable: running it changes nothing in it.

    :param data: the document as it was written, as plain data.
    :param source: the file it came from, as it was named, or None.
    :param file_digest: the SHA-256 of what that file held; None where there is none, or not all of it is told here.
    :param warnings: what may not work.
    :param order: order-only edges, each from the id of the earlier step to that of the later one: the later one starts
        once the other has settled, whatever became of it, and sees what it wrote.
    :param documents: files that steps name, as they were read, by path and model.
    :param files: what these and the files of child workflows hold, as plain data, by path.
    :param children: workflows that steps run, checked with this one, by the step's id and its field.
    :param outer_reads: keys that those read of this one's state.
    """

    name: str
    version: str
    description: str
    config: RunConfig
    state: Mapping[str, Any]
    state_schema: Mapping[str, Any]
    steps: tuple[Step, ...]
    data: Mapping[str, Any] = field(repr=False)
    host: Host = field(repr=False, compare=False)
    source: str | None = None
    file_digest: str | None = None
    warnings: tuple[Problem, ...] = ()
    order: tuple[tuple[str, str], ...] = ()
    documents: Mapping[tuple[str, type[BaseModel]], BaseModel] = field(default_factory=dict, repr=False)
    files: Mapping[str, Any] = field(default_factory=dict, repr=False)
    outer_reads: frozenset[str] = frozenset()
    children: Mapping[tuple[str, str], Workflow] = field(default_factory=dict, repr=False, compare=False)

    @cached_property
    def graph(self) -> Graph:
        """What waits for what."""
        return Graph.of(self.steps, self.order)

    @cached_property
    def digest(self) -> str:
        """``sha256:`` and the hash of the document's data; the same for the same content in any layout."""
        from treadle.contracts.results import json_value

        canonical = json.dumps(json_value(self.data), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        return f"sha256:{hashlib.sha256(canonical.encode('utf-8', 'surrogatepass')).hexdigest()}"

    def doubts_about(self, state_keys: Iterable[str]) -> Iterator[str]:
        """A sentence for each key given to a run that the workflow neither has nor reads: it is probably misspelt."""
        from treadle._document.dataflow import unread_keys

        for key, meant in unread_keys(self.steps, {*self.state, *self.outer_reads}, state_keys):
            yield f"no step reads state key '{key}'" + (f"; did you mean '{meant}'?" if meant else "")

    def sandbox_block(self) -> BaseModel | None:
        """What the sandbox holds a run to: the workflow's block within the deployment's. None where none is installed.

        :raises NotInstalledError: several are, and none was chosen.
        """
        from treadle._document.envelope import sandbox_block

        if not self.host.registry.names("sandbox"):
            return None
        return sandbox_block(self.host, self.host.sole("sandbox", "the run").load(), self.config.sandbox or {})

    def with_config(self, **overrides: Any) -> Workflow:
        """The same workflow under another config; None leaves a value as it is.

        :raises ConfigurationError: an override is not a valid value, no field of the config, or a provider that is
            not installed.
        """
        changes = {name: value for name, value in overrides.items() if value is not None}
        if not changes:
            return self
        from pydantic import ValidationError

        from treadle._document.envelope import config_model, inheritable
        from treadle._document.problems import explain

        if isinstance(changes.get("provider"), str):
            self.host.get("provider", changes["provider"])
        if "budget_usd" in changes:
            self.host.sole("budget", "budget_usd")
        values = {**self.config.model_dump(exclude_unset=True), **changes}
        model = config_model(self.host, values, _raise)
        try:
            config = model.model_validate(values)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            place = ".".join(["config", *map(str, first["loc"])])
            if first["type"] == "extra_forbidden":
                hint = did_you_mean(str(first["loc"][-1]), model.model_fields, list_up_to=0)
                raise ConfigurationError(f"{place}: unknown field", hint=hint) from error
            message, hint = explain(first)
            raise ConfigurationError(f"{place}: {message}", hint=hint) from error
        below = {name: each for name, each in changes.items() if name in inheritable(self.host)}
        return replace(self, config=config, children=_changed(self.children, below) if below else self.children)


def _changed(
    children: Mapping[tuple[str, str], Workflow], changes: Mapping[str, Any]
) -> dict[tuple[str, str], Workflow]:
    """The child workflows under another config, and theirs. There may be any number below each other."""
    known: dict[int, Workflow] = {}
    pending = list(children.values())
    while pending:
        each = pending[-1]
        below = [child for child in each.children.values() if id(child) not in known]
        if below:
            pending += below
            continue
        pending.pop()
        if id(each) not in known:
            own = {place: known[id(child)] for place, child in each.children.items()}
            config = each.config.model_copy(update=changes)
            known[id(each)] = replace(each, config=config, children=own)
    return {place: known[id(child)] for place, child in children.items()}
