"""JSON Schemas as the Messages API takes them: for a reply's format, and for a tool's input.

https://platform.claude.com/docs/en/build-with-claude/structured-outputs#json-schema-limitations: every object is
closed, nothing refers to itself, and bounds on numbers, texts and lists are not held to; such a bound is put
into words, for the model to read. Whoever asked for the shape checks the reply against the whole schema.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from treadle.schemas import with_inside
from treadle_http.dialects import SchemaRefused, described, inlined, merged

__all__ = ["format_schema", "input_schema", "input_schema_problem"]

_CHOICES = ("anyOf", "allOf", "oneOf")
_KEPT = frozenset({"type", "enum", "const", "title", "description", "required", "properties", "items", "anyOf"})
_FORMATS = frozenset(
    {"date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"}
)  # fmt: skip
_NO_RULES = frozenset({"$anchor", "$comment", "$id", "$schema", "additionalProperties", "default", "deprecated",
                       "examples", "readOnly", "writeOnly"})  # fmt: skip
_PROPERTY = re.compile(r"[a-zA-Z0-9_.-]{1,64}")


class _CannotSay(Exception):
    """The API's dialect cannot say what the schema says."""


def format_schema(schema: Mapping[str, Any], dropped: list[str] | None = None) -> dict[str, Any] | None:
    """The schema for ``output_config.format``, or None where the dialect cannot say it.

    That is so where an object takes properties of any name, a place takes anything at all, or a definition
    leads back to itself. References are followed, defaults left out. The schema given is not changed.

    :param dropped: takes the place of each keyword that is not held to, such as ``properties.age.minimum``.
    """
    try:
        whole = inlined(schema)
        if "$defs" in whole:
            return None
        return _closed(whole, "", [] if dropped is None else dropped)
    except (_CannotSay, SchemaRefused):
        return None


def _closed(schema: Any, path: str, dropped: list[str]) -> dict[str, Any]:
    while isinstance(schema, Mapping) and isinstance(schema.get("allOf"), list | tuple):
        schema = merged({key: value for key, value in schema.items() if key != "allOf"}, *schema["allOf"])
    if not isinstance(schema, Mapping) or not any(key in schema for key in ("type", "enum", "const", *_CHOICES)):
        raise _CannotSay
    if "oneOf" in schema and "anyOf" not in schema:
        schema = {"anyOf" if key == "oneOf" else key: value for key, value in schema.items()}
    said: dict[str, Any] = {}
    unsaid: dict[str, Any] = {}
    for key, value in schema.items():
        if key in _KEPT or (key == "format" and value in _FORMATS) or (key == "minItems" and value in (0, 1)):
            said[key] = value
        elif key not in _NO_RULES:
            unsaid[key] = value
    if any(isinstance(each, list | Mapping) for each in schema.get("enum", ())):
        raise _CannotSay
    kind = schema.get("type")
    if kind == "object" or "properties" in schema or (isinstance(kind, list) and "object" in kind):
        if schema.get("additionalProperties") or "patternProperties" in schema or "properties" not in schema:
            raise _CannotSay
        said["additionalProperties"] = False
    if (kind == "array" or (isinstance(kind, list) and "array" in kind)) and not isinstance(said.get("items"), Mapping):
        raise _CannotSay
    dropped.extend(f"{path}.{key}".lstrip(".") for key in unsaid)

    def inner(each: Any, place: str) -> Any:
        return False if each is False else _closed(each, f"{path}.{place}".lstrip("."), dropped)

    return with_inside(described(said, unsaid), inner)


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
    for key in _CHOICES:
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
