"""``treadle resume``: goes on with a run that was interrupted, paused or failed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from treadle import ConfigurationError, Record
from treadle_cli.recorded import go_on, going_on_options

if TYPE_CHECKING:
    from treadle import Journal, Workflow

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
@going_on_options
@click.pass_context
def resume(
    ctx: click.Context,
    /,
    run_id: str,
    assignments: Sequence[str],
    assumptions: Sequence[str],
    **how: Any,
) -> None:
    """Go on with RUN, an id that `treadle runs` lists.

    Steps that succeeded are not run again. In a step that was under way, finished calls of models and tools are
    answered from the record. What had failed is tried anew. Paths mean what they meant when the run began.

    A tool call that must not happen twice, and may have happened, pauses the run: look, and say so with --assume.
    """
    from treadle_cli import state_args

    parsed = [state_args.parse_assignment(text) for text in assignments]
    assume = dict(_parse_assumption(text) for text in assumptions)

    def read(journal: Journal) -> Record:
        return Record.of(journal, run_id, given={each.path[0] for each in parsed}, assume=assume)

    def begin(journal: Journal, record: Record, workflow: Workflow) -> tuple[Record, dict[str, Any]]:
        return record, state_args.initial_state(record.state, {}, parsed)

    go_on(ctx, read, begin, given=[each.path[0] for each in parsed], **how)


def _parse_assumption(text: str) -> tuple[str, str]:
    call, _, answer = text.rpartition("=")
    if not call or answer not in ("done", "not-done"):
        raise ConfigurationError(f"--assume {text}: must be CALL=done or CALL=not-done")
    return call, answer
