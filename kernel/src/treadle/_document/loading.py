"""Files, text and plain data to checked workflows, with every problem at once."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any

from pydantic import ConfigDict, ValidationError

from treadle._arguments import expect
from treadle._dataclasses import dataclass
from treadle._document.checking import (
    check_default_provider,
    check_dependencies,
    check_duplicate_ids,
    check_provider,
    check_steps,
    declared_by,
    note_fault,
)
from treadle._document.children import Children, Document, Examination, Wanted
from treadle._document.copying import copied
from treadle._document.dataflow import Edges, Knowledge, check_dataflow, keys_read, keys_written, words_of
from treadle._document.envelope import Envelope, config_model, inherited, sandbox_block
from treadle._document.linked import Linked
from treadle._document.mending import mended
from treadle._document.outside import check_budgets, check_requests, check_step_names
from treadle._document.problems import Path, Reporter, dotted_path, shown
from treadle._document.provider_settings import problems_of_used_provider
from treadle._document.reading import decode, read, unreadable
from treadle._document.workflow import Workflow
from treadle._plugins.versions import check_requirement
from treadle.contracts.config import RunConfig
from treadle.contracts.documents import CheckedChild
from treadle.contracts.step import Step
from treadle.errors import DocumentError, NotInstalledError, PluginError, TreadleError

if TYPE_CHECKING:
    from treadle._plugins import Host

__all__ = ["build_workflow", "load_workflow", "missing_config_field", "parse_workflow"]


class _AnyStep(Step):
    """Stands in for a step whose type is unknown, so that its common fields are checked all the same."""

    model_config = ConfigDict(extra="ignore")

    def targets(self) -> Mapping[str, str]:  # it may be meant to choose any
        return {"": ""}

    async def run(self, ctx: Any) -> Any:
        raise AssertionError("a step of unknown type never runs")


_WORKFLOWS = "a Workflow or the path of its file (build_workflow takes data, and builder.build() gives one)"


def load_workflow(
    path: str | os.PathLike[str], *, host: Host, config: Mapping[str, Any] | None = None, state_keys: Iterable[str] = ()
) -> Workflow:
    """Read and check a workflow file.

    :param config: values that win over the file's own ``config:``; None leaves a value as it is.
    :param state_keys: keys of the state that the run will be given, besides those of the file.
    :raises ConfigurationError: one of those is not valid.
    :raises DocumentError: with every problem found, each with its place.
    """
    expect(str | os.PathLike, _WORKFLOWS, workflow=path)
    file = os.fspath(path)
    try:
        raw = FilePath(file).read_bytes()
    except (OSError, ValueError) as error:  # ValueError: the name holds a NUL
        raise DocumentError([unreadable(file, error)]) from error
    workflow = parse_workflow(decode(raw, file), host=host, file=file, config=config, state_keys=state_keys)
    return replace(workflow, file_digest=hashlib.sha256(raw).hexdigest())


def parse_workflow(
    text: str,
    *,
    host: Host,
    file: str | None = None,
    config: Mapping[str, Any] | None = None,
    state_keys: Iterable[str] = (),
) -> Workflow:
    """Read and check the text of a workflow. ``file`` is what messages call it.

    :raises DocumentError: as :func:`load_workflow`.
    """
    data, marks, problems = read(text, file or "<text>")
    report = Reporter(file=file or "<text>", marks=marks, data=data, text=text)
    report.add_read(problems)
    return _check(data, report, host=host, source=file, overrides=config, state_keys=state_keys)


def build_workflow(
    data: Mapping[str, Any],
    *,
    host: Host,
    config: Mapping[str, Any] | None = None,
    source: str | None = None,
    state_keys: Iterable[str] = (),
    order: Edges | None = None,
) -> Workflow:
    """Check a workflow given as plain data, of which a copy is kept.

    :param source: the file that it came from, beside which those that it names are looked for.
    :param order: the ``order`` of the same workflow when it was checked here before, from JSON: then the data is kept
        itself, and the checks of each step against the others are not made again.
    :raises DocumentError: as :func:`load_workflow`; the problems have paths and no lines.
    """
    report = Reporter(data=data)
    own = copied(data, report) if order is None else data
    if report.errors:
        raise DocumentError(report.problems)
    return _check(own, report, host=host, source=source, overrides=config, state_keys=state_keys, order=order)


def _check(
    data: Any,
    report: Reporter,
    *,
    host: Host,
    source: str | None,
    overrides: Mapping[str, Any] | None,
    state_keys: Iterable[str] = (),
    order: Edges | None = None,
) -> Workflow:
    expect(Mapping | None, "a mapping of fields", config=overrides)
    linked = Linked(host, report)
    given = {name: value for name, value in (overrides or {}).items() if value is not None}
    document = Document(
        data=data, linked=linked, source=source, keys=frozenset(state_keys), overrides=given, order=order
    )
    workflow = Children(_examine).check(document)
    linked.everything_found()
    if report.errors or workflow is None:
        raise DocumentError(report.problems)
    return replace(workflow, warnings=tuple(report.warnings), files=linked.files)


def _examine(document: Document) -> Examination:
    """Check one document, and ask for those below it once its steps are read."""
    data, linked, overrides, outer = document.data, document.linked, document.overrides, document.outer
    host, report = linked.host, linked.report
    if not isinstance(data, Mapping):
        hint = "load_workflow reads a file" if isinstance(data, str) and data.endswith((".yaml", ".yml")) else None
        report.add((), "wrong-type", f"a workflow is a mapping with name and steps, not {shown(data)}", hint=hint)
        return None
    envelope = _check_envelope(data, report)
    _check_requirements(data.get("requires"), report)
    provider = overrides.get("provider")
    block = data.get("config")
    passed = inherited(host, outer, block if isinstance(block, Mapping) else None) if outer is not None else {}
    config = linked.config = _check_config(block, passed, host, report, provider_is_given=provider is not None)
    read = _check_each_step(data.get("steps"), linked, report, is_known=document.order is not None)
    steps = read.steps
    if config is not None and provider is None:
        check_default_provider(config, steps, host, report)
    if config is not None:
        check_budgets(config, steps, host, report)
    if config is not None and "provider" not in passed:
        report.problems += problems_of_used_provider(provider or config.provider, steps.values(), host)
    order: Edges = document.order or ()
    children: dict[tuple[str, str], Workflow] = {}
    outer_reads: set[str] = set()
    provider_asked = None
    if config is not None:
        effective = config.model_copy(update=dict(overrides))
        whole = {index: step for index, step in steps.items() if index not in read.broken}
        provider_asked = check_requests(whole, effective, host, report)
        # A block that is not known may have been meant for the state.
        blocks = (each for name, each in data.items() if name == "state_schema" or name not in Envelope.model_fields)
        keys = document.keys.union(*(each for each in blocks if isinstance(each, Mapping)))
        state = data["state"] if isinstance(data.get("state"), Mapping) else {}
        written = keys_written(read.standing.values())
        around = keys.union(map(str, state), written)
        dropped = report.marks.dropped if report.marks is not None else ()
        doubtful = document.doubtful | words_of((*read.broken.values(), *dropped))
        below: dict[int, list[tuple[Path, frozenset[str]]]] = {}
        for request in linked.requests:
            child = yield Wanted(request, document, effective, around, doubtful)
            if child is None:
                continue
            children[request.step_id, request.field] = child
            of_child = frozenset(child.state) | keys_written(child.steps)
            given = request.keys | request.scoped
            if not request.isolated:
                seen = (keys_read(child.steps) | child.outer_reads) - given - keys_written(child.steps)
                outer_reads |= seen
                below.setdefault(int(request.place[1]), []).append((dotted_path(request.field), seen))
            if request.then is not None:
                try:
                    request.then(CheckedChild(child, of_child | given, around))
                except Exception as error:
                    place, name = (*request.place, "type"), steps[int(request.place[1])].type
                    note_fault(place, name, "fails in check_document()", error, host, report)
        if document.repeats:
            keys |= written
        if document.order is None:
            scoped = {name: request.step_id for request in linked.requests for name in request.scoped}
            known = Knowledge(state, keys, read.broken, frozenset(read.ids), doubtful, scoped, below)
            order = check_dataflow(read.standing, known, report, strict_outputs=effective.strict_outputs)
    if report.errors or envelope is None or config is None:
        return None
    if document.outer is None and (provider_asked is not None or children):
        check_step_names(provider_asked, config, _step_names(steps.values(), children), host, report)
    workflow = Workflow(
        name=envelope.name,
        version=envelope.version,
        description=envelope.description,
        config=config,
        state=envelope.state,
        state_schema=envelope.state_schema,
        steps=tuple(steps.values()),
        data=data,
        host=host,
        source=document.source,
        order=order,
        documents=linked.values,
        outer_reads=frozenset(outer_reads),
    ).with_config(**overrides)
    return replace(workflow, children=children) if children else workflow


def _step_names(steps: Iterable[Step], children: Mapping[tuple[str, str], Workflow]) -> list[str]:
    """The ids of the steps, and those of workflows below them, each behind the id of the step that runs it."""
    names = [step.id for step in steps]
    pending, seen = list(children.items()), set()
    while pending:
        (step_id, _), child = pending.pop()
        names += [f"{step_id}.{each.id}" for each in child.steps]
        if id(child) not in seen:
            seen.add(id(child))
            pending += child.children.items()
    return names


def _check_envelope(data: Mapping[str, Any], report: Reporter) -> Envelope | None:
    try:
        return Envelope.model_validate(data)
    except ValidationError as error:
        report.add_validation(error, (), Envelope)
        return None


def _check_requirements(block: Any, report: Reporter) -> None:
    for index, text in enumerate(block if isinstance(block, list) else ()):
        if not isinstance(text, str):
            continue  # the envelope's model says so
        try:
            check_requirement(text)
        except TreadleError as error:
            code = "not-installed" if isinstance(error, NotInstalledError) else "bad-value"
            report.add(("requires", index), code, error.message, hint=error.hint)


def _check_config(
    block: Any, passed: Mapping[str, Any], host: Host, report: Reporter, *, provider_is_given: bool
) -> RunConfig | None:
    """The config, with what is ``passed`` on from a parent's where it says nothing itself."""
    block = {} if block is None else block
    if not isinstance(block, Mapping):
        return None
    block = {**host.settings.config, **passed, **block}

    def broken(name: str, error: PluginError) -> None:
        report.add(("config", name), "plugin", error.message, hint=error.hint, at_key=True)

    model = config_model(host, block, broken)
    try:
        config = model.model_validate(block)
    except ValidationError as error:
        report.add_validation(error, ("config",), model, missing=lambda name: missing_config_field(name, host))
        rest = mended(model, block, error)
        if rest is None:
            return None
        config = rest
    if config.sandbox is not None or host.settings.sandbox is not None:
        _check_sandbox(config.sandbox or {}, host, report)
    if not provider_is_given and "provider" not in passed:
        check_provider(config, host, report)
    return config


