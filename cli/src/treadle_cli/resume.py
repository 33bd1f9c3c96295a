"""``treadle resume``: goes on with a run that was interrupted, paused or failed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

import treadle
from treadle import ConfigurationError
from treadle_cli.recorded import go_on, going_on_options

if TYPE_CHECKING:
    from treadle import Journal, Record, Workflow

__all__ = ["resume"]


@click.command(short_help="Go on with a run that was interrupted, paused or failed.")
@click.argument("run_id", metavar="RUN", required=False)
@click.option(
    "-s",
    "--state",
    "assignments",
    metavar="KEY=VALUE",
    multiple=True,
    help="Give a value that was redacted in the record, or another one. Repeatable.",
)
@click.option(
    "--approve",
    "approved",
    metavar="[GATE]",
    is_flag=False,
    flag_value="",
    multiple=True,
    help="Answer a gate with 'approved'; without GATE the only one that waits. Repeatable.",
)
@click.option(
    "--reject",
    "rejected",
    metavar="[GATE]",
    is_flag=False,
    flag_value="",
    multiple=True,
    help="Answer a gate with 'rejected'; without GATE the only one that waits. Repeatable.",
)
@click.option(
    "--answer",
    "answers",
    metavar="GATE=VALUE",
    multiple=True,
    help="Answer a gate with one of its choices, or with any text where it has none. Repeatable.",
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
    run_id: str | None,
    assignments: Sequence[str],
    approved: Sequence[str],
    rejected: Sequence[str],
    answers: Sequence[str],
    assumptions: Sequence[str],
    **how: Any,
) -> None:
    """Go on with RUN, an id that `treadle runs` lists.

    Steps that succeeded are not run again. In a step that was under way, finished calls of models and tools are
    answered from the record. What had failed is tried anew. Paths mean what they meant when the run began.

    What a paused run waits for is answered with --approve, --reject and --answer. A gate is named as the paused run
    shows it: by its step, dotted in a child run (sub.review), or STEP:NAME where a step asks several things. Answers
    are recorded; gates that nobody has answered pause the run again.

    A run that went over its budget needs a larger one: --budget counts what was spent before.

    A tool call that must not happen twice, and may have happened, pauses the run: look, and say so with --assume.
    """
    from treadle_cli import state_args

    if run_id is None:
        run_id, approved, rejected = _run_and_decision(approved, rejected)
    answered = _answers(approved, rejected, answers)
    parsed = state_args.parse_assignments(assignments)
    assume = dict(_parse_assumption(text) for text in assumptions)

    def read(journal: Journal) -> Record:
        return treadle.Record.of(
            journal, run_id, given={each.path[0] for each in parsed}, assume=assume, answers=answered
        )

    def begin(journal: Journal, record: Record, workflow: Workflow) -> tuple[Record, dict[str, Any]]:
        return record, state_args.initial_state(record.state, {}, parsed)

    go_on(ctx, read, begin, given=[each.path[0] for each in parsed], **how)


def _run_and_decision(approved: Sequence[str], rejected: Sequence[str]) -> tuple[str, Sequence[str], Sequence[str]]:
    """`treadle resume --approve RUN`: the word after the option is the run, as there is no other."""
    if not approved and not rejected:
        raise click.UsageError("Missing argument 'RUN', an id that `treadle runs` lists.")
    words = [each for each in (*approved, *rejected) if each]
    if len(words) != 1 or len(approved) + len(rejected) != 1:
        raise click.UsageError("Missing argument 'RUN': treadle resume RUN --approve GATE")
    return words[0], ["" for _ in approved], ["" for _ in rejected]


def _answers(approved: Sequence[str], rejected: Sequence[str], given: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    pairs = [(gate, "approved") for gate in approved] + [(gate, "rejected") for gate in rejected]
    for text in given:
        gate, equals, value = text.partition("=")
        if not equals:
            raise ConfigurationError(f"--answer {text}: must be GATE=VALUE")
        pairs.append((gate, value))
    for gate, value in pairs:
        if found.get(gate, value) != value:
            raise ConfigurationError(
                f"{f'gate {gate!r}' if gate else 'the gate'} is answered both {found[gate]!r} and {value!r}"
            )
        found[gate] = value
    return found


def _parse_assumption(text: str) -> tuple[str, str]:
    call, _, answer = text.rpartition("=")
    if not call or answer not in ("done", "not-done"):
        raise ConfigurationError(f"--assume {text}: must be CALL=done or CALL=not-done")
    return call, answer
