"""What is wrong with a value in the words of messages, for the kinds of errors that pydantic has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["EMPTY", "TYPES", "in_words"]

EMPTY = "must not be empty"

TYPES: Mapping[str, str] = {
    kind: f"must be {what}"
    for what, kinds in {
        "text": "string_type",
        "a whole number": "int_type int_parsing int_from_float",
        "a number": "float_type float_parsing",
        "true or false": "bool_type bool_parsing",
        "a list": "list_type tuple_type",
        "a mapping": "dict_type mapping_type model_type model_attributes_type dataclass_type",
        "a finite number": "finite_number",
    }.items()
    for kind in kinds.split()
}

_BOUNDS = {"greater_than": "more than", "less_than": "less than"}
_BOUNDS |= {"greater_than_equal": "at least", "less_than_equal": "at most"}


def in_words(kind: str, context: Mapping[str, Any]) -> str | None:
    """What must be, in a clause; None for an error that says it itself.

    :param kind: the error's ``type``; ``context`` is its ``ctx``.
    """
    if kind in _BOUNDS:
        bound = next(iter(context.values()), "")
        return f"must be {_BOUNDS[kind]} {int(bound) if isinstance(bound, float) and bound.is_integer() else bound}"
    if kind in ("too_short", "string_too_short") and context.get("min_length") == 1:
        return EMPTY
    return f"must be {context.get('expected', '')}" if kind in ("literal_error", "enum") else TYPES.get(kind)
