"""The shape a reply must have: a JSON Schema (draft 2020-12) and the check against it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from treadle import OutputError
from treadle_loop.replies import json_values

__all__ = ["check_schema", "read_reply"]

_MOST_SHOWN = 800


def check_schema(schema: Mapping[str, Any]) -> None:
    """Refuse what is no JSON Schema, or allows what cannot be held to.

    :raises ValueError: saying where in the schema, and why.
    """
    from jsonschema import Draft202012Validator, SchemaError

    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        place = ".".join(str(part) for part in error.absolute_path)
        raise ValueError(f"not a JSON Schema: {place + ': ' if place else ''}{error.message}") from error
    for place in _open_objects(schema):
        raise ValueError(f"{place}: additionalProperties: true cannot be held to; name the properties")


def _open_objects(schema: Mapping[str, Any]) -> Iterator[str]:
    """Where ``additionalProperties: true`` stands as a keyword, not as the name of a property."""
    pending: list[tuple[str, Any, bool]] = [("schema", schema, True)]
    while pending:
        place, value, is_schema = pending.pop()
        if isinstance(value, Mapping):
            if is_schema and value.get("additionalProperties") is True:
                yield place
            for key, item in value.items():
                names_follow = is_schema and key in ("properties", "$defs", "definitions", "patternProperties")
                if not (is_schema and key in ("const", "enum", "default", "examples")):
                    pending.append((f"{place}.{key}", item, not names_follow))
        elif isinstance(value, list):
            pending.extend((f"{place}.{index}", item, True) for index, item in enumerate(value))


def read_reply(text: str, schema: Mapping[str, Any]) -> Any:
    """The value in the reply that has the shape.

    :raises OutputError: there is no JSON in the reply, or none of it has the shape; the message says what is wrong
        with the likeliest value, field by field.
    """
    from jsonschema import Draft202012Validator

    validator = Draft202012Validator(schema)
    complaint = None
    for value in json_values(text):
        if validator.is_valid(value):
            return value
        complaint = complaint or _complaint(validator, value)
    if complaint is None:
        shown = text.strip()[:200]
        raise OutputError(f"there is no JSON in the reply: {shown!r}" if shown else "the reply is empty")
    raise OutputError(f"the reply does not have the shape asked for: {complaint}")


def _complaint(validator: Any, value: Any) -> str:
    lines = []
    for error in sorted(validator.iter_errors(value), key=lambda each: list(map(str, each.absolute_path))):
        place = ".".join(str(part) for part in error.absolute_path)
        lines.append(f"{place}: {error.message}" if place else error.message)
    text = "; ".join(lines)
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."