def missing_config_field(name: str, host: Host) -> TreadleError | None:
    """Why a config field is not there: not installed, broken, or offered twice. None where nobody knows it."""
    if name in host.registry.names("config_field") or host.catalogue.distribution("config_field", name):
        try:
            host.get("config_field", name)
        except TreadleError as error:
            return error
    return None


def _check_sandbox(block: Mapping[str, Any], host: Host, report: Reporter) -> None:
    """The sandbox block is the installed sandbox's to read."""
    try:
        kind = host.sole("sandbox", "config.sandbox").load()
    except TreadleError as error:
        report.add(("config", "sandbox"), "not-installed", error.message, hint=error.hint)
        return
    try:
        sandbox_block(host, kind, block)
    except ValidationError as error:
        report.add_validation(error, ("config", "sandbox"), kind.block_model)
    except (TreadleError, ValueError) as error:
        told = error if isinstance(error, TreadleError) else TreadleError(str(error))
        report.add(("config", "sandbox"), "sandbox", told.message, hint=told.hint)


@dataclass(slots=True)
class _Steps:
    """The steps of a document, by their place in it.

    :param steps: those of a known type; of one with mistakes, what is left without them.
    :param standing: the same, and stand-ins for those of unknown type.
    :param broken: those with mistakes, as they are written.
    :param ids: the ids of all.
    """

    steps: dict[int, Step] = field(default_factory=dict)
    standing: dict[int, Step] = field(default_factory=dict)
    broken: dict[int, Mapping[str, Any]] = field(default_factory=dict)
    ids: list[str] = field(default_factory=list)


