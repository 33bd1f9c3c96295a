"""Recordings: what models answered in a run, kept to be played instead of models."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from treadle import Host
    from treadle.contracts.journal import Journal, JournalEntry

__all__ = ["Playback", "Recorder"]


class Playback(Protocol):
    """A recording that is being played."""

    @property
    def host(self) -> Host:
        """The plugins to load and run workflows with: where a model would answer, the recording does."""
        ...

    def unused(self) -> Sequence[str]:
        """What was recorded and has not been played, for people, by key; abandoned attempts do not count."""
        ...


class Recorder(ABC):
    """Writes recordings, and plays them."""

    @abstractmethod
    def recording(self, file: Path, journal: Journal, *, tools: bool = False) -> Journal:
        """A journal that passes everything on to another one, and writes to the file what it says of calls.

        :param journal: the other one; it is closed with this one.
        :param tools: whether to keep the results of tools that models called as well.
        :raises ConfigurationError: the file cannot be written, or is something else.
        """

    @abstractmethod
    def play(
        self, recorded: Path | Iterable[JournalEntry], host: Host, *, strict: bool, default_fallback: bool = False
    ) -> Playback:
        """Put a recording in the place of every model provider; no key is read and nothing is sent.

        :param recorded: a file, or the entries of a run.
        :param strict: whether a request that was not recorded, or has changed since, fails the step. Otherwise it is
            warned of.
        :param default_fallback: whether, of these, one that was not recorded gets a default reply all the same.
        :raises ConfigurationError: it cannot be read, or is no recording.
        """
