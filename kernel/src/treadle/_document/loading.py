"""Files, text and plain data to checked workflows, with every problem at once."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from treadle._document.checking import check_config, check_duplicate_ids, check_steps
from treadle._document.envelope import Envelope, config_model
from treadle._document.problems import Reporter, shown
from treadle._document.reading import Marks, decode, read
from treadle._document.workflow import Workflow
from treadle._suggest import close_match, did_you_mean
from treadle.contracts.config import RunConfig
from treadle.contracts.step import Step
from treadle.errors import DocumentError, PluginError, Problem, TreadleError

if TYPE_CHECKING:
    from treadle._plugins import Host

__all__ = ["build_workflow", "load_workflow", "parse_workflow"]


class _AnyStep(Step):
    """Stands in for a step whose type is unknown, so that its common fields are checked all the same."""

    model_config = {**Step.model_config, "extra": "ignore"}

    async def run(self, ctx: Any) -> Any:
        raise AssertionError("a step of unknown type never runs")


def load_workflow(path: str | os.PathLike[str], *, host: Host) -> Workflow:
    """Read and check a workflow file.

    :raises DocumentError: with every problem found, each with its place.
    """
    file = os.fspath(path)
    try:
        raw = FilePath(file).read_bytes()
    except OSError as error:
        raise DocumentError([_unreadable(file, error)]) from error
    return parse_workflow(decode(raw, file), host=host, file=file)


def parse_workflow(text: str, *, host: Host, file: str | None = None) -> Workflow:
    """Read and check the text of a workflow. ``file`` is what messages call it.

    :raises DocumentError: as :func:`load_workflow`.
    """
    data, marks = read(text, file or "<text>")
    return _check(data, marks, host=host, file=file or "<text>", source=file)


def build_workflow(data: Mapping[str, Any], *, host: Host) -> Workflow:
    """Check a workflow given as plain data.

    :raises DocumentError: as :func:`load_workflow`; the problems have paths and no lines.
    """
    return _check(data, None, host=host, file=None, source=None)


def _unreadable(file: str, error: OSError) -> Problem:
    hint = None
    if isinstance(error, FileNotFoundError):
        folder = FilePath(file).parent
        names = [each.name for each in folder.iterdir()] if folder.is_dir() else []
        match = close_match(FilePath(file).name, names)
        hint = f"did you mean '{folder / match}'?" if match else None
    elif isinstance(error, IsADirectoryError):
        hint = "name a file in it"
    reason = (error.strerror or str(error)).lower()
    return Problem(message="no such file" if isinstance(error, FileNotFoundError) else reason, code="unreadable", file=file, hint=hint)


def _check(data: Any, marks: Marks | None, *, host: Host, file: str | None, source: str | None) -> Workflow:
    report = Reporter(file=file, marks=marks, data=data)
    if not isinstance(data, Mapping):
        report.add((), "wrong-type", f"a workflow is a mapping with name and steps, not {shown(data)}")
        raise DocumentError(report.problems)
    envelope = _check_envelope(data, report)
    config = _check_config(data.get("config"), host, report)
    steps = _check_each_step(data.get("steps"), host, report)
    if report.errors or envelope is None or config is None:
        raise DocumentError(report.problems)
    return Workflow(
        name=envelope.name,
        version=envelope.version,
        description=envelope.description,
        config=config,
        state=envelope.state,
        state_schema=envelope.state_schema,
        steps=tuple(steps.values()),
        data=data,
        host=host,
        source=source,
        warnings=tuple(report.warnings),
    )


def _check_envelope(data: Mapping[str, Any], report: Reporter) -> Envelope | None:
    try:
        return Envelope.model_validate(data)
    except ValidationError as error:
        report.add_validation(error, (), Envelope)
        return None


def _check_config(block: Any, host: Host, report: Reporter) -> RunConfig | None:
    if not isinstance(block, Mapping):
        return RunConfig() if block is None else None
    try:
        model = config_model(host, block)
    except PluginError as error:
        report.add(("config",), "plugin", error.message, hint=error.hint)
        return None
    try:
        config = model.model_validate(block)
    except ValidationError as error:
        report.add_validation(
            error, ("config",), model, packages=lambda name: host.catalogue.distribution("config_field", name)
        )
        return None
    if config.sandbox is not None:
        _check_sandbox(config.sandbox, host, report)
    check_config(config, host, report)
    return config


def _check_sandbox(block: Mapping[str, Any], host: Host, report: Reporter) -> None:
    """The sandbox block is the installed sandbox's to read."""
    try:
        model = host.sole("sandbox", "config.sandbox").load().block_model
    except TreadleError as error:
        report.add(("config", "sandbox"), "not-installed", error.message, hint=error.hint)
        return
    try:
        model.model_validate(block)
    except ValidationError as error:
        report.add_validation(error, ("config", "sandbox"), model)


def _check_each_step(block: Any, host: Host, report: Reporter) -> dict[int, Step]:
    steps: dict[int, Step] = {}
    ids: dict[int, str] = {}
    for index, data in enumerate(block if isinstance(block, list | tuple) else ()):
        if not isinstance(data, Mapping):
            report.add(("steps", index), "wrong-type", f"a step is a mapping, not {shown(data)}")
            continue
        if isinstance(data.get("id"), str):
            ids[index] = data["id"]
        model = _step_type(data, index, host, report)
        try:
            step = model.model_validate(data)
        except ValidationError as error:
            report.add_validation(error, ("steps", index), model)
        else:
            if model is not _AnyStep:
                steps[index] = step
    check_duplicate_ids(ids, report)
    check_steps(steps, list(ids.values()), host, report)
    return steps


def _step_type(data: Mapping[str, Any], index: int, host: Host, report: Reporter) -> type[Step]:
    """The class of the step's type; a stand-in, with the problem noted, where there is none."""
    name = data.get("type")
    if not isinstance(name, str):
        return _AnyStep  # its own model reports the missing or wrong field
    try:
        found = host.load("step_type", name)
    except TreadleError as error:
        hint = error.hint or did_you_mean(name, host.registry.names("step_type"))
        report.add(("steps", index, "type"), "unknown-step-type", error.message, hint=hint)
        return _AnyStep
    model: type[Step] = found
    return model