def _check_each_step(block: Any, linked: Linked, report: Reporter, *, is_known: bool) -> _Steps:
    read = _Steps()
    steps = read.steps
    ids: dict[int, str] = {}
    depends_on: dict[int, list[str]] = {}
    for index, data in enumerate(block if isinstance(block, list | tuple) else ()):
        if not isinstance(data, Mapping):
            report.add(("steps", index), "wrong-type", f"a step is a mapping, not {shown(data)}")
            continue
        if isinstance(data.get("id"), str):
            ids[index] = data["id"]
        waits_for = data.get("depends_on")
        if isinstance(waits_for, list) and all(isinstance(each, str) for each in waits_for):
            depends_on[index] = waits_for
        model = _step_type(data, index, linked.host, report)
        step: Step | None = None
        doing = "cannot be used"
        try:
            try:
                step = model.model_validate(data)
            except ValidationError as error:
                report.add_validation(error, ("steps", index), model)
                read.broken[index] = data
                step = mended(model, data, error)
            for method in declared_by(step) if step is not None and not is_known else ():
                doing = f"fails in {method}()"
                tuple(getattr(step, method)())  # whoever asks later need not fear what it raises
        except TreadleError as error:  # a validator of the step's raised one of ours, which pydantic lets pass
            report.add(("steps", index), "bad-value", error.message, hint=error.hint)
            read.broken[index] = data
        except Exception as error:  # a class that is no whole step type, or one of whose methods raises
            step = None
            note_fault(("steps", index, "type"), str(data["type"]), doing, error, linked.host, report)
            read.broken[index] = data
        if model is _AnyStep:
            read.broken[index] = data
        elif step is not None:
            steps[index] = step
        if step is not None and step.id:
            read.standing[index] = step
    read.ids += ids.values()
    if not is_known:
        check_duplicate_ids(ids, report)
        check_dependencies(ids, depends_on, report)
    check_steps(steps, read.broken, ids, linked, report)
    return read


def _step_type(data: Mapping[str, Any], index: int, host: Host, report: Reporter) -> type[Step]:
    """The class of the step's type; a stand-in, with the problem noted, where there is none."""
    name = data.get("type")
    if not isinstance(name, str):
        return _AnyStep  # its own model reports the missing or wrong field
    try:
        found = host.load("step_type", name)
    except TreadleError as error:
        fix = report.only(name, host.all_names("step_type"))
        report.add(("steps", index, "type"), "unknown-step-type", error.message, hint=error.hint, fix=fix)
        return _AnyStep
    if not (isinstance(found, type) and issubclass(found, Step)):
        message = f"step type '{name}' of plugin {host.get('step_type', name).owner} is not a subclass of Step"
        report.add(("steps", index, "type"), "plugin", message)
        return _AnyStep
    return found
