"""A run from start to printed result. Imports the engine."""

from __future__ import annotations

import gc
import json
import os
import traceback
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

import trio

import treadle
from treadle import ConfigurationError, Journal, Record, RunEvent, RunResult, StateError, Workflow
from treadle.contracts.events import RunWarning
from treadle_cli.lines import EventLines, warning_line
from treadle_cli.output import Channel
from treadle_cli.signals import Interrupts, cancel_on_signals
from treadle_cli.streaming import TextStream
from treadle_cli.summary import exit_code, failure_lines, going_on_line, last_line, pending_lines, result_text, written

__all__ = ["Display", "execute_and_print"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Display:
    """What is shown of a run, and where.

    :param live: whether the steps are drawn on the terminal.
    :param shows_text: whether replies are written to stdout as they arrive.
    :param debugging: whether a failed step is shown with its traceback.
    :param again: options that a command which goes on with the run needs as well.
    :param is_replay: whether it is no run of its own: where the recorded one paused, it has come to its end.
    """

    stdout: Channel
    stderr: Channel
    as_json: bool
    quiet: bool
    live: bool
    shows_text: bool
    debugging: bool = False
    again: str = ""
    is_replay: bool = False

    @classmethod
    def of(
        cls,
        workflow: Workflow,
        *,
        stdout: Channel,
        stderr: Channel,
        as_json: bool,
        quiet: bool,
        debugging: bool,
        again: str = "",
        is_replay: bool = False,
    ) -> Display:
        """What is shown of a run of that workflow, as its config and the terminal have it."""
        shows_text = workflow.config.stream and not as_json
        live = not quiet and not shows_text and _can_show_live(stderr)
        return cls(
            stdout=stdout,
            stderr=stderr,
            as_json=as_json,
            quiet=quiet,
            live=live,
            shows_text=shows_text,
            debugging=debugging,
            again=again,
            is_replay=is_replay,
        )


def _can_show_live(stderr: Channel) -> bool:
    """Whether stderr is a terminal on which lines can be drawn anew, and nobody asked for plain text."""
    terminal = os.environ.get("TERM", "" if os.name != "nt" else "windows")
    return stderr.is_terminal and not os.environ.get("NO_COLOR") and terminal not in ("", "dumb", "unknown")


@dataclass(slots=True)
class _Execution:
    """What is known of the run, however it ends."""

    result: RunResult | None = None
    interrupts: Interrupts = field(default_factory=Interrupts)
    text: TextStream | None = None
    warnings: dict[str, None] = field(default_factory=dict)
    is_recorded: bool = False


def execute_and_print(
    workflow: Workflow,
    state: Mapping[str, Any],
    display: Display,
    journal: Journal | None = None,
    earlier: Record | None = None,
) -> int:
    """Run the workflow, print its result, and give the exit code.

    :param journal: where the run is recorded; closed with it.
    :param earlier: the record of a run to go on with.
    :raises ConfigurationError: a value of ``state`` cannot be kept in a state.
    :raises ReaderGone: whoever read stdout has closed it.
    """
    execution = _Execution()
    gc.freeze()  # what has been loaded stays, and is not looked at again and again
    try:
        trio.run(_execute, workflow, state, display, execution, journal, earlier)
    finally:
        # A result is printed even where closing the session failed.
        if execution.result is not None:
            _print_result(workflow, execution.result, display, execution)
    assert execution.result is not None
    return execution.interrupts.exit_code or exit_code(
        execution.result, may_pause=execution.is_recorded or display.is_replay
    )


async def _execute(
    workflow: Workflow,
    state: Mapping[str, Any],
    display: Display,
    execution: _Execution,
    journal: Journal | None,
    earlier: Record | None,
) -> None:
    receivers: list[Callable[[RunEvent], object]] = []

    def on_event(event: RunEvent) -> None:
        for receive in receivers:
            receive(event)

    observed = on_event if display.shows_text or not display.quiet else None
    async with treadle.open(host=workflow.host, journal=journal) as session:
        execution.is_recorded = session.journal.outlives_process
        try:
            run = session.start(workflow, state=state, on_event=observed, earlier=earlier)
        except StateError as error:
            raise ConfigurationError(f"the initial state: {error.message}", hint=error.hint) from error
        with cancel_on_signals(run.cancel) as execution.interrupts:
            async with AsyncExitStack() as views:
                if display.shows_text:
                    text = TextStream(display.stdout, lambda: run.cancel("whoever read stdout has closed it"))
                    execution.text = text
                    receivers.append(text.observe)
                if display.live:
                    receivers.append(await _open_live(workflow, display, execution, views))
                elif not display.quiet:
                    receivers.append(EventLines(display.stderr, _is_held(display, execution)).observe)
                execution.result = await run.execute()


async def _open_live(
    workflow: Workflow, display: Display, execution: _Execution, views: AsyncExitStack
) -> Callable[[RunEvent], object]:
    from treadle_cli.live import show_live
    from treadle_cli.progress import Progress

    progress = Progress([(step.id, step.type) for step in workflow.steps], trio.current_time())
    await views.enter_async_context(show_live(progress, display.stderr))

    def receive(event: RunEvent) -> None:
        if isinstance(event, RunWarning):
            execution.warnings[warning_line(event)] = None
        progress.apply(event, trio.current_time())

    return receive


def _is_held(display: Display, execution: _Execution) -> Callable[[], bool]:
    one_screen = display.stdout.is_terminal and display.stderr.is_terminal
    return lambda: one_screen and execution.text is not None and execution.text.is_mid_text


def _print_result(workflow: Workflow, result: RunResult, display: Display, execution: _Execution) -> None:
    stdout, stderr, text = display.stdout, display.stderr, execution.text
    # On a screen that shows both, the result stands between blank lines.
    space = "\n" if display.live and stdout.is_terminal else ""
    for warning in execution.warnings:
        stderr.line(warning)
    if display.as_json:
        data = json.dumps(result.to_json(), indent=2, ensure_ascii=not stdout.is_utf8)
        stdout.write(f"{data}\n", raw=True)
    elif text is not None and text.reader_gone is not None:
        raise text.reader_gone
    else:
        values = written(workflow, result, text.wrote) if text else written(workflow, result)
        shown = result_text(values)
        stdout.write(space + shown + space if shown else "")
    if display.debugging:
        for each in result.step_results.values():
            if each.exception is not None:
                display.stderr.write(treadle.hide_secrets("".join(traceback.format_exception(each.exception))))
    how = display.again if execution.is_recorded else None
    for line in (
        *failure_lines(result),
        *pending_lines(result.run_id, result.pending, how, is_replay=display.is_replay),
    ):
        stderr.line(line)
    going_on = None if how is None else going_on_line(result, how, quiet=display.quiet)
    if going_on is not None:
        stderr.line(going_on)
    if not display.quiet:
        stderr.line(last_line(result, is_recorded=execution.is_recorded))
