"""``treadle batch``: a run of one workflow for each line of a file."""

from __future__ import annotations

from collections.abc import Sequence

import click

import treadle
from treadle_cli.options import (
    USD,
    again,
    checkpoint_dir_option,
    debug_option,
    host_options,
    host_without,
    tools_option,
)
from treadle_cli.output import err, out
from treadle_cli.problems import warn_of_plugins
from treadle_cli.run import open_journal
from treadle_cli.sure_steps import refuse_missing_tools

__all__ = ["batch"]


@click.command(short_help="Run a workflow once for each line of a file.")
@click.argument("file", metavar="FILE")
@click.option(
    "--inputs", metavar="JSONL", required=True, help="One JSON object a line: the initial state of one run each."
)
@click.option(
    "--output",
    metavar="JSONL",
    help="Receives one JSON object a line, in the order of the inputs. What is in it is not run again. Without it "
    "results go to stdout, all of them each time.",
)
@click.option(
    "--concurrency", metavar="N", type=click.IntRange(1, 10_000), default=10, show_default=True, help="Runs at once."
)
@click.option(
    "--key", metavar="FIELD", default="key", show_default=True, help="The field by which a line names itself."
)
@click.option(
    "-s", "--state", "assignments", metavar="KEY=VALUE", multiple=True, help="State of every run; a line's own wins."
)
@click.option("-p", "--provider", metavar="NAME", help="Override config.provider.")
@click.option("-m", "--model", metavar="NAME", help="Override config.model; a step's own model still wins.")
@click.option(
    "-b",
    "--budget",
    metavar="USD",
    type=USD,
    help="The most that all runs together may spend on models, those of earlier starts included.",
)
@click.option("--retry-failed", is_flag=True, help="Run again what is in the output and has failed.")
@click.option("--restart", is_flag=True, help="Begin anew, whatever results are in the output.")
@click.option("--json", "as_json", is_flag=True, help="Print a summary on stdout as one JSON object.")
@click.option("-q", "--quiet", is_flag=True, help="Print no progress on stderr, only failures and errors.")
@checkpoint_dir_option
@tools_option
@host_options
@debug_option
@click.pass_context
def batch(
    ctx: click.Context,
    file: str,
    inputs: str,
    output: str | None,
    concurrency: int,
    key: str,
    assignments: Sequence[str],
    provider: str | None,
    model: str | None,
    budget: float | None,
    retry_failed: bool,
    restart: bool,
    as_json: bool,
    quiet: bool,
    checkpoint_dir: str | None,
    tools: Sequence[str],
    without: Sequence[str],
) -> None:
    """Run the workflow in FILE once for each line of --inputs, many at once, and write the results, a line each.

    A result has the line's number and key, the run's id and status, what its steps wrote, its error and its cost.

    The same command again goes on where it was ended, by whatever: finished runs are not repeated, those under way go
    on from their record. A line or a workflow that has changed since is refused.

    \b
    Exit code: 0 every line succeeded, or is paused
               1 some failed, or the budget was used up
               2 a mistake in the command, a file or the settings; nothing was run
               130 Ctrl-C, 143 SIGTERM
    """
    from treadle_cli import state_args
    from treadle_cli.batch_items import read_items

    stderr, stdout = err(), out()
    if as_json and output is None:
        raise click.UsageError("--json needs --output: without it stdout has the results")
    parsed = state_args.parse_assignments(assignments, quiet=quiet)
    host = host_without(without, tools=tools)
    items = read_items(inputs, key)
    keys = {*(each.path[0] for each in parsed), *(name for item in items for name in item.state)}
    config = {"provider": provider, "model": model}
    workflow = treadle.load_workflow(file, host=host, config=config, state_keys=keys)
    refuse_missing_tools(workflow)
    if budget is not None:
        host.sole("budget", "--budget")
    if not quiet:
        warn_of_plugins(host, stderr)
        for problem in (*host.warnings, *workflow.warnings):
            stderr.line(str(problem))
        for doubt in workflow.doubts_about(sorted(keys - {key})):
            stderr.line(f"warning: {doubt}")

    # Imported only now: a mistake is reported without waiting for the engine.
    from treadle_cli.batch_results import Results
    from treadle_cli.batch_running import Batch, run_batch

    common = state_args.initial_state(workflow.state, {}, parsed)
    if output is None:
        results = Results.to_stdout(stdout, inputs, items, restart=restart, retry_failed=retry_failed)
    else:
        results = Results.open(output, inputs, items, workflow, restart=restart, retry_failed=retry_failed)
    with results:
        journal = open_journal(host, stderr, checkpoint_dir, must=False)
        work = Batch(
            workflow=workflow,
            items=items,
            results=results,
            common=common,
            concurrency=concurrency,
            budget_usd=budget,
            stderr=stderr,
            quiet=quiet,
            again=again(checkpoint_dir, tools),
            is_drawn=stderr.is_terminal and not (output is None and stdout.is_terminal),
        )
        ctx.exit(run_batch(work, journal, stdout if as_json else None))
