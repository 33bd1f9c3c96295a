"""The journal: the record of a run that everything else is read from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from typing import Any, ClassVar, Literal, Self

from treadle._dataclasses import dataclass
from treadle.errors import ConfigurationError

__all__ = ["EntryKind", "Journal", "JournalEntry", "check_after"]

EntryKind = Literal[
    "run_started",
    "run_resumed",
    "answered",
    "step_started",
    "step_finished",
    "model_call_started",
    "model_call_finished",
    "tool_call_started",
    "tool_call_finished",
    "run_finished",
]


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """One fact about a run.

    ``ordinal`` counts an attempt's calls from 1. Where workflows nest, everything is under the outermost run's id
    and ``step`` is a dotted path: ``sub.draft`` is the step ``draft`` in the child run of the step ``sub``. The child's
    own ``run_started`` and ``run_finished`` have the path ``sub`` and the attempt of that step.

    ``run_resumed`` is where another process goes on with a run: steps that were under way go on in the same attempt,
    without a ``step_started`` of their own.

    ``answered`` is what somebody answered to questions of paused steps (``answers``, by gate), and which of them had
    no answer in time (``expired``).

    :param at: when, in seconds since 1970 (UTC). A process looks at the clock as it begins or goes on with the run and
        counts from there, so that the time between two entries of one process is right though the clock is set.
    """

    run_id: str
    kind: EntryKind
    step: str = ""
    attempt: int = 0
    ordinal: int = 0
    data: Mapping[str, Any] = field(default_factory=dict)
    at: float = field(default=0.0, compare=False)


def check_after(entry: JournalEntry, kept: int) -> None:
    """For journals: refuse what goes by another record than the one of ``kept`` entries.

    :raises ConfigurationError: another process has gone on with the run, or answered it.
    """
    if entry.data.get("after", kept) != kept:
        raise ConfigurationError(
            f"run {entry.run_id} has been answered or gone on with elsewhere since it was read", hint="try it again"
        )


class Journal(ABC):
    """Keeps entries in the order in which they were appended.

    An entry is appended before anything acts on what it says. Appending is synchronous and must not wait on
    another process; what is appended is not changed afterwards by its caller. It is kept when :meth:`append` returns,
    unless the caller has said that it awaits :meth:`settle`.

    A ``run_resumed`` goes by what its process has read of the run: it says in ``after`` how many entries that were, and
    is refused where there are others by then, as the run would do again what another process has done. An ``answered``
    says so too, and should be refused where another one has come since: one answer counts, and whoever gave the other
    is to be told.

    :cvar outlives_process: whether another process can read what is appended; a run can then wait for a person.
    :ivar is_settled: whether there is nothing to wait for: :meth:`settle` is then not called.
    """

    outlives_process: ClassVar[bool] = True
    is_settled: bool = False

    @classmethod
    def existing(cls, *settings: Any) -> Self:
        """One that is there already: commands that only go on with something must not make it.

        :param settings: as the class takes them.
        :raises FileNotFoundError: there is none.
        """
        return cls(*settings)

    @abstractmethod
    def append(self, entry: JournalEntry) -> None:
        """Keep the entry.

        :raises OSError: it cannot be kept; the run stops, as nothing paid for may be lost.
        """

    @abstractmethod
    def entries(self, run_id: str) -> Iterator[JournalEntry]:
        """The entries of a run, in order; none where the run is unknown."""

    async def settle(self) -> None:
        """Wait until what was appended is where it is to be kept; by default it is.

        Called before a model or a tool is called, after its answer or its end, before a step begins that comes after
        another, and at the end of a run: always after the entry, and before anything acts on it. For journals that
        write where an append could have to wait, and for those that write what several runs have appended at once. It
        is not cancelled, and must come to an end.

        :raises OSError: as :meth:`append`.
        """
        return

    def will_settle(self) -> None:
        """Told by a session that awaits :meth:`settle`. What is appended need then only be kept when that has returned,
        in order; a step's or child run's beginning, and a step's end that nothing follows, a moment later.

        A journal around another one passes it on if its :meth:`settle` awaits the other's.
        """
        return

    def unfinished(self) -> Iterable[str]:
        """Ids of the runs that are paused, under way or were interrupted, the longest untouched first.

        What a server offers to be answered is looked for among them; a journal that cannot tell gives none.
        """
        return ()

    def close(self) -> None:
        """Release what the journal holds. Called once, after the last run of the session."""
        return
