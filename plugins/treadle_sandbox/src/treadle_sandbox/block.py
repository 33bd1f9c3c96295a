"""The block ``config.sandbox``."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, field_validator

__all__ = ["PolicyBlock"]


class PolicyBlock(BaseModel):
    """Limits of what tools may run, read, write and reach.

    This version enforces none of them, so it refuses a block that asks for enforcement.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    enabled: bool = Field(default=False, description="turns the checks on")
    allowed_commands: tuple[str, ...] = Field(default=(), description="programs that commands may run, by name")
    allowed_paths: tuple[str, ...] = Field(default=(), description="directories that may be read and written")
    readable_paths: tuple[str, ...] = Field(default=(), description="more directories to read from")
    writable_paths: tuple[str, ...] = Field(default=(), description="more directories to write to")
    allow_network: bool = Field(default=True, description="false refuses every request")
    allowed_domains: tuple[str, ...] = Field(default=(), description="hosts that may be reached; any without it")
    allowed_schemes: tuple[str, ...] = Field(default=("http", "https"), description="URL schemes that may be used")
    max_write_bytes: int | None = Field(default=None, ge=0, description="largest file that may be written, in bytes")
    danger_opt_in: tuple[str, ...] = Field(
        default=(), description="interpreters and launchers that allowed_commands may include"
    )
    allow_internal_webhook_targets: bool = Field(default=False, description="lets webhooks reach internal addresses")
    deny_internal_hosts: bool = Field(
        default=False, description="refuses internal addresses even where allowed_domains lists them"
    )

    @field_validator("enabled")
    @classmethod
    def _never_ignored(cls, value: bool) -> bool:
        if value:
            raise ValueError(
                "sandbox.enabled: true is not enforced by treadle-sandbox 0.1 yet, and running unprotected instead "
                "would be worse; set it to false to let tools run with the access of this process, or run Treadle "
                "itself in a container that has only what the workflow may touch"
            )
        return value
