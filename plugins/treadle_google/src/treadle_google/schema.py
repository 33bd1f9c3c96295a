"""JSON Schemas in Gemini's dialect: a part of OpenAPI 3.0's.

https://ai.google.dev/api/caching#Schema. What the dialect cannot say is left out, so that a reply of the original
schema's is always one of the dialect's; whoever asked checks the reply against the original.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from treadle.schemas import pointed_at, schema_problems
from treadle_http.dialects import SchemaRefused, merged

__all__ = ["dialect_problems", "gemini_schema"]

_KEPT = ("maxItems", "minItems", "maxLength", "minLength", "maxProperties", "minProperties", "maximum", "minimum",
         "pattern")  # fmt: skip
"""Keywords with the same name and meaning in both."""

_FORMATS: Mapping[str, frozenset[str]] = {
    "STRING": frozenset({"date-time", "enum"}),
    "NUMBER": frozenset({"double", "float"}),
    "INTEGER": frozenset({"int32", "int64"}),
}
"""The API answers 400 to a format that it does not know."""

_OF_KIND: Mapping[str, frozenset[str]] = {
    "STRING": frozenset({"maxLength", "minLength", "pattern"}),
    "NUMBER": frozenset({"maximum", "minimum"}),
    "INTEGER": frozenset({"maximum", "minimum"}),
    "ARRAY": frozenset({"maxItems", "minItems"}),
    "OBJECT": frozenset({"maxProperties", "minProperties"}),
}
_RULES = frozenset(
    {
        *_KEPT, "format", "enum", "const", "not", "if", "then", "else", "exclusiveMinimum", "exclusiveMaximum",
        "multipleOf", "uniqueItems", "contains", "prefixItems", "additionalProperties", "patternProperties",
        "propertyNames", "dependentRequired", "dependentSchemas", "unevaluatedProperties", "unevaluatedItems",
    }
)  # fmt: skip
"""Keywords that hold values to something."""

_HINTS: Sequence[tuple[str, tuple[str, ...]]] = (
    ("object", ("properties", "additionalProperties", "patternProperties", "required", "minProperties")),
    ("array", ("items", "prefixItems", "minItems", "maxItems", "uniqueItems")),
    ("string", ("pattern", "minLength", "maxLength")),
    ("number", ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")),
)
"""What a schema without a type is about, by its keywords."""

_ANYTHING = ("STRING", "NUMBER", "BOOLEAN")
"""The dialect has no schema for any value; these are what models write where anything will do."""

_UNROLLED = 2
"""How often a schema that holds itself is written out before its inside is left open."""

_BY_ALL_OF = "allOf "
_MERGED = 5
"""The same for what is merged in by ``allOf``, which different schemas inside each other may have in common."""

_MOST_SCHEMAS = 3000
_MOST_HOPS = 30


def dialect_problems(schema: Mapping[str, Any], root: str = "parameters") -> Iterator[str]:
    """What is wrong with a tool's parameters, each with its path; nothing where they can be sent."""
    problems = list(schema_problems(schema, root))
    yield from problems
    if not problems:
        try:
            gemini_schema(schema, root)
        except SchemaRefused as error:
            yield str(error)


def gemini_schema(
    schema: Mapping[str, Any], root: str = "parameters", dropped: list[str] | None = None
) -> dict[str, Any]:
    """The schema in the dialect. The one given is not changed.

    :param root: what the whole is called in paths.
    :param dropped: takes the path of each keyword that is not held to, such as ``parameters.properties.q.not``.
    :raises SchemaRefused: a reference leads nowhere, or there is no end to it.
    """
    return _Compiler(schema, [] if dropped is None else dropped).compiled(schema, root, ())


