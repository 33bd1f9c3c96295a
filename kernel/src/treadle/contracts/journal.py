"""The journal: the record of a run that everything else is read from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Any, Literal

from treadle._dataclasses import dataclass

__all__ = ["EntryKind", "Journal", "JournalEntry"]

EntryKind = Literal[
    "run_started",
    "run_resumed",
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

    :param at: when, in seconds since 1970 (UTC).
    """

    run_id: str
    kind: EntryKind
    step: str = ""
    attempt: int = 0
    ordinal: int = 0
    data: Mapping[str, Any] = field(default_factory=dict)
    at: float = field(default=0.0, compare=False)


class Journal(ABC):
    """Keeps entries in the order in which they were appended.

    An entry is appended before anything acts on what it says. Appending is synchronous and must not wait on
    another process; what is appended is not changed afterwards by its caller.
    """

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

        Called after the answer of a model or the end of a tool's call has been appended, and before anything acts on
        it. For journals that write where an append could have to wait: it is not cancelled, and must come to an end.

        :raises OSError: as :meth:`append`.
        """
        return

    def close(self) -> None:
        """Release what the journal holds. Called once, after the last run of the session."""
        return
