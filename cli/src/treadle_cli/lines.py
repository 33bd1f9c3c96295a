"""A run told in plain lines on stderr, one for each thing that happens."""

from __future__ import annotations

from collections.abc import Callable

from treadle import RunEvent, StepStatus
from treadle.contracts.events import RunFinished, RunWarning, StepFinished, StepRetrying, StepStarted
from treadle_cli import amounts
from treadle_cli.output import Channel
from treadle_cli.pending import waits_for

__all__ = ["EventLines", "describe"]


def describe(event: RunEvent) -> str | None:
    """The line for an event, None where it has none."""
    match event:
        case StepStarted(attempt=1):
            return f"{event.step_id}: started"
        case StepStarted():
            return f"{event.step_id}: started, attempt {event.attempt}"
        case StepRetrying():
            return f"{event.step_id}: attempt {event.attempt} failed, again in {event.wait:.1f} s: {event.error}"
        case StepFinished():
            return _finished(event)
        case RunWarning():
            return warning_line(event)
        case _:
            return None


def warning_line(warning: RunWarning) -> str:
    """A warning of a run."""
    return f"warning: step '{warning.step_id}': {warning.message}" if warning.step_id else f"warning: {warning.message}"


def _finished(event: StepFinished) -> str:
    result = event.result
    if result.status is StepStatus.SKIPPED:
        return f"{event.step_id}: skipped: {result.reason}"
    parts = [f"{event.step_id}: {result.status} after {amounts.duration(result.duration_ms / 1000)}"]
    if result.usage.total_tokens != 0:
        parts += [amounts.tokens(result.usage.total_tokens), amounts.cost(result.cost_usd)]
    text = ", ".join(parts)
    more = result.error or waits_for(result)
    return f"{text}: {more}" if more else text


_MOST_KEPT = 5
"""Steps that an earlier process has finished, each of which has a line. More are only counted."""


class EventLines:
    """Writes the lines.

    :param held: whether a line would break into a text that is being written to the same screen. Such lines wait.
    """

    def __init__(self, stderr: Channel, held: Callable[[], bool]) -> None:
        self._stderr = stderr
        self._held = held
        self._waiting: list[str] = []
        self._warned: set[str] = set()
        self._begun: set[str] = set()
        self._kept: list[str] = []

    def observe(self, event: RunEvent) -> None:
        """Write the event's line, each distinct warning once."""
        text = describe(event)
        if isinstance(event, StepStarted):
            self._begun.add(event.step_id)
        if isinstance(event, StepFinished) and event.result.status is StepStatus.SUCCESS and text is not None:
            if event.step_id not in self._begun:
                self._kept.append(text)
                return
            self._begun.discard(event.step_id)
        self._tell_kept()
        if text is not None and not (isinstance(event, RunWarning) and text in self._warned):
            self._waiting.append(text)
            if isinstance(event, RunWarning):
                self._warned.add(text)
        if not self._held() or isinstance(event, RunFinished):
            for line in self._waiting:
                self._stderr.line(line)
            self._waiting.clear()

    def _tell_kept(self) -> None:
        many = len(self._kept) > _MOST_KEPT
        self._waiting += [f"{len(self._kept)} steps had finished before"] if many else self._kept
        self._kept = []
