"""Streamed replies on stdout, one whole text after the other even where steps run in parallel."""

from __future__ import annotations

from collections.abc import Callable

from treadle import RunEvent
from treadle.contracts.events import RunFinished, StepFinished, StepRetrying, TextEmitted
from treadle_cli.output import Channel, ReaderGone

__all__ = ["TextStream"]


class TextStream:
    """Writes text as it arrives.

    One step has the floor at a time: the first to write. What others write meanwhile waits until it has settled.
    Each text ends in a line feed.

    :param on_reader_gone: called once when nobody reads stdout any more.
    """

    def __init__(self, stdout: Channel, on_reader_gone: Callable[[], object]) -> None:
        self._stdout = stdout
        self._on_reader_gone = on_reader_gone
        self.reader_gone: ReaderGone | None = None
        self._floor: str | None = None
        self._waiting: dict[str, list[str]] = {}
        self._settled: set[str] = set()
        self._texts: dict[str, list[str]] = {}
        self._at_line_start = True

    @property
    def is_mid_text(self) -> bool:
        """Whether some step has the floor."""
        return self._floor is not None

    def wrote(self, step_id: str, value: object) -> bool:
        """Whether the value is the end of what the step has written here."""
        text = "".join(self._texts.get(step_id, ())).strip()
        return isinstance(value, str) and bool(value.strip()) and text.endswith(value.strip())

    def observe(self, event: RunEvent) -> None:
        """Take in an event."""
        match event:
            case TextEmitted():
                if self._floor is None:
                    self._floor = event.step_id
                if self._floor == event.step_id:
                    self._write(event.step_id, event.text)
                else:
                    self._waiting.setdefault(event.step_id, []).append(event.text)
            case StepRetrying():
                # What a failed attempt wrote is not what the step makes.
                self._waiting.pop(event.step_id, None)
                self._end(event.step_id)
                self._texts.pop(event.step_id, None)
            case StepFinished():
                self._settled.add(event.step_id)
                self._end(event.step_id)
            case RunFinished():
                self._end(self._floor)
            case _:
                pass

    def _end(self, step_id: str | None) -> None:
        """The step has nothing to add for now: the next ones have the floor."""
        if self._floor is None or self._floor != step_id:
            return
        self._end_line()
        self._floor = None
        while self._waiting and self._floor is None:
            following = next(iter(self._waiting))
            self._write(following, "".join(self._waiting.pop(following)))
            if following in self._settled:
                self._end_line()
            else:
                self._floor = following

    def _end_line(self) -> None:
        if not self._at_line_start:
            self._put("\n")

    def _write(self, step_id: str, text: str) -> None:
        self._texts.setdefault(step_id, []).append(text)
        self._put(text)

    def _put(self, text: str) -> None:
        if not text or self.reader_gone is not None:
            return
        self._at_line_start = text.endswith("\n")
        try:
            self._stdout.write(text)
        except ReaderGone as error:
            self.reader_gone = error
            self._on_reader_gone()
