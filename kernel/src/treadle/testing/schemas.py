"""JSON Schemas of arguments, as far as models and their vendors depend on their form."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["fault_of_schema"]

_TYPES = frozenset({"array", "boolean", "integer", "null", "number", "object", "string"})
_ONE = ("items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames")
_SEVERAL = ("anyOf", "oneOf", "allOf", "prefixItems")
_NAMED = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")


def fault_of_schema(schema: Any) -> str:
    """What is wrong with the schema of a tool's arguments, empty where nothing is."""
    try:
        json.dumps(schema, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        return f"it is not JSON: {error}"
    if not isinstance(schema, Mapping):
        return f"it is {type(schema).__name__}"
    if schema.get("type") != "object":
        return f"its type is {schema.get('type')!r}, not 'object'"
    return _fault(schema, schema, "")


def _fault(schema: Any, root: Mapping[str, Any], place: str) -> str:
    at = place or "the root"
    if isinstance(schema, bool):
        return ""
    if not isinstance(schema, Mapping):
        return f"{at} is {type(schema).__name__}, not a schema"
    kinds = schema.get("type", [])
    for kind in [kinds] if isinstance(kinds, str) else kinds:
        if kind not in _TYPES:
            return f"{at} has the type {kind!r}, which JSON Schema does not know"
    required = schema.get("required", [])
    if not isinstance(required, list | tuple) or not all(isinstance(each, str) for each in required):
        return f"'required' of {at} is no list of names"
    if "properties" in schema and isinstance(schema["properties"], Mapping):
        for name in required:
            if name not in schema["properties"]:
                return f"{at} requires '{name}', which is none of its properties"
    reference = schema.get("$ref")
    if isinstance(reference, str) and reference.startswith("#/") and not _is_there(root, reference[2:].split("/")):
        return f"{at} refers to {reference}, which is not there"
    return _fault_below(schema, root, place)


def _fault_below(schema: Mapping[str, Any], root: Mapping[str, Any], place: str) -> str:
    below: list[tuple[str, Any]] = [(key, schema[key]) for key in _ONE if key in schema]
    for key in _SEVERAL:
        found = schema.get(key, [])
        if not isinstance(found, Sequence) or isinstance(found, str):
            return f"'{key}' of {place or 'the root'} is no list"
        below.extend((f"{key}[{number}]", each) for number, each in enumerate(found))
    for key in _NAMED:
        found = schema.get(key, {})
        if not isinstance(found, Mapping):
            return f"'{key}' of {place or 'the root'} is no mapping"
        below.extend((f"{key}.{name}", each) for name, each in found.items())
    for key, each in below:
        if fault := _fault(each, root, f"{place}.{key}" if place else key):
            return fault
    return ""


def _is_there(root: Any, parts: Sequence[str]) -> bool:
    for part in parts:
        key = part.replace("~1", "/").replace("~0", "~")
        if not isinstance(root, Mapping) or key not in root:
            return False
        root = root[key]
    return True
