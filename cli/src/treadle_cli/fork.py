"""``treadle fork``: a new run that begins in the middle of another one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

import treadle
from treadle_cli.recorded import go_on, going_on_options

if TYPE_CHECKING:
    from treadle import Journal, Record, Workflow

__all__ = ["fork"]


@click.command(short_help="Run again from one step on, as a new run.")
@click.argument("run_id", metavar="RUN")
@click.option(
    "--at", "step", metavar="STEP", required=True, help="The step to begin with. What comes after it runs too."
)
@click.option(
    "-s",
    "--state",
    "assignments",
    metavar="KEY=VALUE",
    multiple=True,
    help="Give STEP another value of the state than it had. Repeatable.",
)
@going_on_options
@click.pass_context
def fork(ctx: click.Context, /, run_id: str, step: str, assignments: Sequence[str], **how: Any) -> None:
    """Run again from one step of RUN on, as a new run with an id of its own.

    Steps that do not come after STEP keep their results and cost nothing again. RUN is not changed, and may be one
    that has succeeded. With --accept-changes STEP runs as the file has it now: edit a prompt, and fork.
    """
    from treadle_cli import state_args

    parsed = state_args.parse_assignments(assignments)

    def read(journal: Journal) -> Record:
        return treadle.Record(run_id, journal.entries(run_id))

    def begin(journal: Journal, record: Record, workflow: Workflow) -> tuple[Record, dict[str, Any]]:
        state = state_args.initial_state(record.state_before(workflow, step), {}, parsed)
        return record.fork(journal, workflow, step, state), {}

    go_on(ctx, read, begin, given=[each.path[0] for each in parsed], **how)
