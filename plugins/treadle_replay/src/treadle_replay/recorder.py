"""The recorder: a journal that writes recordings on the way."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import trio

from treadle import Host, Journal, JournalEntry, MemoryJournal, Playback, Recorder
from treadle_replay.calls import AbandonedCalls, Calls, ModelCall, ToolCall
from treadle_replay.file import RecordingFile
from treadle_replay.playing import RecordingPlayback, recording_of

__all__ = ["FileRecorder", "RecordingJournal"]


class RecordingJournal(Journal):
    """Records the runs of a session in a file, beside another journal.

    .. code-block:: python

        async with treadle.open(journal=RecordingJournal("recording.json")) as session:
            await session.run("flow.yaml")

    :param file: what is in it already stays, but for the keys that are recorded anew.
    :param journal: the other one, closed with this one; one in memory without it.
    :param tools: whether results of tools that models called are recorded too.
    :raises ConfigurationError: the file cannot be written, or is something else.
    """

    def __init__(self, file: Path | str, journal: Journal | None = None, *, tools: bool = False) -> None:
        self._file = RecordingFile(Path(file))
        self._journal = MemoryJournal() if journal is None else journal
        self._calls = Calls(tools=tools)
        self._pending: list[ModelCall | ToolCall | AbandonedCalls] = []
        self._writing = trio.Lock()
        if tools:
            self._file.keep_tools()

    def append(self, entry: JournalEntry) -> None:
        """Keep the entry; what it brings to its end is written by :meth:`settle`."""
        self._journal.append(entry)
        self._pending += self._calls.add(entry)

    async def settle(self) -> None:
        """Write what calls have come to. Calls that end at once are written at once.

        :raises RecordingError: it cannot be written.
        """
        await self._journal.settle()
        async with self._writing:
            if self._pending:
                await trio.to_thread.run_sync(self._write)

    def will_settle(self) -> None:
        """Tell the other journal."""
        self._journal.will_settle()

    def _write(self) -> None:
        pending, self._pending = self._pending, []
        try:
            self._file.add(pending)
        except BaseException:
            self._pending = pending + self._pending
            raise

    def entries(self, run_id: str) -> Iterator[JournalEntry]:
        """The entries of a run, as the other journal has them."""
        return self._journal.entries(run_id)

    def close(self) -> None:
        """Write what is left, and close both."""
        try:
            if self._pending:
                self._write()
            self._file.close()
        finally:
            self._journal.close()


class FileRecorder(Recorder):
    """Recordings as JSON files; see ``docs/replay.md``."""

    def recording(self, file: Path, journal: Journal, *, tools: bool = False) -> Journal:
        """A journal that writes the file; see :class:`RecordingJournal`."""
        return RecordingJournal(file, journal, tools=tools)

    def play(
        self, recorded: Path | Iterable[JournalEntry], host: Host, *, strict: bool, default_fallback: bool = False
    ) -> Playback:
        """Put a recording in the place of every model provider.

        :raises ConfigurationError: it cannot be read, or is no recording.
        """
        recording, source = recording_of(recorded)
        return RecordingPlayback(recording, source, host, strict=strict, default_fallback=default_fallback)
