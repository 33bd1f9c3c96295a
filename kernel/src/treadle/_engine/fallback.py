"""What is said when one provider answers in another's place, and when none does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from treadle._dataclasses import dataclass
from treadle.errors import ProviderError, TreadleError, UnsupportedError

if TYPE_CHECKING:
    from treadle._settings.candidates import Candidate

__all__ = ["AttemptFailure", "all_failed", "fallback_warning"]


@dataclass(frozen=True, slots=True)
class AttemptFailure:
    """A candidate that did not answer, and why."""

    candidate: Candidate
    error: Exception

    def __str__(self) -> str:
        if isinstance(self.error, UnsupportedError):
            return str(self.error)  # names the provider; no model was asked
        return f"{_who(self.candidate)} failed: {type(self.error).__name__}: {self.error}"


def fallback_warning(failures: Sequence[AttemptFailure], answering: Candidate) -> str:
    """That another one answers than the first, and why."""
    return f"{_who(answering)} answers instead: {'; '.join(map(str, failures))}"


def all_failed(failures: Sequence[AttemptFailure]) -> ProviderError:
    """The one error about candidates that have all failed.

    Transient where any of them is: another try may find that one well. It comes after the shortest time that the
    transient ones ask for, which is none where one of them asks for none. A status is that of all who gave one.
    """
    first, text = failures[0].candidate.name, "; ".join(map(str, failures))
    errors = [each.error for each in failures]
    if all(isinstance(error, UnsupportedError) for error in errors):
        return UnsupportedError(f"no provider can take this request: {text}", provider=first)
    transient = [error for error in errors if not isinstance(error, TreadleError) or error.transient]
    waits = [getattr(error, "retry_after", None) for error in transient]
    codes = {error.status_code for error in errors if isinstance(error, ProviderError)} - {None}
    return ProviderError(
        f"none of {len(failures)} providers answered: {text}",
        provider=first,
        status_code=codes.pop() if len(codes) == 1 else None,
        retry_after=min((wait for wait in waits if wait is not None), default=None) if None not in waits else None,
        transient=bool(transient),
    )


def _who(candidate: Candidate) -> str:
    model = f" with model '{candidate.model}'" if candidate.model else ""
    return f"provider '{candidate.name}'{model}"
