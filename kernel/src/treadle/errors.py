"""Every error Treadle raises on purpose.

    TreadleError
    ├── DocumentError             a document has problems; carries all of them
    ├── ConfigurationError        a setting is missing or wrong
    │   ├── CredentialError       a key or token that a call needs is not set
    │   ├── NotInstalledError     nothing installed offers what was asked for
    │   └── PluginError           a plugin could not be loaded or breaks the contract
    ├── BudgetExceededError       a model call would cost more than is left
    ├── StepError                 a step cannot do what it says
    │   ├── TemplateError         a template does not parse, or strictly misses a value
    │   ├── ExpressionError       an expression does not parse or cannot be evaluated
    │   ├── StateError            a state path cannot be read or written
    │   ├── OutputError           a reply is not what the step declared
    │   ├── ToolError             a tool failed
    │   └── SandboxError          the sandbox refused
    └── ProviderError             a model provider failed
        ├── AuthenticationError   401, 403
        ├── BadRequestError       400 and other refusals of this request
        │   ├── ContextLengthError
        │   └── UnsupportedError  the provider cannot do it; found before any request
        ├── ModelNotFoundError    404
        ├── InsufficientCreditsError
        ├── RedirectError         3xx, never followed
        ├── UnreachableError      DNS, TLS or proxy
        ├── RateLimitError        429                      (transient)
        ├── UnavailableError      5xx, 529, dropped        (transient)
        ├── ProviderTimeoutError  408 and time-outs        (transient)
        └── ResponseError         an unreadable reply      (transient)

An error knows whether it is transient (worth trying again) or permanent, and may carry a hint:
one clause that says what to do about it. ``str(error)`` is the message, a semicolon and the hint.
"""

from __future__ import annotations

import copyreg
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Literal

from treadle._dataclasses import dataclass

__all__ = [
    "AuthenticationError",
    "BadRequestError",
    "BudgetExceededError",
    "ConfigurationError",
    "ContextLengthError",
    "CredentialError",
    "DocumentError",
    "ExpressionError",
    "InsufficientCreditsError",
    "ModelNotFoundError",
    "NotInstalledError",
    "OutputError",
    "Phase",
    "PluginError",
    "Problem",
    "ProviderError",
    "ProviderTimeoutError",
    "RateLimitError",
    "RedirectError",
    "ResponseError",
    "SandboxError",
    "Severity",
    "StateError",
    "StepError",
    "TemplateError",
    "ToolError",
    "TreadleError",
    "UnavailableError",
    "UnreachableError",
    "UnsupportedError",
]

Severity = Literal["error", "warning"]

Phase = Literal["connect", "tls", "proxy", "send", "read", "status", "redirect", "body"]
"""How far an HTTP exchange had come when it failed."""


