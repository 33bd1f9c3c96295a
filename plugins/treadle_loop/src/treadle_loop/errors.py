"""What a conversation raises.

    AgentLoopError                     carries ``.summary`` where it ended a conversation
    ├── TranscriptError                messages in an order that no provider takes
    ├── ToolError                      raised by a tool: the model is told the text
    ├── LoopBudgetExceeded             iterations, deadline or tokens are used up
    ├── ConfigurationError             also a ``ValueError``
    ├── OutputInvalid                  no answer had the shape that was asked for
    └── ProviderError                  a provider failed
        ├── AuthError                  401, 403, or no key
        ├── BadRequestError            400 and the like
        │   └── ContextLengthExceeded
        ├── ModelNotFound              404
        ├── InsufficientCredits        402, or a 429 that says so
        ├── UnexpectedRedirect         3xx, never followed
        ├── ProviderUnreachable        TLS, DNS, proxy
        ├── RateLimited                429                          (retryable)
        ├── ProviderUnavailable        5xx, 529, 409, reset         (retryable)
        ├── ProviderTimeout            408 and time-outs            (retryable)
        └── ResponseInvalid            a 200 that cannot be read    (retryable)

Each is the error of the same meaning in :mod:`treadle.errors` too, so code that catches those catches these.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

import treadle.errors as kernel
from treadle.errors import Phase

if TYPE_CHECKING:
    from treadle_loop.conversations.summaries import ConversationSummary
    from treadle_loop.provider import AttemptRecord

__all__ = [
    "AgentLoopError",
    "AuthError",
    "BadRequestError",
    "BudgetKind",
    "ConfigurationError",
    "ContextLengthExceeded",
    "InsufficientCredits",
    "LoopBudgetExceeded",
    "ModelNotFound",
    "OutputInvalid",
    "ProviderError",
    "ProviderTimeout",
    "ProviderUnavailable",
    "ProviderUnreachable",
    "RateLimited",
    "ResponseInvalid",
    "ToolError",
    "TranscriptError",
    "UnexpectedRedirect",
    "translated",
]

BudgetKind = Literal["iterations", "deadline", "max_tokens"]


class AgentLoopError(kernel.TreadleError):
    """Base of what a conversation raises. ``summary`` is that of the conversation which it ended, or None."""

    summary: ConversationSummary | None = None

    def __init__(self, message: str = "", *, hint: str | None = None, transient: bool | None = None) -> None:
        super().__init__(message, hint=hint, transient=transient)


class TranscriptError(AgentLoopError):
    """The messages of a transcript are in an order that no provider takes."""


class ToolError(AgentLoopError, kernel.ToolError):
    """Raised by a tool that failed; the model is told its text."""


class LoopBudgetExceeded(AgentLoopError):
    """A conversation used up what it had.

    :param kind: of what: ``iterations``, ``deadline`` (seconds) or ``max_tokens``.
    :param limit: how much there was.
    :param actual: how much was used, or would have been needed.
    """

    def __init__(self, message: str = "", *, kind: BudgetKind, limit: float, actual: float) -> None:
        super().__init__(message or f"the conversation's budget of {kind} ({limit:g}) is used up")
        self.kind = kind
        self.limit = limit
        self.actual = actual


class ConfigurationError(AgentLoopError, kernel.ConfigurationError, ValueError):
    """A setting is missing or wrong."""


class OutputInvalid(AgentLoopError, kernel.OutputError):
    """The model gave no answer of the shape that was asked for, however often it was told what is wrong."""


class ProviderError(AgentLoopError, kernel.ProviderError):
    """A model provider failed.

    :param retry_after: seconds after which the server asks to come back.
    :param phase: how far the exchange had come; None where that is not known.
    :param request_sent: whether the request reached the server; None where that is not known.
    :param redirect_host: where a redirect led: the host and nothing else.
    :param attempts: how often it was tried.
    :param attempt_log: one record for each attempt.
    """

    def __init__(
        self,
        message: str = "",
        *,
        provider: str = "",
        status_code: int | None = None,
        retry_after: float | None = None,
        request_id: str | None = None,
        phase: Phase | None = None,
        request_sent: bool | None = None,
        redirect_host: str | None = None,
        attempts: int = 1,
        retry_wait_seconds: float = 0.0,
        attempt_log: tuple[AttemptRecord, ...] = (),
        hint: str | None = None,
        transient: bool | None = None,
    ) -> None:
        kernel.ProviderError.__init__(
            self,
            message,
            provider=provider,
            status_code=status_code,
            retry_after=retry_after,
            request_id=request_id,
            phase=phase,
            request_sent=request_sent,
            hint=hint,
            transient=transient,
        )
        self.redirect_host = redirect_host
        self.attempts = attempts
        self.retry_wait_seconds = retry_wait_seconds
        self.attempt_log = attempt_log

    @property
    def retryable(self) -> bool:
        """Whether it is worth trying again."""
        return self.transient


class AuthError(ProviderError, kernel.AuthenticationError):
    """The key is missing, or was refused."""


class BadRequestError(ProviderError, kernel.BadRequestError):
    """The provider refuses this request."""


class ContextLengthExceeded(BadRequestError, kernel.ContextLengthError):
    """The request is longer than the model's context."""


