"""What ``treadle resume`` and ``treadle fork`` take from a record: the run's folder, its workflow, its versions."""

from __future__ import annotations

import gc
import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

import treadle
from treadle import ConfigurationError
from treadle_cli.options import (
    again,
    budget_option,
    checkpoint_dir_option,
    debug_option,
    find_settings_file,
    host_options,
    host_without,
    is_debugging,
    journal_place,
    json_option,
    tools_option,
)
from treadle_cli.output import err, out

if TYPE_CHECKING:
    from treadle import Host, Journal, Record, Workflow
    from treadle_cli.output import Channel

__all__ = ["as_recorded", "go_on", "going_on_options"]


_REDACTED = "<REDACTED:sha256="
_Function = Callable[..., Any]
_OPTIONS: tuple[Callable[[_Function], _Function], ...] = (
    click.option(
        "--accept-changes",
        is_flag=True,
        help="Go on with the workflow file as it is now, though it has changed, and without tools that are gone.",
    ),
    click.option("-p", "--provider", metavar="NAME", help="Override config.provider from here on."),
    click.option("-m", "--model", metavar="NAME", help="Override config.model from here on."),
    budget_option,
    click.option("--stream/--no-stream", default=None, help="Override config.stream from here on."),
    json_option,
    click.option("-q", "--quiet", is_flag=True, help="Print no progress, warnings or totals on stderr."),
    checkpoint_dir_option,
    tools_option,
    host_options,
    debug_option,
)


