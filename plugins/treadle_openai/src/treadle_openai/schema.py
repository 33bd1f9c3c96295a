"""JSON Schemas in the form that OpenAI's strict mode asks for.

https://platform.openai.com/docs/guides/structured-outputs#supported-schemas: every object closed
(``additionalProperties: false``) and every property required; the root is an object.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["strict_schema"]

_SCHEMA_MAPS = ("properties", "$defs", "definitions", "patternProperties")
_SCHEMA_LISTS = ("anyOf", "allOf", "oneOf", "prefixItems")
_SCHEMAS = ("items", "not", "if", "then", "else", "contains")


def strict_schema(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """The schema closed for strict mode, or None where strict mode cannot say what it says.

    That is so where the root is not an object, or an object takes properties of any name. The schema given is
    not changed.
    """
    if schema.get("type") != "object" and "properties" not in schema:
        return None
    try:
        closed: dict[str, Any] = _closed(schema)
    except _NotStrict:
        return None
    return closed


class _NotStrict(Exception):
    """The schema has an object of open form."""


def _closed(schema: Any) -> Any:
    if not isinstance(schema, Mapping):
        return schema
    closed = dict(schema)
    for key in _SCHEMA_MAPS:
        if isinstance(closed.get(key), Mapping):
            closed[key] = {name: _closed(each) for name, each in closed[key].items()}
    for key in _SCHEMA_LISTS:
        if isinstance(closed.get(key), list):
            closed[key] = [_closed(each) for each in closed[key]]
    for key in _SCHEMAS:
        if key in closed:
            closed[key] = _closed(closed[key])
    if closed.get("type") == "object" or "properties" in closed:
        if closed.get("additionalProperties") or "patternProperties" in closed or "properties" not in closed:
            raise _NotStrict
        closed["additionalProperties"] = False
        closed["required"] = list(closed["properties"])
    return closed
