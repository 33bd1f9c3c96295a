"""JSON Schemas as data: which places of a schema hold schemas, what they refer to, and what no server understands.

One table of places for everything that walks a schema, so that a property that is *named* ``title`` or ``items``
is never taken for the keyword (https://json-schema.org/draft/2020-12/json-schema-core#section-10). Nothing here changes
the schema that it is given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

__all__ = ["MAPS_OF_SCHEMAS", "SCHEMAS", "SCHEMA_LISTS", "inside", "pointed_at", "schema_problems", "with_inside"]

MAPS_OF_SCHEMAS = ("properties", "$defs", "definitions", "patternProperties", "dependentSchemas")
"""Keywords whose value maps names, which may be any text, to schemas."""

SCHEMA_LISTS = ("anyOf", "allOf", "oneOf", "prefixItems")
"""Keywords whose value is a list of schemas."""

SCHEMAS = (
    "items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames",
    "unevaluatedItems", "unevaluatedProperties",
)  # fmt: skip
"""Keywords whose value is a schema."""

_TYPES = frozenset({"string", "number", "integer", "boolean", "object", "array", "null"})
_DEEPEST = 100


def inside(schema: Any) -> Iterator[tuple[str, Any]]:
    """The schemas directly inside a schema, each with its place: ``properties.q``, ``anyOf.0``, ``items``."""
    for key, value in schema.items() if isinstance(schema, Mapping) else ():
        if key in MAPS_OF_SCHEMAS and isinstance(value, Mapping):
            yield from ((f"{key}.{name}", each) for name, each in value.items())
        elif (key in SCHEMA_LISTS or key == "items") and isinstance(value, list | tuple):  # items: as older drafts
            yield from ((f"{key}.{position}", each) for position, each in enumerate(value))
        elif key in SCHEMAS:
            yield key, value


def with_inside(schema: Mapping[str, Any], change: Callable[[Any, str], Any]) -> dict[str, Any]:
    """A copy of the schema with ``change(schema, place)`` for each that is directly inside; see :func:`inside`."""
    made = dict(schema)
    for key, value in schema.items():
        if key in MAPS_OF_SCHEMAS and isinstance(value, Mapping):
            made[key] = {name: change(each, f"{key}.{name}") for name, each in value.items()}
        elif (key in SCHEMA_LISTS or key == "items") and isinstance(value, list | tuple):
            made[key] = [change(each, f"{key}.{position}") for position, each in enumerate(value)]
        elif key in SCHEMAS:
            made[key] = change(value, key)
    return made


def pointed_at(root: Mapping[str, Any], reference: str) -> Any:
    """What a reference inside a schema leads to (RFC 6901); None where it leads nowhere or out of the schema."""
    if reference != "#" and not reference.startswith("#/"):
        return None
    found: Any = root
    for step in reference[1:].split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(found, Mapping) and name in found:
            found = found[name]
        elif isinstance(found, list | tuple) and name.isdecimal() and int(name) < len(found):
            found = found[int(name)]
        else:
            return None
    return found


def schema_problems(schema: Any, path: str = "parameters") -> Iterator[str]:
    """What is wrong with the form of a tool's schema, each with its dotted path: ``parameters.properties.q.type: ...``.

    What only some servers do not take is not looked at.
    """
    if not isinstance(schema, Mapping):
        yield f"{path}: a schema is an object, not {schema!r}"
    elif schema.get("type", "object") != "object":
        yield f"{path}.type: a tool's parameters are an object, not {schema['type']!r}"
    else:
        yield from _problems(schema, path, 0)


def _problems(schema: Any, path: str, depth: int) -> Iterator[str]:
    if isinstance(schema, bool):
        return
    if not isinstance(schema, Mapping):
        yield f"{path}: a schema is an object, not {schema!r}"
        return
    if depth > _DEEPEST:
        yield f"{path}: schemas are nested deeper than {_DEEPEST}"
        return
    kinds = schema.get("type", [])
    for kind in kinds if isinstance(kinds, list | tuple) else [kinds]:
        if not isinstance(kind, str) or kind not in _TYPES:
            yield f"{path}.type: there is no type {kind!r}; the types are {', '.join(sorted(_TYPES))}"
    required = schema.get("required", [])
    if not isinstance(required, list | tuple) or not all(isinstance(name, str) for name in required):
        yield f"{path}.required: it is a list of names, not {required!r}"
    if not isinstance(schema.get("enum", []), list | tuple):
        yield f"{path}.enum: it is a list of values, not {schema['enum']!r}"
    for key in ("title", "description", "$ref"):
        if not isinstance(schema.get(key, ""), str):
            yield f"{path}.{key}: it is a text, not {schema[key]!r}"
    for key in MAPS_OF_SCHEMAS:
        named = schema.get(key, {})
        if not isinstance(named, Mapping):
            yield f"{path}.{key}: it maps names to schemas, and is not {named!r}"
            continue
        for name, each in named.items():
            yield from _problems(each, f"{path}.{key}.{name}", depth + 1)
    for key in SCHEMA_LISTS:
        listed = schema.get(key, [])
        if not isinstance(listed, list | tuple):
            yield f"{path}.{key}: it is a list of schemas, not {listed!r}"
            continue
        for position, each in enumerate(listed):
            yield from _problems(each, f"{path}.{key}.{position}", depth + 1)
    for key in SCHEMAS:
        each = schema.get(key, True)
        if key == "items" and isinstance(each, list | tuple):  # tuples, as older drafts wrote them
            for position, item in enumerate(each):
                yield from _problems(item, f"{path}.items.{position}", depth + 1)
        else:
            yield from _problems(each, f"{path}.{key}", depth + 1)