class TreadleError(Exception):
    """Base of every error raised on purpose.

    ``transient`` of the class is the default; pass ``transient=`` to override it for one error.
    """

    transient: bool = False
    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, hint: str | None = None, transient: bool | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        if transient is not None:
            self.transient = transient

    def __str__(self) -> str:
        return f"{self.message}; {self.hint}" if self.hint else self.message

    def __reduce__(self) -> tuple[Any, ...]:
        # Exceptions are rebuilt from their positional arguments by default, which ours are not made of.
        return copyreg.__newobj__, (type(self), *self.args), vars(self)  # type: ignore[attr-defined]


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing wrong with a document, and where.

    ``line`` and ``column`` count from 1, in characters, and are None where the document did not come from text.
    ``end_line`` and ``end_column`` are the place behind the last character, None where only the start is known.
    ``path`` is the dotted place in the document (``steps.summarize.model``), empty for the whole.
    ``code`` is one of those on the page docs/errors.md.
    ``fix`` is the text that mends it in place of what stands from start to end; None where none is certain.
    """

    message: str
    code: str
    path: str = ""
    hint: str | None = None
    severity: Severity = "error"
    file: str | None = None
    line: int | None = None
    column: int | None = None
    end_line: int | None = None
    end_column: int | None = None
    fix: str | None = None

    def __str__(self) -> str:
        place = ":".join(str(part) for part in (self.file, self.line, self.column) if part is not None)
        parts = [place, "warning" if self.severity == "warning" else "", self.path, self.message]
        text = ": ".join(part for part in parts if part)
        return f"{text}; {self.hint}" if self.hint else text

    @property
    def position(self) -> tuple[str, int, int]:
        """Sort key: problems are reported in the order of the file."""
        return (self.file or "", self.line or 0, self.column or 0)


class DocumentError(TreadleError):
    """A document cannot be used. ``problems`` holds everything found, each once, sorted by position."""

    exit_code = 2

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems: Sequence[Problem] = sorted(dict.fromkeys(problems), key=lambda problem: problem.position)
        super().__init__("\n".join(str(problem) for problem in self.problems))


class ConfigurationError(TreadleError):
    """A setting is missing or wrong; no run can be started with it."""

    exit_code = 2


class CredentialError(ConfigurationError):
    """A key or token that a call needs is not set. Never holds any part of one."""


class NotInstalledError(ConfigurationError):
    """Nothing installed offers what was asked for; the hint names the package where it is known."""


class PluginError(ConfigurationError):
    """A plugin could not be loaded, or breaks the contract."""


class BudgetExceededError(TreadleError):
    """A model call would cost more than is left of a budget. Permanent: the next attempt would have no more.

    :param budget_usd: the limit, in US dollars; None where whoever raises this cannot say.
    :param spent_usd: what has been spent of it, likewise.
    :param whose: the budget, in words: ``the run``, ``step 'draft'``.
    :param run_id: the run whose budget it is, or whose step's; empty where several runs share it.
    :param step_id: the step whose budget it is; empty where it is the whole run's, which then ends.
    """

    def __init__(
        self,
        message: str,
        *,
        budget_usd: float | None = None,
        spent_usd: float | None = None,
        whose: str = "",
        run_id: str = "",
        step_id: str = "",
        hint: str | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.budget_usd = budget_usd
        self.spent_usd = spent_usd
        self.whose = whose
        self.run_id = run_id
        self.step_id = step_id


class StepError(TreadleError):
    """A step cannot do what its document says."""


class TemplateError(StepError):
    """A template does not parse (found at load), or a strict one misses a value (at run).

    ``offset`` is where in the template it goes wrong, where that is known.
    """

    offset: int | None = None


class ExpressionError(StepError):
    """An expression does not parse (found at load) or cannot be evaluated (at run).

    ``offset`` is where in its first line it goes wrong, where that is known.
    """

    offset: int | None = None


class StateError(StepError):
    """A state path cannot be read or written, or a value cannot be kept in the state."""


class OutputError(StepError):
    """A reply is not of the shape that the step declared."""


class ToolError(StepError):
    """A tool failed. Transient unless told otherwise: the next attempt may succeed."""

    transient = True


class SandboxError(StepError):
    """The sandbox refused. Permanent: it would refuse again. The text contains the word sandbox."""


class ProviderError(TreadleError):
    """A model provider failed.

    :param provider: the provider's name in this run.
    :param status_code: the HTTP status, None where no response was read.
    :param retry_after: seconds after which the server asks to come back, None where it did not say.
    :param request_id: the provider's own id of the request.
    :param phase: how far the exchange had come.
    :param request_sent: whether the request reached the server; None where that is unknown.
    """

    def __init__(
        self,
        message: str,
        *,
        provider: str,
        status_code: int | None = None,
        retry_after: float | None = None,
        request_id: str | None = None,
        phase: Phase | None = None,
        request_sent: bool | None = None,
        hint: str | None = None,
        transient: bool | None = None,
    ) -> None:
        super().__init__(message, hint=hint, transient=transient)
        self.provider = provider
        self.status_code = status_code
        self.retry_after = retry_after
        self.request_id = request_id
        self.phase = phase
        self.request_sent = request_sent


class AuthenticationError(ProviderError):
    """The key was refused (401, 403)."""


class BadRequestError(ProviderError):
    """The provider refuses this request (400, 413, 422); the same one would be refused again."""


class ContextLengthError(BadRequestError):
    """The request is longer than the model's context."""


class UnsupportedError(BadRequestError):
    """The provider or model lacks what the request needs. Raised before any request is sent."""


class ModelNotFoundError(ProviderError):
    """The provider does not know the model (404)."""


class InsufficientCreditsError(ProviderError):
    """The account is out of money or quota (402, or a 429 that says so)."""


class RedirectError(ProviderError):
    """The provider answered with a redirect; none is followed, as a key would travel with it."""


class UnreachableError(ProviderError):
    """The host name, the certificate or the proxy is wrong; waiting does not mend it."""


class RateLimitError(ProviderError):
    """Too many requests (429)."""

    transient = True


class UnavailableError(ProviderError):
    """The provider is down or overloaded, or the connection dropped (409, 5xx, 529)."""

    transient = True


class ProviderTimeoutError(ProviderError):
    """The provider did not answer in time (408, or a time-out of ours)."""

    transient = True


class ResponseError(ProviderError):
    """The reply cannot be read: not JSON, cut off, or of a shape the provider's API does not have."""

    transient = True
