"""What the language knows about the values of a state: JSON values and pydantic instances."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

__all__ = ["SCALARS", "declared_fields", "excerpt", "kind_of", "text_of"]

SCALARS = (str, int, float, type(None))
"""The types of a value without parts; bool is an int."""


_KINDS: Mapping[Any, str] = {
    str: "text",
    bool: "true or false",
    (int, float): "a number",
    Mapping: "a mapping",
    (list, tuple): "a list",
}


def declared_fields(value: object) -> Mapping[str, Any] | None:
    """The declared fields of a pydantic instance; None for any other value."""
    kind = type(value)
    fields = getattr(kind, "__pydantic_fields__", None)
    if fields is None:
        fields = getattr(kind, "model_fields", None)  # pydantic before 2.10
    return fields if isinstance(fields, dict) and hasattr(kind, "model_dump") else None


def kind_of(value: object) -> str:
    """What kind of value it is, in the words of an error text."""
    for types, words in _KINDS.items():
        if isinstance(value, types):
            return words
    kind = type(value).__name__
    return "None" if value is None else f"an instance of {kind}" if declared_fields(value) is not None else f"a {kind}"


def text_of(value: object) -> str:
    """The text that a value has in a template: text as it is, a scalar by str(), else JSON.

    Raises ValueError, TypeError or RecursionError for a value that JSON cannot write: one that
    contains itself, has keys that are not scalars, or is nested too deeply.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, (dict, list, tuple, Mapping)) or declared_fields(value) is not None:
        return json.dumps(value, ensure_ascii=False, default=_json_value)
    return str(value)


def _json_value(value: Any) -> Any:
    if declared_fields(value) is not None:
        return value.model_dump(mode="json")
    if isinstance(value, Mapping):
        return dict(value)
    return str(value)


def excerpt(text: str, limit: int = 60) -> str:
    """Text in quotes for an error message: on one line, printable, and not long."""
    return repr(text if len(text) <= limit else text[: limit - 1] + "…")