class _Compiler:
    def __init__(self, root: Mapping[str, Any], dropped: list[str]) -> None:
        self._root = root
        self._dropped = dropped
        self._count = 0

    def compiled(self, schema: Any, path: str, within: tuple[str, ...]) -> dict[str, Any]:
        self._count += 1
        if self._count > _MOST_SCHEMAS:
            raise SchemaRefused(f"{path}: written out without references, it has more than {_MOST_SCHEMAS} schemas")
        if not isinstance(schema, Mapping):  # true, or what somebody else has already complained of
            schema = {}
        schema, within = self._dereferenced(schema, path, within)
        schema, by_all_of = self._merged(schema, path, 0)
        within = (*within, *by_all_of)
        if any(within.count(each) > (_MERGED if each.startswith(_BY_ALL_OF) else _UNROLLED) for each in set(within)):
            schema = _opened(schema)
        choices = self._choices(schema)
        if choices is None:
            return self._plain(schema, path, within)
        return self._any_of(schema, choices, path, within)

    # --- references and combinations ---

    def _dereferenced(
        self, schema: Mapping[str, Any], path: str, within: tuple[str, ...]
    ) -> tuple[Mapping[str, Any], tuple[str, ...]]:
        """The schema with what it refers to in its place, and the references that led to it."""
        hops = 0
        while isinstance(reference := schema.get("$ref"), str):
            hops += 1
            target = pointed_at(self._root, reference)
            if not isinstance(target, Mapping | bool):
                raise SchemaRefused(f"{path}.$ref: nothing is at '{reference}'")
            if hops > _MOST_HOPS:
                raise SchemaRefused(f"{path}.$ref: '{reference}' leads back to itself")
            within = (*within, reference)
            schema = merged({key: value for key, value in schema.items() if key != "$ref"}, target)
        return schema, within

    def _merged(self, schema: Mapping[str, Any], path: str, depth: int) -> tuple[Mapping[str, Any], tuple[str, ...]]:
        """The schema with those of its ``allOf`` in it, and the references among them."""
        parts = schema.get("allOf")
        if not isinstance(parts, list | tuple):
            return schema, ()
        if depth > _MOST_HOPS:
            raise SchemaRefused(f"{path}: there is no end to its allOf")
        together = [{key: value for key, value in schema.items() if key != "allOf"}]
        references: list[str] = []
        for position, part in enumerate(parts):
            if not isinstance(part, Mapping):
                continue
            place = f"{path}.allOf.{position}"
            flat, named = self._dereferenced(part, place, ())
            flat, inner = self._merged(flat, place, depth + 1)
            references.extend((*(f"{_BY_ALL_OF}{each}" for each in named), *inner))
            together.append(dict(flat))
        return merged(*together), tuple(dict.fromkeys(references))

    def _choices(self, schema: Mapping[str, Any]) -> list[Any] | None:
        """The alternatives of a schema that has some: by ``anyOf``, ``oneOf`` or several types."""
        for key in ("anyOf", "oneOf"):
            if isinstance(found := schema.get(key), list | tuple) and found:
                return list(found)
        kinds = schema.get("type")
        if isinstance(kinds, list | tuple):
            return [{"type": kind} for kind in kinds]
        return None

    def _any_of(
        self, schema: Mapping[str, Any], choices: list[Any], path: str, within: tuple[str, ...]
    ) -> dict[str, Any]:
        """Alternatives. Beside ``anyOf`` the API takes no other keyword, so all go into each alternative."""
        around = {key: value for key, value in schema.items() if key not in ("anyOf", "oneOf")}
        if isinstance(around.get("type"), list | tuple):
            del around["type"]
        nullable = False
        found: list[dict[str, Any]] = []
        for position, choice in enumerate(choices):
            inner = choice if isinstance(choice, Mapping) else {}
            if inner.get("type") == "null" or ("const" in inner and inner["const"] is None):
                nullable = True
                continue
            one = self.compiled(_around(around, inner), f"{path}.anyOf.{position}", within)
            flat = one["anyOf"] if set(one) == {"anyOf"} else [one]
            found.extend(each for each in flat if each not in found)
        if not found:
            return {"type": "NULL"}
        if nullable:
            found = [{**each, "nullable": True} for each in found]
        return found[0] if len(found) == 1 else {"anyOf": found}

    # --- one schema ---

    def _plain(self, schema: Mapping[str, Any], path: str, within: tuple[str, ...]) -> dict[str, Any]:
        values = _values(schema)
        kind = schema.get("type") or _kind_of(schema, values)
        description = schema.get("description")
        described = {"description": description} if isinstance(description, str) and description else {}
        if kind is None:
            return {"anyOf": [{"type": each, **described} for each in _ANYTHING]}
        kind = str(kind).upper()
        compiled: dict[str, Any] = {"type": kind, **described}
        if schema.get("nullable") is True or (values is not None and None in values):
            compiled["nullable"] = True
        given = schema.get("format")
        if isinstance(given, str) and given in _FORMATS.get(kind, ()):
            compiled["format"] = given
        for key in _KEPT:
            if key in schema and key in _OF_KIND.get(kind, ()):
                compiled[key] = schema[key]
        if values is not None:
            _say_values(compiled, [value for value in values if value is not None])
        if kind == "INTEGER":
            for key, name, more in (("exclusiveMinimum", "minimum", 1), ("exclusiveMaximum", "maximum", -1)):
                if isinstance(bound := schema.get(key), int) and not isinstance(bound, bool):
                    compiled.setdefault(name, bound + more)
        if kind == "OBJECT":
            self._say_properties(compiled, schema, path, within)
        if kind == "ARRAY":
            self._say_items(compiled, schema, path, within)
        self._dropped.extend(f"{path}.{key}" for key in schema if key in _RULES and not _is_said(key, compiled))
        return compiled

    def _say_properties(
        self, compiled: dict[str, Any], schema: Mapping[str, Any], path: str, within: tuple[str, ...]
    ) -> None:
        named = schema.get("properties")
        if not isinstance(named, Mapping) or not named:
            return
        compiled["properties"] = {
            name: self.compiled(each, f"{path}.properties.{name}", within) for name, each in named.items()
        }
        required = [name for name in schema.get("required") or () if name in named]
        if required:
            compiled["required"] = required
        if len(named) > 1:
            compiled["propertyOrdering"] = list(named)  # else the model writes them in the order of the alphabet

    def _say_items(
        self, compiled: dict[str, Any], schema: Mapping[str, Any], path: str, within: tuple[str, ...]
    ) -> None:
        items, first = schema.get("items"), schema.get("prefixItems")
        if isinstance(items, list | tuple):
            first, items = items, schema.get("additionalItems")
        listed: list[Any] = list(first) if isinstance(first, list | tuple) else []
        if listed:  # places cannot be told apart: each may be any of them
            if isinstance(items, Mapping):
                listed.append(items)
            items = {"anyOf": listed}
        compiled["items"] = self.compiled(items, f"{path}.items", within)


