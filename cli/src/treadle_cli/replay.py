"""``treadle replay``: runs a workflow file against a recording."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

import treadle
from treadle import ConfigurationError
from treadle_cli.options import (
    debug_option,
    host_options,
    host_without,
    is_debugging,
    journal_place,
    json_option,
    state_file_option,
    tools_option,
)
from treadle_cli.output import err, out
from treadle_cli.problems import warn_of_plugins

if TYPE_CHECKING:
    from treadle import Host, JournalEntry, Recorder

__all__ = ["replay"]


@click.command(short_help="Run a workflow file against a recording.")
@click.argument("file", metavar="FILE")
@click.option(
    "-r",
    "--recording",
    "recording",
    metavar="REC|RUN",
    required=True,
    help="What models answer: a file of `treadle run --record`, or the id of a run that `treadle runs` lists.",
)
@click.option(
    "-s",
    "--state",
    "assignments",
    metavar="KEY=VALUE",
    multiple=True,
    help="Set a key of the initial state, as for `treadle run`. Repeatable.",
)
@state_file_option
@click.option(
    "--allow-default-fallback",
    is_flag=True,
    help="Give a default reply, and a warning, where nothing was recorded. What has changed still fails.",
)
@json_option
@click.option("-q", "--quiet", is_flag=True, help="Print no progress, warnings or totals on stderr.")
@click.option("--checkpoint-dir", metavar="DIR", help="Read RUN from DIR/journal.db, whatever treadle.yaml says.")
@tools_option
@host_options
@debug_option
@click.pass_context
def replay(
    ctx: click.Context,
    file: str,
    recording: str,
    assignments: Sequence[str],
    state_file: str | None,
    allow_default_fallback: bool,
    as_json: bool,
    quiet: bool,
    checkpoint_dir: str | None,
    tools: Sequence[str],
    without: Sequence[str],
) -> None:
    """Run the workflow in FILE with the replies of a recording in place of every model. No key is read, and nothing
    is sent to a provider. The run itself is recorded nowhere.

    A request that was not recorded, or has changed since, fails its step; the error says what has changed. What was
    recorded and not asked for is told at the end. Tools run, unless REC was recorded with --record-tools.
    """
    from treadle_cli import state_args

    stderr = err()
    given = state_args.read_state_file(state_file) if state_file is not None else {}
    parsed = state_args.parse_assignments(assignments, quiet=quiet)
    host = host_without(without, tools=tools)
    recorder: Recorder = host.sole("recorder", "treadle replay").load()()
    recorded = _recorded(recording, host, checkpoint_dir)
    playback = recorder.play(recorded, host, strict=True, default_fallback=allow_default_fallback)
    host = playback.host
    keys = {*given, *(each.path[0] for each in parsed)}
    workflow = treadle.load_workflow(file, host=host, config={"stream": False}, state_keys=keys)
    if not isinstance(recorded, Path):
        record = treadle.Record(recording, recorded)
        record.check_tools(host.names("tool"), workflow, hint="give it with --tools FILE")
    state = state_args.initial_state(workflow.state, given, parsed)
    if not quiet:
        warn_of_plugins(host, stderr)
        for problem in (*host.warnings, *workflow.warnings):
            stderr.line(str(problem))

    # Imported only now: a mistake is reported without waiting for the engine.
    from treadle_cli.execution import Display, execute_and_print

    display = Display.of(
        workflow,
        stdout=out(),
        stderr=stderr,
        as_json=as_json,
        quiet=quiet,
        debugging=is_debugging(ctx),
        is_replay=True,
    )
    code = execute_and_print(workflow, state, display, treadle.MemoryJournal())
    unused = playback.unused()
    if unused and not quiet:
        stderr.line(f"warning: recorded and not asked for: {', '.join(unused)}")
    ctx.exit(code)


def _recorded(recording: str, host: Host, folder: str | None) -> Path | list[JournalEntry]:
    """The file, or the entries of the run."""
    path = Path(recording)
    if path.exists() or path.suffix or len(path.parts) != 1:
        return path
    try:
        journal = treadle.installed_journal(host, create=False, **journal_place(folder))
    except FileNotFoundError as error:
        raise ConfigurationError(f"there is no file '{recording}', and {error}") from error
    try:
        entries = [] if journal is None else list(journal.entries(recording))
    finally:
        if journal is not None:
            journal.close()
    if not entries:
        raise ConfigurationError(
            f"there is no file '{recording}', and no run of that id", hint="`treadle runs` lists the runs recorded here"
        )
    return entries
