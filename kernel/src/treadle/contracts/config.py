"""The ``config:`` block of a workflow, as far as the kernel itself reads it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

__all__ = ["RetrySettings", "RunConfig"]


class RetrySettings(BaseModel):
    """When and how a failed step is tried again.

    The wait before attempt *n* + 1 is what the server asked for, else ``backoff_base ** (n - 1)`` seconds
    up to ``backoff_max``, times 0.75 to 1.25 with jitter.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    max_retries: int | None = Field(default=None, ge=0, description="further attempts; config.max_retries without it")
    backoff_base: float = Field(default=2.0, ge=0, description="base of the exponential wait, in seconds")
    backoff_max: float = Field(default=60.0, ge=0, description="longest wait of our own choosing, in seconds")
    max_wait: float = Field(default=120.0, ge=0, description="longest wait a server may ask for, in seconds")
    jitter: bool = Field(default=True, description="spread the waits by up to a quarter either way")
    retryable_status_codes: tuple[int, ...] | None = Field(
        default=None, description="HTTP statuses worth another attempt; the provider's own table without it"
    )


class RunConfig(BaseModel):
    """How a workflow runs. Plugins add keys through ``treadle_config_fields``."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    provider: str | None = Field(default=None, description="the model provider; the deployment's default without it")
    model: str | None = Field(default=None, description="the model of steps that name none")
    max_retries: int = Field(
        default=3, ge=0, description="further attempts of a failed step that has no retry of its own"
    )
    timeout: float | None = Field(default=None, gt=0, description="most seconds that the run may take")
    budget_usd: float | None = Field(
        default=None,
        ge=0,
        strict=True,
        allow_inf_nan=False,
        description="most that the run may spend on models, in US dollars",
    )
    max_concurrent_steps: int = Field(default=10, ge=1, le=1024, strict=True, description="most steps running at once")
    stream: bool = Field(default=False, description="ask for replies as they are written")
    on_step_failure: Literal["skip_downstream", "continue"] = Field(
        default="skip_downstream", description="what becomes of the steps that depend on a failed one"
    )
    strict_outputs: bool = Field(default=False, description="steps that may run in parallel may not share an output")
    strict_templates: bool = Field(default=False, description="a template that misses a value fails the step")
    sandbox: Mapping[str, Any] | None = Field(
        default=None, description="limits of the tools, read by the sandbox plugin"
    )