class ModelNotFound(ProviderError, kernel.ModelNotFoundError):
    """The provider does not know the model."""


class InsufficientCredits(ProviderError, kernel.InsufficientCreditsError):
    """The account is out of money or quota."""


class UnexpectedRedirect(ProviderError, kernel.RedirectError):
    """The provider answered with a redirect."""


class ProviderUnreachable(ProviderError, kernel.UnreachableError):
    """The host name, the certificate or the proxy is wrong."""


class RateLimited(ProviderError, kernel.RateLimitError):
    """Too many requests."""


class ProviderUnavailable(ProviderError, kernel.UnavailableError):
    """The provider is down or overloaded, or the connection dropped."""


class ProviderTimeout(ProviderError, kernel.ProviderTimeoutError):
    """The provider did not answer in time."""


class ResponseInvalid(ProviderError, kernel.ResponseError):
    """The reply cannot be read."""


_NAMES: tuple[tuple[type[kernel.ProviderError], type[ProviderError]], ...] = (
    (kernel.AuthenticationError, AuthError),
    (kernel.ContextLengthError, ContextLengthExceeded),
    (kernel.BadRequestError, BadRequestError),
    (kernel.ModelNotFoundError, ModelNotFound),
    (kernel.InsufficientCreditsError, InsufficientCredits),
    (kernel.RedirectError, UnexpectedRedirect),
    (kernel.UnreachableError, ProviderUnreachable),
    (kernel.RateLimitError, RateLimited),
    (kernel.UnavailableError, ProviderUnavailable),
    (kernel.ProviderTimeoutError, ProviderTimeout),
    (kernel.ResponseError, ResponseInvalid),
)
"""The most specific first."""

# As vendors word it who have no code for it (vLLM, OpenRouter's upstreams, Anthropic).
_TOO_LONG = re.compile(
    r"context[ _-]?(length|window)|maximum context|prompt is too long|too many (input )?tokens", re.IGNORECASE
)


def translated(error: kernel.TreadleError, *, provider: str) -> AgentLoopError:
    """The error under the names of this module, with the same facts; itself where it has one of them."""
    if isinstance(error, AgentLoopError):
        return error
    if isinstance(error, kernel.CredentialError):
        return AuthError(error.message, provider=provider, request_sent=False, hint=error.hint)
    if isinstance(error, kernel.ConfigurationError):
        return ConfigurationError(error.message, hint=error.hint)
    if not isinstance(error, kernel.ProviderError):
        return AgentLoopError(error.message, hint=error.hint, transient=error.transient)
    kind = next((ours for theirs, ours in _NAMES if isinstance(error, theirs)), ProviderError)
    if kind is BadRequestError and _TOO_LONG.search(error.message):
        kind = ContextLengthExceeded
    facts: dict[str, Any] = {
        "provider": error.provider,
        "status_code": error.status_code,
        "retry_after": error.retry_after,
        "request_id": error.request_id,
        "phase": error.phase,
        "request_sent": error.request_sent,
        "hint": error.hint,
        "transient": error.transient,
    }
    if kind is UnexpectedRedirect and (url := re.search(r"https?://\S+", error.message)):
        facts["redirect_host"] = urlsplit(url[0]).hostname
    return kind(error.message, **facts)
