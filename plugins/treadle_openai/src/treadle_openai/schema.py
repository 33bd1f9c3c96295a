"""JSON Schemas for OpenAI: checked before a request, and closed for its strict mode.

https://platform.openai.com/docs/guides/structured-outputs#supported-schemas
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["schema_problems", "strict_schema"]

_SCHEMA_MAPS = ("properties", "$defs", "definitions", "patternProperties")
_SCHEMA_LISTS = ("anyOf", "allOf", "oneOf", "prefixItems")
_SCHEMAS = ("items", "not", "if", "then", "else", "contains", "additionalProperties", "propertyNames")
_TYPES = frozenset({"array", "boolean", "integer", "null", "number", "object", "string"})
_NOT_AT_ROOT = ("anyOf", "allOf", "oneOf", "enum", "not")


# --- checked ----------------------------------------------------------------------------------------


def schema_problems(schema: Any, *, is_openai: bool) -> Iterator[str]:
    """What is wrong with a tool's schema, as ``path: what``; a server's own refusal may name neither.

    Keywords are told from names of properties by where they stand.

    :param is_openai: OpenAI's own rules count too: an object at the root, without alternatives; ``items`` in arrays.
    """
    if not isinstance(schema, Mapping):
        yield f"parameters: a schema is an object, not {_kind(schema)}"
        return
    if not schema:
        return  # no parameters
    if is_openai and schema.get("type") != "object":
        yield f"parameters.type: must be 'object', not {_shown(schema.get('type'))}"
    if is_openai:
        yield from (f"parameters.{key}: OpenAI takes none at the root" for key in _NOT_AT_ROOT if key in schema)
    yield from _problems(schema, "parameters", schema, is_openai)


def _problems(schema: Any, path: str, root: Mapping[str, Any], is_openai: bool) -> Iterator[str]:
    if isinstance(schema, bool):
        return
    if not isinstance(schema, Mapping):
        yield f"{path}: a schema is an object, not {_kind(schema)}"
        return
    yield from _own_problems(schema, path, root, is_openai)
    for key in _SCHEMA_MAPS:
        if key in schema:
            if not isinstance(schema[key], Mapping):
                yield f"{path}.{key}: is an object of schemas, not {_kind(schema[key])}"
                continue
            for name, each in schema[key].items():
                yield from _problems(each, f"{path}.{key}.{name}", root, is_openai)
    for key in _SCHEMA_LISTS:
        if key in schema:
            if not isinstance(schema[key], list | tuple) or not schema[key]:
                yield f"{path}.{key}: is a list of schemas, not {_kind(schema[key])}"
                continue
            for index, each in enumerate(schema[key]):
                yield from _problems(each, f"{path}.{key}[{index}]", root, is_openai)
    for key in _SCHEMAS:
        if key in schema:
            yield from _problems(schema[key], f"{path}.{key}", root, is_openai)


def _own_problems(schema: Mapping[str, Any], path: str, root: Mapping[str, Any], is_openai: bool) -> Iterator[str]:
    kinds = schema.get("type", [])
    for kind in kinds if isinstance(kinds, list | tuple) else [kinds]:
        if not isinstance(kind, str) or kind not in _TYPES:
            yield f"{path}.type: {_shown(kind)} is no type of JSON Schema"
    if is_openai and kinds == "array" and "items" not in schema and "prefixItems" not in schema:
        yield f"{path}.items: is missing; OpenAI wants it in every array"
    required = schema.get("required", [])
    if not isinstance(required, list | tuple) or not all(isinstance(each, str) for each in required):
        yield f"{path}.required: is a list of names, not {_shown(required)}"
    choices = schema.get("enum", [None])
    if not isinstance(choices, list | tuple) or not choices:
        yield f"{path}.enum: is a list of at least one value, not {_shown(choices)}"
    reference = schema.get("$ref", "#")
    if not isinstance(reference, str) or not _resolves(reference, root, is_openai):
        yield f"{path}.$ref: {_shown(reference)} leads nowhere in this schema"
    for key in ("enum", "const", "default", "examples"):
        if key in schema and not _is_json(schema[key]):
            yield f"{path}.{key}: holds what JSON cannot say"


def _resolves(reference: str, root: Mapping[str, Any], is_openai: bool) -> bool:
    if reference != "#" and not reference.startswith("#/"):
        return not is_openai  # an anchor or another document, which some servers may know
    found: Any = root
    for step in filter(None, reference[1:].split("/")):
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(found, list | tuple) and name.isdigit() and int(name) < len(found):
            found = found[int(name)]
        elif isinstance(found, Mapping) and name in found:
            found = found[name]
        else:
            return False
    return True


def _is_json(value: Any) -> bool:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        return False
    return True


def _kind(value: Any) -> str:
    return "nothing" if value is None or value in ([], ()) else f"a {type(value).__name__}"


def _shown(value: Any) -> str:
    return "missing" if value is None else repr(value)[:60]


# --- closed -----------------------------------------------------------------------------------------


def strict_schema(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """The schema closed for strict mode (every object closed, every property required), or None where strict mode
    cannot say what it says.

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
        if key in closed and key != "additionalProperties":
            closed[key] = _closed(closed[key])
    if closed.get("type") == "object" or "properties" in closed:
        if closed.get("additionalProperties") or "patternProperties" in closed or "properties" not in closed:
            raise _NotStrict
        closed["additionalProperties"] = False
        closed["required"] = list(closed["properties"])
    return closed
