"""The block ``config.sandbox``, and what a child's block may do within its parent's."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    ValidationInfo,
    model_validator,
)

__all__ = ["LIMIT", "PolicyBlock", "combined"]

LIMIT = 64 * 1024 * 1024
"""Most bytes of a reply's body, and of a command's output, unless a block says otherwise."""


def _no_limit(value: Any) -> Any:
    return None if value == "none" else value


_Bytes = Annotated[int | None, BeforeValidator(_no_limit)]
_Directory = Annotated[str, Field(min_length=1)]


class PolicyBlock(BaseModel):
    """Limits of what tools, attachments and webhooks may run, read, write and reach."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    enabled: bool = Field(default=False, description="turns the checks on")
    allowed_commands: tuple[str, ...] = Field(default=(), description="programs that commands may run, by name")
    allowed_paths: tuple[_Directory, ...] = Field(default=(), description="directories that may be read and written")
    readable_paths: tuple[_Directory, ...] = Field(default=(), description="more directories to read from")
    writable_paths: tuple[_Directory, ...] = Field(default=(), description="more directories to write to")
    allow_network: bool = Field(default=True, description="false refuses every request")
    allowed_domains: tuple[str, ...] = Field(
        default=(), description="hosts that may be reached; any without it, but internal ones"
    )
    allowed_schemes: tuple[str, ...] = Field(default=("http", "https"), description="URL schemes that may be used")
    max_write_bytes: _Bytes = Field(default=None, ge=0, description="largest file that may be written, in bytes")
    danger_opt_in: tuple[str, ...] = Field(
        default=(), description="interpreters and launchers that allowed_commands may include"
    )
    allow_internal_webhook_targets: bool = Field(default=False, description="lets webhooks reach internal addresses")
    deny_internal_hosts: bool = Field(
        default=False, description="refuses internal addresses even where allowed_domains lists them"
    )
    max_body_bytes: _Bytes = Field(
        default=LIMIT, ge=0, description="largest reply to a request, in bytes; none for no limit; also while disabled"
    )
    max_output_bytes: _Bytes = Field(
        default=LIMIT, ge=0, description="most output of a command, in bytes; none for no limit; also while disabled"
    )

    _secret_variables: Callable[[], frozenset[str]] | None = PrivateAttr(default=None)

    @model_validator(mode="after")
    def _takes_note_of_secrets(self, info: ValidationInfo) -> Self:
        if isinstance(info.context, dict):
            self._secret_variables = info.context.get("secret_variables")
        return self

    def secret_variables(self) -> frozenset[str]:
        """Environment variables that the deployment reads keys from. May import providers."""
        return self._secret_variables() if self._secret_variables is not None else frozenset()


def combined(parent: PolicyBlock, child: PolicyBlock) -> PolicyBlock:
    """What both blocks allow, where both are enabled; else the enabled one, and the child's where neither is.

    The limits of replies and outputs hold while a block is disabled too, so of two that are set the smaller one does,
    and one that is not set is the other's. Directories are resolved here, from the working directory.
    """
    if parent.model_dump() == child.model_dump():
        return child
    limits = {name: value for name in ("max_body_bytes", "max_output_bytes") for value in _limit(parent, child, name)}
    if not (parent.enabled and child.enabled):
        chosen = parent if parent.enabled else child
        return chosen.model_copy(update=limits) if limits else chosen
    domains, schemes = (
        _common(_folded(getattr(parent, name)), _folded(getattr(child, name)))
        for name in ("allowed_domains", "allowed_schemes")
    )
    sizes = [block.max_write_bytes for block in (parent, child) if block.max_write_bytes is not None]
    return child.model_copy(
        update={
            "allowed_commands": _both(parent.allowed_commands, child.allowed_commands),
            "danger_opt_in": _both(parent.danger_opt_in, child.danger_opt_in),
            "allowed_paths": (),
            "readable_paths": _nested(_readable(parent), _readable(child)),
            "writable_paths": _nested(_writable(parent), _writable(child)),
            "allow_network": parent.allow_network
            and child.allow_network
            and domains is not None
            and schemes is not None,
            "allowed_domains": domains or (),
            "allowed_schemes": schemes or (),
            "max_write_bytes": min(sizes, default=None),
            "allow_internal_webhook_targets": parent.allow_internal_webhook_targets
            and child.allow_internal_webhook_targets,
            "deny_internal_hosts": parent.deny_internal_hosts
            or child.deny_internal_hosts
            or bool(child.allowed_domains and not parent.allowed_domains),
            **limits,
        }
    )


def _limit(parent: PolicyBlock, child: PolicyBlock, name: str) -> Iterable[int | None]:
    """The limit, if either block sets it."""
    given = [getattr(block, name) for block in (parent, child) if name in block.model_fields_set]
    if given:
        yield min((value for value in given if value is not None), default=None)


def _both(first: Iterable[str], second: Iterable[str]) -> tuple[str, ...]:
    known = set(second)
    return tuple(each for each in dict.fromkeys(first) if each in known)


def _folded(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(name.lower() for name in names)


def _common(first: tuple[str, ...], second: tuple[str, ...]) -> tuple[str, ...] | None:
    """What both lists have, the other where one is empty, None where they have nothing in common."""
    if not first or not second:
        return first or second
    return _both(first, second) or None


def _readable(block: PolicyBlock) -> tuple[str, ...]:
    return (*block.allowed_paths, *block.readable_paths)


def _writable(block: PolicyBlock) -> tuple[str, ...]:
    return (*block.allowed_paths, *block.writable_paths)


def _nested(first: Iterable[str], second: Iterable[str]) -> tuple[str, ...]:
    """The deeper one of each two directories of which one is in the other."""
    found: list[str] = []
    others = [Path(os.path.realpath(each)) for each in second]
    for each in map(Path, map(os.path.realpath, first)):
        for other in others:
            if each.is_relative_to(other):
                found.append(str(each))
            elif other.is_relative_to(each):
                found.append(str(other))
    return tuple(dict.fromkeys(found))