def _is_said(key: str, compiled: Mapping[str, Any]) -> bool:
    if key in ("exclusiveMinimum", "exclusiveMaximum"):
        return f"m{key[10:]}" in compiled and compiled["type"] == "INTEGER"
    return (key == "const" and "enum" in compiled) or key in compiled


def _opened(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema without its inside: any value of its kind."""
    kept = {key: schema[key] for key in ("type", "description", "nullable") if key in schema}
    if "type" not in kept and (kind := _kind_of(schema, None)):
        kept["type"] = kind
    return kept


def _around(outer: Mapping[str, Any], inner: Mapping[str, Any]) -> dict[str, Any]:
    """An alternative with what stands around it."""
    both = {**outer, **inner}
    for key in ("properties", "$defs"):
        if isinstance(outer.get(key), Mapping) and isinstance(inner.get(key), Mapping):
            both[key] = {**outer[key], **inner[key]}
    if outer.get("required") and inner.get("required"):
        both["required"] = list(dict.fromkeys([*outer["required"], *inner["required"]]))
    return both


def _values(schema: Mapping[str, Any]) -> list[Any] | None:
    if "const" in schema:
        return [schema["const"]]
    listed = schema.get("enum")
    return list(listed) if isinstance(listed, list | tuple) else None


def _kind_of(schema: Mapping[str, Any], values: list[Any] | None) -> str | None:
    kinds = {_KIND_OF_VALUE.get(type(value)) for value in values or () if value is not None}
    if len(kinds) == 1:
        return kinds.pop()
    return next((kind for kind, keys in _HINTS if any(key in schema for key in keys)), None)


_KIND_OF_VALUE: Mapping[type, str] = {str: "string", bool: "boolean", int: "integer", float: "number"}


def _say_values(compiled: dict[str, Any], values: list[Any]) -> None:
    """The only values. The dialect knows those of strings; others are told in words."""
    if compiled["type"] == "STRING" and values and all(isinstance(value, str) and value for value in values):
        compiled["enum"] = values
        compiled.setdefault("format", "enum")
    elif values:
        said = f"One of: {', '.join(json.dumps(value, ensure_ascii=False, default=str) for value in values)}."
        compiled["description"] = f"{compiled['description']} {said}" if "description" in compiled else said
