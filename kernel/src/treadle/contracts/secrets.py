"""References to secrets. A document or setting holds the reference, never the secret."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from treadle.errors import CredentialError

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
    from pydantic_core import CoreSchema

__all__ = ["SecretRef", "revealed_secrets"]

_REVEALED: dict[str, None] = {}


def revealed_secrets() -> Mapping[str, None]:
    """Every secret that a reference has led to in this process; :mod:`treadle.redaction` keeps them out of what is
    told. It only grows: a key that has been changed since is still one."""
    return _REVEALED


class SecretRef:
    """Where a secret is to be had: ``env:NAME`` or ``file:PATH``.

    The secret is read when it is needed and is not kept here, so no repr, log or dump can show it. What has been
    read is kept out of results, events and records; see :func:`revealed_secrets`.
    """

    __slots__ = ("reference",)

    def __init__(self, reference: str) -> None:
        """:raises ValueError: where the text is no reference; the text itself is not repeated, as it may be a key."""
        scheme, separator, rest = reference.partition(":")
        if not separator or scheme not in ("env", "file") or not rest:
            raise ValueError("a secret is given by reference, as env:NAME or file:PATH, never as itself")
        self.reference = reference

    def reveal(self) -> str:
        """The secret, without surrounding white space.

        :raises CredentialError: where the variable or file is missing or empty.
        """
        scheme, _, rest = self.reference.partition(":")
        if scheme == "env":
            value = os.environ.get(rest, "").strip()
            if not value:
                raise CredentialError(f"the environment variable {rest} is not set", hint=f"export {rest}=...")
            _REVEALED[value] = None
            return value
        try:
            value = Path(rest).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise CredentialError(f"the key file {rest} cannot be read: {error}") from error
        if not value:
            raise CredentialError(f"the key file {rest} is empty")
        _REVEALED[value] = None
        return value

    def is_set(self) -> bool:
        """Whether :meth:`reveal` would give something."""
        try:
            return bool(self.reveal())
        except CredentialError:
            return False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SecretRef) and other.reference == self.reference

    def __hash__(self) -> int:
        return hash(self.reference)

    def __repr__(self) -> str:
        return f"SecretRef({self.reference!r})"

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        from pydantic_core import core_schema

        from_text = core_schema.no_info_after_validator_function(cls, core_schema.str_schema())
        return core_schema.json_or_python_schema(
            json_schema=from_text,
            python_schema=core_schema.no_info_wrap_validator_function(
                lambda value, read: value if isinstance(value, cls) else read(value), from_text
            ),
            serialization=core_schema.plain_serializer_function_ser_schema(lambda ref: ref.reference),
        )

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        note = "A reference, env:NAME or file:PATH, never the secret itself"
        return {"type": "string", "pattern": "^(env|file):.", "$comment": note}
