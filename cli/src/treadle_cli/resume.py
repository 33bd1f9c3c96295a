"""``treadle resume``: goes on with a run that was interrupted, paused or failed."""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import treadle
from treadle import ConfigurationError
from treadle_cli.options import (
    checkpoint_dir_option,
    debug_option,
    host_options,
    host_without,
    is_debugging,
    journal_place,
    tools_option,
)
from treadle_cli.output import Channel, err, out

if TYPE_CHECKING:
    from treadle import Host, Record, Workflow

__all__ = ["resume"]


@click.command(short_help="Go on with a run that was interrupted, paused or failed.")
@click.argument("run_id", metavar="RUN")
@click.option(
    "-s",
    "--state",
    "assignments",
    metavar="KEY=VALUE",
    multiple=True,
    help="Give a value that was redacted in the record, or another one. Repeatable.",
)
@click.option(
    "--assume",
    "assumptions",
    metavar="CALL=done|not-done",
    multiple=True,
    help="Say whether a tool call that the run was interrupted in had its effect. The paused step lists each such "
    "call. Repeatable.",
)
@click.option(
    "--accept-changes", is_flag=True, help="Go on with the workflow file as it is now, though it has changed."
)
@click.option("-p", "--provider", metavar="NAME", help="Override config.provider from here on.")
@click.option("-m", "--model", metavar="NAME", help="Override config.model from here on.")
@click.option("--stream/--no-stream", default=None, help="Override config.stream from here on.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout and nothing else there.")
@click.option("-q", "--quiet", is_flag=True, help="Print no progress, warnings or totals on stderr.")
@checkpoint_dir_option
@tools_option
@host_options
@debug_option
@click.pass_context
def resume(
    ctx: click.Context,
    run_id: str,
    assignments: Sequence[str],
    assumptions: Sequence[str],
    accept_changes: bool,
    provider: str | None,
    model: str | None,
    stream: bool | None,
    as_json: bool,
    quiet: bool,
    checkpoint_dir: str | None,
    tools: Sequence[str],
    without: Sequence[str],
) -> None:
    """Go on with RUN, an id that `treadle runs` lists.

    Steps that succeeded are not run again. In a step that was under way, finished calls of models and tools are
    answered from the record. What had failed is tried anew. Paths mean what they meant when the run began.

    A tool call that must not happen twice, and may have happened, pauses the run: look, and say so with --assume.
    """
    from treadle_cli import state_args

    stderr = err()
    parsed = [state_args.parse_assignment(text) for text in assignments]
    assume = dict(_parse_assumption(text) for text in assumptions)
    host = host_without(without, tools=tools)
    journal = treadle.installed_journal(host, **journal_place(checkpoint_dir))
    if journal is None:
        host.sole("journal", "treadle resume")
        raise AssertionError("the host has just said that there is none")
    try:
        record = treadle.Record.of(journal, run_id, given={each.path[0] for each in parsed}, assume=assume)
        _enter(record)
        state = state_args.initial_state(record.state, {}, parsed)
        overrides = {"provider": provider, "model": model, "stream": stream}
        workflow = _workflow(record, host, overrides, stderr, accept_changes=accept_changes)
    except BaseException:
        journal.close()
        raise
    if not quiet:
        for line in _changed_versions(record.facts.get("versions") or {}, host):
            stderr.line(f"warning: {line}")

    # Imported only now: a mistake is reported without waiting for the engine.
    from treadle_cli.execution import Display, execute_and_print

    display = Display.of(
        workflow, stdout=out(), stderr=stderr, as_json=as_json, quiet=quiet, debugging=is_debugging(ctx)
    )
    ctx.exit(execute_and_print(workflow, state, display, journal, record))


def _parse_assumption(text: str) -> tuple[str, str]:
    call, _, answer = text.rpartition("=")
    if not call or answer not in ("done", "not-done"):
        raise ConfigurationError(f"--assume {text}: must be CALL=done or CALL=not-done")
    return call, answer


def _enter(record: Record) -> None:
    """Go to the directory in which the run was begun: its paths are relative to that."""
    folder = record.facts.get("folder")
    if folder is None:
        return
    try:
        os.chdir(folder)
    except OSError as error:
        raise ConfigurationError(
            f"run {record.run_id} was begun in {folder}, which cannot be entered: {error.strerror or error}"
        ) from error


def _workflow(
    record: Record, host: Host, overrides: Mapping[str, Any], stderr: Channel, *, accept_changes: bool
) -> Workflow:
    """The workflow to go on with: the one that was run, or its file as it is now where that is accepted."""
    recorded = record.workflow
    source = recorded["source"]
    if source is None or not Path(source).exists():
        if source is not None:
            stderr.line(f"warning: {source} is gone; the workflow goes on as it was recorded")
        return record.checked_workflow(host).with_config(**overrides)
    given = {**recorded["overrides"], **{name: value for name, value in overrides.items() if value is not None}}
    now = treadle.load_workflow(source, host=host, config=given, state_keys=record.state)
    before, after = recorded["document"], _hidden_alike(now.data, recorded["document"])
    if _lines(before) != _lines(after):
        if not accept_changes:
            shown = difflib.unified_diff(
                _lines(before), _lines(after), f"{source} as it was", f"{source} now", lineterm=""
            )
            raise ConfigurationError(
                "\n".join([f"{source} has changed since run {record.run_id} began:", *shown]),
                hint="--accept-changes goes on with it as it is now; steps that have finished keep their results",
            )
        stderr.line(f"warning: {source} has changed since the run began; steps that have finished keep their results")
    return now


def _hidden_alike(now: Any, before: Any) -> Any:
    """The document with what is redacted in the record hidden in it too."""
    if isinstance(now, Mapping):
        old = before if isinstance(before, Mapping) else {}
        return {name: _hidden_alike(value, old.get(name)) for name, value in now.items()}
    if isinstance(now, list | tuple):
        old_items = before if isinstance(before, list) else []
        return [_hidden_alike(each, old_items[at] if at < len(old_items) else None) for at, each in enumerate(now)]
    return before if isinstance(before, str) and "<REDACTED:sha256=" in before else now


def _lines(document: Any) -> list[str]:
    return json.dumps(document, indent=2, ensure_ascii=False, default=str).splitlines()


def _changed_versions(recorded: Mapping[str, str], host: Host) -> list[str]:
    from importlib.metadata import version

    now = {"treadle-kernel": version("treadle-kernel"), **host.versions()}
    return [
        f"{name} was {then} when the run began, and is {now.get(name, 'not installed')} now"
        for name, then in sorted(recorded.items())
        if name != "python" and now.get(name) != then
    ]
