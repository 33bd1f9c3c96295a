"""JSON Schemas as the Messages API takes them: for a reply's format, and for a tool's input.

https://platform.claude.com/docs/en/build-with-claude/structured-outputs#json-schema-limitations: every object is
closed, nothing refers to itself, and bounds on numbers, texts and lists are not held to; such a bound is put
into words, for the model to read. Whoever asked for the shape checks the reply against the whole schema.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

__all__ = ["format_schema", "input_schema", "input_schema_problem"]

_MAPS = ("properties", "$defs", "definitions")
_LISTS = ("anyOf", "allOf", "oneOf")
_KEPT = ("$ref", "type", "enum", "const", "title", "required", "default")
_FORMATS = frozenset(
    {"date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"}
)  # fmt: skip
_LOCAL = re.compile(r"#/(?:\$defs|definitions)/([^/]+)")
_PROPERTY = re.compile(r"[a-zA-Z0-9_.-]{1,64}")


class _CannotSay(Exception):
    """The API's dialect cannot say what the schema says."""


def format_schema(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """The schema for ``output_config.format``, or None where the dialect cannot say it.

    That is so where an object takes properties of any name, a place takes anything at all, or a definition
    leads back to itself. The schema given is not changed.
    """
    try:
        _refuse_loops(schema)
        return _closed(schema)
    except _CannotSay:
        return None


def _closed(schema: Any) -> dict[str, Any]:
    if not isinstance(schema, Mapping) or not any(key in schema for key in ("type", "$ref", "enum", "const", *_LISTS)):
        raise _CannotSay
    said: dict[str, Any] = {}
    unsaid: dict[str, Any] = {}
    for key, value in schema.items():
        if key in _MAPS and isinstance(value, Mapping):
            said[key] = {name: _closed(each) for name, each in value.items()}
        elif key in _LISTS and isinstance(value, list):
            said["anyOf" if key == "oneOf" else key] = [_closed(each) for each in value]
        elif key == "items":
            said[key] = _closed(value)
        elif key in _KEPT or (key == "format" and value in _FORMATS) or (key == "minItems" and value in (0, 1)):
            said[key] = value
        elif key not in ("additionalProperties", "description", "$schema", "$id", "$comment", "examples"):
            unsaid[key] = value
    if any(isinstance(each, list | Mapping) for each in schema.get("enum", ())):
        raise _CannotSay
    kind = schema.get("type")
    if kind == "object" or "properties" in schema or (isinstance(kind, list) and "object" in kind):
        if schema.get("additionalProperties") or "patternProperties" in schema or "properties" not in schema:
            raise _CannotSay
        said["additionalProperties"] = False
    if (kind == "array" or (isinstance(kind, list) and "array" in kind)) and "items" not in schema:
        raise _CannotSay
    words = [text for text in (schema.get("description"),) if isinstance(text, str)]
    if unsaid:
        words.append(json.dumps(unsaid, ensure_ascii=False, default=str))
    if words:
        said["description"] = "\n\n".join(words)
    return said


def _refuse_loops(schema: Mapping[str, Any]) -> None:
    """Refuse references that lead out of the schema, to nowhere, or back to themselves."""
    definitions = {**_mapping(schema.get("definitions")), **_mapping(schema.get("$defs"))}
    leads_to = {name: set(_references(each)) for name, each in definitions.items()}
    pending = list(_references(schema))
    if any(name not in definitions for name in (*pending, *(each for names in leads_to.values() for each in names))):
        raise _CannotSay
    for start in leads_to:
        seen: set[str] = set()
        ahead = list(leads_to[start])
        while ahead:
            name = ahead.pop()
            if name == start:
                raise _CannotSay
            if name not in seen:
                seen.add(name)
                ahead.extend(leads_to[name])


def _references(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        reference = value.get("$ref")
        if isinstance(reference, str):
            found = _LOCAL.fullmatch(reference)
            if found is None:
                raise _CannotSay
            yield found[1]
        for each in value.values():
            yield from _references(each)
    elif isinstance(value, list):
        for each in value:
            yield from _references(each)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


# --- tools ------------------------------------------------------------------------------------------


def input_schema(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """A tool's parameters as the API takes them: ``type`` is required at the root."""
    return {"type": "object", **parameters}


def input_schema_problem(tool: str, parameters: Mapping[str, Any]) -> str | None:
    """What is wrong with a tool's parameters, with the tool and the place in them; None where nothing is."""
    try:
        text = json.dumps(parameters, default=dict)
    except (TypeError, ValueError, RecursionError) as error:
        return f"tool '{tool}': parameters: not JSON ({error})"
    found = _problem(text)
    return None if found is None else f"tool '{tool}': {found}"


@lru_cache(maxsize=256)
def _problem(text: str) -> str | None:
    """The problem of a schema given as JSON: the same tools come with every call of a run."""
    schema = json.loads(text)
    if not isinstance(schema, dict):
        return "parameters: a JSON Schema is a mapping"
    if schema.get("type", "object") != "object":
        return f"parameters.type: Anthropic takes an object, not {json.dumps(schema['type'])}"
    for key in _LISTS:
        if key in schema:
            return f"parameters.{key}: Anthropic takes none at the root of a tool's schema"
    from jsonschema import Draft202012Validator, SchemaError

    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        place = ".".join(("parameters", *(str(part) for part in error.absolute_path)))
        return f"{place}: not a JSON Schema: {error.message}"
    for name in schema.get("properties", {}):
        if not _PROPERTY.fullmatch(name):
            return (
                f"parameters.properties.{name}: Anthropic takes letters, digits, _, . and - in a property's name, "
                "64 characters at most"
            )
    return None