def going_on_options(command: _Function) -> _Function:
    """The options of every command that goes on with a record; :func:`go_on` takes what they give."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def go_on(
    ctx: click.Context,
    read: Callable[[Journal], Record],
    begin: Callable[[Journal, Record, Workflow], tuple[Record, dict[str, Any]]],
    *,
    given: Iterable[str],
    accept_changes: bool,
    provider: str | None,
    model: str | None,
    budget: float | None,
    stream: bool | None,
    as_json: bool,
    quiet: bool,
    checkpoint_dir: str | None,
    tools: Sequence[str],
    without: Sequence[str],
) -> NoReturn:
    """Run what a record leaves to be run, print what comes of it and end with its exit code.

    :param read: finds the record in the journal.
    :param begin: gives the record to go on with, and the keys of the state that are given.
    :param given: names of keys of the state that will be given.
    """
    stderr, host = err(), host_without(without, tools=tools)
    journal = treadle.installed_journal(host, create=False, **journal_place(checkpoint_dir))
    if journal is None:
        host.sole("journal", f"treadle {ctx.info_name}")
        raise AssertionError("the host has just said that there is none")
    gc.disable()  # what is read lives until the run has ended: nobody need look through it as it grows
    try:
        record = read(journal)
        if record.facts.get("tools") and not accept_changes:
            hint = "give it with --tools FILE, or go on without it by --accept-changes"
            record.check_tools(host.names("tool"), hint=hint)
        _enter(record)
        overrides = {"provider": provider, "model": model, "stream": stream, "budget_usd": budget}
        versions = _changed_versions(record.facts.get("versions") or {}, host)
        changes = [*(versions or ()), *_changed_settings(record, host)]
        workflow = as_recorded(record, host, overrides) if versions == [] else None
        if workflow is None:
            workflow = _workflow(record, host, overrides, stderr, given=given, accept_changes=accept_changes)
        record, state = begin(journal, record, workflow)
    except BaseException:
        journal.close()
        raise
    finally:
        gc.freeze()
        gc.enable()
    if not quiet:
        for line in changes:
            stderr.line(f"warning: {line}")

    # Imported only now: a mistake is reported without waiting for the engine.
    from treadle_cli.execution import Display, execute_and_print

    display = Display.of(
        workflow,
        stdout=out(),
        stderr=stderr,
        as_json=as_json,
        quiet=quiet,
        debugging=is_debugging(ctx),
        again=again(checkpoint_dir, tools),
    )
    ctx.exit(execute_and_print(workflow, state, display, journal, record))


def _enter(record: Record) -> None:
    """Go to the directory in which the run was begun: its paths are relative to that.

    :raises ConfigurationError: it cannot be entered, or other settings count there. With those of here the run could
        leave its sandbox, or ask another server.
    """
    folder = record.facts.get("folder")
    if folder is None:
        return
    here = _found_settings()
    try:
        os.chdir(folder)
    except OSError as error:
        raise ConfigurationError(
            f"run {record.run_id} was begun in {folder}, which cannot be entered: {error.strerror or error}"
        ) from error
    if (there := _found_settings()) != here:
        raise ConfigurationError(
            f"run {record.run_id} was begun in {folder}, where {there or 'no treadle.yaml'} counts; "
            f"here it is {here or 'none'}",
            hint="give the command there, or say which counts: --config FILE or --no-config",
        )


def _found_settings() -> str | None:
    """The settings file that counts in the working directory, where nobody has named one."""
    file, named_by = find_settings_file()
    return None if file is None or named_by != "found" else os.path.realpath(file)


def as_recorded(record: Record, host: Host, overrides: Mapping[str, Any]) -> Workflow | None:
    """The workflow without reading its file again, where what is installed checked the very same file when the run
    began: of a long one, reading and checking take far longer than anything else here.

    None where anything is different, or wrong: whoever reads the file says what, and where.
    """
    recorded = record.workflow
    try:
        text = Path(recorded["source"] or "").read_bytes()
        known = recorded["file_digest"], recorded["settings_digest"]
        if known != (hashlib.sha256(text).hexdigest(), host.settings.digest) or _REDACTED in _compact(
            recorded["files"]
        ):
            return None
        order = tuple((first, second) for first, second in recorded["order"])
        workflow = record.checked_workflow(host, config=overrides, order=order)
    except (OSError, KeyError, treadle.TreadleError):
        return None
    return replace(workflow, file_digest=known[0])


def _workflow(
    record: Record,
    host: Host,
    overrides: Mapping[str, Any],
    stderr: Channel,
    *,
    given: Iterable[str],
    accept_changes: bool,
) -> Workflow:
    """The workflow to go on with: the one that was run, or its file as it is now where that is accepted."""
    recorded = record.workflow
    source = recorded["source"]
    if source is None or not Path(source).exists():
        if source is not None:
            stderr.line(f"warning: {source} is gone; the workflow goes on as it was recorded")
        return record.checked_workflow(host, config=overrides, accept_changes=accept_changes)
    settings = {**recorded["overrides"], **{name: value for name, value in overrides.items() if value is not None}}
    now = treadle.load_workflow(source, host=host, config=settings, state_keys=(*record.state, *given))
    # In one of the two only: a file before which another of its name is found now, and that one.
    then = {source: recorded["document"], **recorded.get("files", now.files)}  # which a record did not always have
    here = {source: now.data, **now.files}
    changed = {}
    for file in {**then, **here}:
        before, after = then.get(file), _hidden_alike(here.get(file), then.get(file))
        if _compact(before) != _compact(after):
            changed[file] = _lines(before), _lines(after)
    if changed and not accept_changes:
        import difflib  # here, as every command imports this module

        for file, (old, new) in changed.items():
            for line in difflib.unified_diff(old, new, f"{file} as it was", f"{file} now", lineterm=""):
                stderr.line(treadle.hide_secrets(line))
            stderr.line()
        have = "has" if len(changed) == 1 else "have"
        raise ConfigurationError(
            f"{' and '.join(changed)} {have} changed since run {record.run_id} began",
            hint="--accept-changes goes on with what is there now, and steps that have finished keep their results",
        )
    for file in changed:
        stderr.line(f"warning: {file} has changed since the run began; steps that have finished keep their results")
    return now


def _hidden_alike(now: Any, before: Any) -> Any:
    """The document with what is redacted in the record hidden in it too."""
    if isinstance(now, Mapping):
        old = before if isinstance(before, Mapping) else {}
        return {name: _hidden_alike(value, old.get(name)) for name, value in now.items()}
    if isinstance(now, list | tuple):
        old_items = before if isinstance(before, list) else []
        return [_hidden_alike(each, old_items[at] if at < len(old_items) else None) for at, each in enumerate(now)]
    return before if isinstance(before, str) and _REDACTED in before else now


def _compact(document: Any) -> str:
    return json.dumps(document, ensure_ascii=False, default=str)


def _lines(document: Any) -> list[str]:
    return json.dumps(document, indent=2, ensure_ascii=False, default=str).splitlines()


def _changed_versions(recorded: Mapping[str, str], host: Host) -> list[str] | None:
    """What is to be said of them; None where there is nothing to be said, and yet they are others."""
    import platform
    from importlib.metadata import version

    now = {"python": platform.python_version(), "treadle-kernel": version("treadle-kernel"), **host.versions()}
    changed = [
        f"{name} was {then} when the run began, and is {now.get(name, 'not installed')} now"
        for name, then in sorted(recorded.items())
        if name != "python" and now.get(name) != then
    ]
    return changed if changed or now == recorded else None


def _changed_settings(record: Record, host: Host) -> list[str]:
    """What is to be said where the deployment's settings are others; another kernel may only write them otherwise."""
    from importlib.metadata import version

    then, kernel = record.workflow.get("settings_digest"), record.facts.get("versions", {}).get("treadle-kernel")
    if then in (None, host.settings.digest) or kernel != version("treadle-kernel"):
        return []
    return ["the settings have changed since the run began"]
