"""Arguments that a model wrote, against the JSON Schema of the tool that they are for."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from treadle.contracts.tool import canonical_arguments
from treadle_loop.fitting import fitted, validator_for, what_is_wrong

__all__ = ["ArgumentCheck", "canonical", "echo"]

_MOST_SCHEMA = 4000
_MOST_ECHO = 300


class ArgumentCheck:
    """Checks the arguments of one tool. Built once for a turn: the schema is compiled on the first call.

    A schema that is none, which providers refuse with the tool's name, lets everything through.
    """

    def __init__(self, tool_name: str, schema: Mapping[str, Any]) -> None:
        self._name = tool_name
        self._schema = schema
        self._validator: Any = None

    def __call__(self, arguments: Mapping[str, Any]) -> tuple[Mapping[str, Any], str | None]:
        """The arguments as the tool takes them, and what is wrong with them, or None.

        A text that is a number is a number where one is wanted, and so on for the other scalars; null for an optional
        argument that cannot be null counts as not given. Arguments that fit as they are come back untouched.
        """
        if self._validator is None:
            self._validator = validator_for(self._schema)
        validator = self._validator
        if validator.is_valid(arguments):
            return arguments, None
        mended = fitted(arguments, self._schema, scalars=True)
        if validator.is_valid(mended):
            return mended, None
        return arguments, (
            f"the arguments do not fit the parameters of '{self._name}': {what_is_wrong(validator, mended)}; "
            f"{self.remedy()}"
        )

    def remedy(self) -> str:
        """What the model is told to do: the schema, and to call again."""
        text = json.dumps(self._schema, ensure_ascii=False)
        if len(text) > _MOST_SCHEMA:
            text = f"{text[:_MOST_SCHEMA]}... (cut)"
        return f"call it again with arguments that fit this JSON Schema: {text}"


def echo(raw: str | None) -> str:
    """The beginning of what the model wrote: a long text would come back to it in every later request."""
    raw = raw or ""
    return raw if len(raw) <= _MOST_ECHO else f"{raw[:_MOST_ECHO]}... ({len(raw)} characters)"


def canonical(arguments: Mapping[str, Any] | None, raw: str | None = None) -> str:
    """The same text for the same arguments, whatever the order of their keys; raw text where they are none."""
    return raw or "" if arguments is None else canonical_arguments(arguments)
