"""The log of attempts at a request, as responses and errors carry it."""

from __future__ import annotations

from typing import Any

from treadle_loop.errors import AgentLoopError, ProviderError
from treadle_loop.provider import AttemptRecord, ModelResponse

__all__ = ["continued", "log_of"]


def log_of(ended: ModelResponse | AgentLoopError) -> tuple[AttemptRecord, ...]:
    """The attempts behind a response or an error: those that it says, or itself as the only one."""
    if isinstance(ended, ModelResponse):
        return ended.attempt_log or (AttemptRecord(attempt=1, ok=True, request_sent=True, request_id=ended.request_id),)
    if not isinstance(ended, ProviderError):
        return (AttemptRecord(attempt=1, ok=False, error_type=type(ended).__name__, request_sent=False),)
    return ended.attempt_log or (
        AttemptRecord(
            attempt=1,
            ok=False,
            error_type=type(ended).__name__,
            status_code=ended.status_code,
            phase=ended.phase,
            request_sent=ended.request_sent,
            request_id=ended.request_id,
        ),
    )


def continued(
    log: tuple[AttemptRecord, ...],
    ended: ModelResponse | AgentLoopError,
    *,
    wait: float = 0.0,
    provider: str | None = None,
) -> tuple[AttemptRecord, ...]:
    """The log with the attempts behind a response or an error after it, numbered on.

    :param wait: seconds that are waited after the last of them.
    :param provider: who was asked; where a record says that itself, it stays.
    """
    more = log_of(ended)
    facts: list[dict[str, Any]] = [
        {"attempt": number, "provider": each.provider or provider}
        for number, each in enumerate(more, start=len(log) + 1)
    ]
    if wait:
        facts[-1]["wait_seconds"] = wait
    return (*log, *(each.model_copy(update=fact) for each, fact in zip(more, facts, strict=True)))
