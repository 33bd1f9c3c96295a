"""Why an attempt failed, whether another may help, and when."""

from __future__ import annotations

import random
from typing import Literal

from treadle._dataclasses import dataclass
from treadle.contracts.config import RetrySettings
from treadle.errors import BudgetExceededError, ProviderError, TreadleError
from treadle.nurseries import lone_error

__all__ = ["Failure", "first_of", "is_failure", "is_fault", "wait_before"]

# Faults of the code or of the data: the next attempt would meet them again. pydantic's ValidationError is a ValueError.
_FAULTS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    ImportError,
    LookupError,
    NameError,
    NotImplementedError,
    RecursionError,
    SyntaxError,
    TypeError,
    ValueError,
)


def is_fault(kind: type[BaseException]) -> bool:
    """Whether errors of that type are met again by the next attempt; ours say so themselves."""
    return issubclass(kind, _FAULTS)


def is_failure(error: BaseException) -> bool:
    """Whether code that is not ours has failed, by ``sys.exit()`` too: no plugin ends the program. Not so where any of
    it is a cancellation or Ctrl-C."""
    return BaseExceptionGroup("", [error]).split((Exception, SystemExit))[1] is None


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A failed attempt. ``error`` is None for a time-out of the step."""

    message: str
    transient: bool
    error: BaseException | None = None
    timed_out: bool = False

    @property
    def classification(self) -> Literal["permanent", "transient"]:
        """As results say it."""
        return "transient" if self.transient else "permanent"

    @classmethod
    def timeout(cls, seconds: float) -> Failure:
        """The step's own time limit ran out."""
        return cls(message=f"timed out after {seconds:g} s", transient=True, timed_out=True)

    @classmethod
    def of(cls, error: BaseException, retry: RetrySettings) -> Failure:
        """Classify what an attempt raised.

        An explicit ``retryable_status_codes`` decides alone about errors that have a status. A server that asks for
        more patience than ``max_wait`` is not asked again.
        """
        error = lone_error(error)
        if isinstance(error, BaseExceptionGroup) and (over := error.subgroup(BudgetExceededError)):
            error = first_of(over)  # several calls at once may be refused by one budget
        if not isinstance(error, TreadleError):
            message = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            return cls(message=message, transient=not is_fault(type(error)), error=error)
        message, transient = str(error), error.transient
        if isinstance(error, ProviderError):
            codes = retry.retryable_status_codes
            if codes is not None and error.status_code is not None:
                transient = error.status_code in codes
            if transient and error.retry_after is not None and error.retry_after > retry.max_wait:
                transient = False
                message += f"; the provider asks to come back in {error.retry_after:g} s, "
                message += f"which is longer than retry.max_wait ({retry.max_wait:g} s)"
        return cls(message=message, transient=transient, error=error)


def first_of(error: BaseException) -> BaseException:
    """The first error inside nested groups."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def wait_before(attempt: int, failure: Failure, retry: RetrySettings) -> float:
    """Seconds to wait before the attempt of that number (2 is the first repetition)."""
    if isinstance(failure.error, ProviderError) and failure.error.retry_after is not None:
        return max(0.0, failure.error.retry_after)
    try:
        wait = min(retry.backoff_base ** (attempt - 2), retry.backoff_max)
    except OverflowError:
        wait = retry.backoff_max
    return wait * random.uniform(0.75, 1.25) if retry.jitter else wait
