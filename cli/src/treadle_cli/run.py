"""``treadle run``: runs a workflow file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

import treadle
from treadle import TreadleError
from treadle_cli.options import (
    again,
    budget_option,
    checkpoint_dir_option,
    debug_option,
    host_options,
    host_without,
    is_debugging,
    journal_place,
    json_option,
    state_file_option,
    tools_option,
)
from treadle_cli.output import Channel, err, out
from treadle_cli.problems import warn_of_plugins
from treadle_cli.sure_steps import refuse_missing_tools

if TYPE_CHECKING:
    from treadle import Host, Journal, Recorder, Workflow

__all__ = ["run"]


@click.command(short_help="Run a workflow file.")
@click.argument("file", metavar="FILE")
@click.option(
    "-s",
    "--state",
    "assignments",
    metavar="KEY=VALUE",
    multiple=True,
    help="Set a key of the initial state; dotted to set a value inside a mapping. JSON lists, objects, numbers, quoted "
    "texts, true, false and null are decoded, everything else is text. Repeatable; the last wins.",
)
@state_file_option
@click.option("-p", "--provider", metavar="NAME", help="Override config.provider.")
@click.option("-m", "--model", metavar="NAME", help="Override config.model; a step's own model still wins.")
@budget_option
@click.option(
    "--stream/--no-stream",
    default=None,
    help="Override config.stream. Replies appear on stdout as they are written, instead of the live view; those of "
    "parallel steps one after the other. What has appeared is not repeated as a result.",
)
@click.option(
    "--dry-run",
    is_flag=True,
    help="Show what each step would ask and what that may cost, as far as it is known beforehand. Nothing is called.",
)
@json_option
@click.option(
    "-q",
    "--quiet",
    is_flag=True,
    help="Print no progress, warnings or totals on stderr, only errors and what the run waits for.",
)
@click.option("--no-journal", is_flag=True, help="Record the run nowhere: it cannot be shown or resumed.")
@click.option("--checkpoint", is_flag=True, help="Refuse to run where the run cannot be recorded.")
@checkpoint_dir_option
@click.option("--record", metavar="REC", help="Write every model call and its reply to a file, for `treadle replay`.")
@click.option("--record-tools", is_flag=True, help="With --record: the results of tools that models call, too.")
@click.option(
    "--mock-responses",
    metavar="REC",
    help="Answer model calls from a recording, or a file of replies, and with a default where it has none.",
)
@tools_option
@host_options
@debug_option
@click.pass_context
def run(
    ctx: click.Context,
    file: str,
    assignments: Sequence[str],
    state_file: str | None,
    provider: str | None,
    model: str | None,
    budget: float | None,
    stream: bool | None,
    dry_run: bool,
    as_json: bool,
    quiet: bool,
    no_journal: bool,
    checkpoint: bool,
    checkpoint_dir: str | None,
    record: str | None,
    record_tools: bool,
    mock_responses: str | None,
    tools: Sequence[str],
    without: Sequence[str],
) -> None:
    """Run the workflow in FILE and print what its steps wrote to the state.

    Progress goes to stderr: a live view of the steps on a terminal; plain lines elsewhere, and where NO_COLOR is
    set or TERM is dumb. With --json stdout is the whole result, of a failed run too.

    With --record, REC holds what every model call asked and was answered, after each of them: `treadle replay FILE
    --recording REC` runs the workflow again without a model.

    The run is recorded in .treadle/journal.db, or where treadle.yaml says, for `treadle show` and `treadle resume`.

    Ctrl-C and SIGTERM end the run with its result so far; a second one ends it at once.

    \b
    Exit code: 0 success, or paused
               1 it failed, timed out, overspent, or paused unrecorded
               2 a mistake in the command, the file or the settings (no key)
               130 Ctrl-C, 143 SIGTERM
               141 whoever read stdout closed it
    """
    from treadle_cli import state_args

    stderr = err()
    if no_journal and (checkpoint or checkpoint_dir is not None):
        raise click.UsageError("--no-journal records nothing, and --checkpoint and --checkpoint-dir ask for a record")
    if record is not None and mock_responses is not None:
        raise click.UsageError("--record records what models answer, and with --mock-responses none is asked")
    if record_tools and record is None:
        raise click.UsageError("--record-tools goes with --record REC")
    given = state_args.read_state_file(state_file) if state_file is not None else {}
    parsed = state_args.parse_assignments(assignments, quiet=quiet)
    host = host_without(without, tools=tools)
    recorder: Recorder | None = None
    if record is not None or mock_responses is not None:
        recorder = host.sole("recorder", "--record" if record is not None else "--mock-responses").load()()
    if recorder is not None and mock_responses is not None:
        host = recorder.play(Path(mock_responses), host, strict=False).host
    given_config = {"provider": provider, "model": model, "stream": stream, "budget_usd": budget}
    state_keys = {*given, *(each.path[0] for each in parsed)}
    try:
        workflow = treadle.load_workflow(file, host=host, config=given_config, state_keys=state_keys)
    except treadle.TreadleError:
        warn_of_plugins(host, stderr)  # one of them may be what is missed
        raise
    refuse_missing_tools(workflow)
    state = state_args.initial_state(workflow.state, given, parsed)
    if not quiet:
        warn_of_plugins(host, stderr)
        for problem in (*host.warnings, *workflow.warnings):
            stderr.line(str(problem))
        for doubt in workflow.doubts_about(sorted(state_keys)):
            stderr.line(f"warning: {doubt}")

    if dry_run:
        from treadle_cli.dry_run import dry_run as show

        ctx.exit(show(workflow, state, out(), as_json=as_json))

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
    if no_journal:
        journal: Journal | None = treadle.MemoryJournal()
    else:
        journal = open_journal(host, stderr, checkpoint_dir, must=checkpoint)
    if not quiet and (journal is None or not journal.outlives_process):
        for place in steps_that_pause(workflow):
            stderr.line(f"warning: step '{place}' may wait for an answer, which nobody can give: no journal is kept")
    if recorder is not None and record is not None:
        journal = journal or treadle.MemoryJournal()
        try:
            journal = recorder.recording(Path(record), journal, tools=record_tools)
        except BaseException:
            journal.close()
            raise
    ctx.exit(execute_and_print(workflow, state, display, journal))


def steps_that_pause(workflow: Workflow) -> Iterator[str]:
    """The steps that may wait for somebody, those of workflows below too, each once, by a dotted path."""
    found, pending = {id(workflow)}, [("", workflow)]
    while pending:
        above, each = pending.pop(0)
        yield from (f"{above}{step.id}" for step in each.steps if step.may_pause)
        for (step_id, _), child in each.children.items():
            if id(child) not in found:
                found.add(id(child))
                pending.append((f"{above}{step_id}.", child))


def open_journal(host: Host, stderr: Channel, folder: str | None, *, must: bool) -> Journal | None:
    """Where the run is recorded, or None. That no folder can be made here stops no run, unless it was asked for."""
    try:
        journal = treadle.installed_journal(host, **journal_place(folder))
        if journal is None and (must or folder is not None):
            host.sole("journal", "--checkpoint")
        return journal
    except TreadleError as error:
        asked_for = must or folder is not None or bool(host.settings.journal or host.settings.roles.journal)
        if asked_for or not isinstance(error.__cause__, OSError):
            raise
        stderr.line(f"warning: the run is not recorded: {error.message}")
        return None
