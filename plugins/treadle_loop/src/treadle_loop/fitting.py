"""Values against JSON Schemas: what is wrong, and what can be mended without guessing."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping
from typing import Any

from treadle.schemas import pointed_at

__all__ = ["fitted", "validator_for", "what_is_wrong"]

_MOST_SHOWN = 800
_INTEGER = re.compile(r"[+-]?\d{1,18}")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_DEEPEST = 64
"""Of references followed and values entered; what lies deeper stays as it is."""


def validator_for(schema: Mapping[str, Any]) -> Any:
    """A compiled check (draft 2020-12) with ``is_valid`` and ``iter_errors``; what is no schema lets all pass."""
    from jsonschema import Draft202012Validator, SchemaError

    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError:
        return Draft202012Validator({})
    return Draft202012Validator(schema)


def what_is_wrong(validator: Any, value: Any) -> str:
    """Every error, by place, cut at 800 characters."""
    lines = []
    for error in sorted(validator.iter_errors(value), key=lambda each: list(map(str, each.absolute_path))):
        place = ".".join(str(part) for part in error.absolute_path)
        lines.append(f"{place}: {error.message}" if place else error.message)
    text = "; ".join(lines)
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."


def fitted(value: Any, schema: Mapping[str, Any], *, scalars: bool = False, defaults: bool = False) -> Any:
    """The value with what models get wrong by habit put right; the value given is not changed.

    A null for an optional property that cannot be null is left out, as strict modes make models send it.

    :param scalars: read a text as the number or boolean that is wanted, and a number or boolean as the text.
    :param defaults: fill in the default of a property that is not there.
    """
    return _Fitting(schema, scalars, defaults).fit(value, schema, 0)


class _Fitting:
    def __init__(self, root: Mapping[str, Any], scalars: bool, defaults: bool) -> None:
        self._root = root
        self._scalars = scalars
        self._defaults = defaults

    def fit(self, value: Any, schema: Any, depth: int) -> Any:
        schema = self._resolved(schema)
        if depth > _DEEPEST or not isinstance(schema, Mapping):
            return value
        if isinstance(value, Mapping):
            return self._object(value, schema, depth)
        if isinstance(value, list):
            return self._array(value, schema, depth)
        if self._scalars and value is not None:
            return _scalar(value, self._types(schema))
        return value

    def _object(self, value: Mapping[str, Any], schema: Mapping[str, Any], depth: int) -> dict[str, Any]:
        properties = dict(self._properties(schema, value))
        required = {name for part in self._parts(schema, value) for name in part.get("required", ())}
        made: dict[str, Any] = {}
        for name, item in value.items():
            if name in properties:
                if item is None and name not in required and not self._takes_null(properties[name]):
                    continue
                made[name] = self.fit(item, properties[name], depth + 1)
            else:
                made[name] = self.fit(item, schema.get("additionalProperties"), depth + 1)
        if self._defaults:
            for name, each in properties.items():
                each = self._resolved(each)
                if name not in made and isinstance(each, Mapping) and "default" in each:
                    made[name] = copy.deepcopy(each["default"])
        return made

    def _array(self, value: list[Any], schema: Mapping[str, Any], depth: int) -> list[Any]:
        parts = self._parts(schema, value)
        firsts: list[Any] = next(
            (part["prefixItems"] for part in parts if isinstance(part.get("prefixItems"), list)), []
        )
        rest = next((part["items"] for part in parts if "items" in part), None)
        return [
            self.fit(item, firsts[index] if index < len(firsts) else rest, depth + 1)
            for index, item in enumerate(value)
        ]

    def _properties(self, schema: Mapping[str, Any], value: Any) -> Iterator[tuple[str, Any]]:
        for part in self._parts(schema, value):
            properties = part.get("properties")
            if isinstance(properties, Mapping):
                yield from properties.items()

    def _parts(self, schema: Mapping[str, Any], value: Any) -> list[Mapping[str, Any]]:
        """The schema and all that hold beside it: allOf, and of a choice the branch that the value could be of."""
        parts: list[Mapping[str, Any]] = []
        pending: list[tuple[Any, int]] = [(schema, 0)]
        while pending:
            part, depth = pending.pop(0)
            part = self._resolved(part)
            if not isinstance(part, Mapping) or depth > _DEEPEST:
                continue
            parts.append(part)
            if isinstance(part.get("allOf"), list):
                pending += [(each, depth + 1) for each in part["allOf"]]
            for key in ("anyOf", "oneOf"):
                if isinstance(part.get(key), list):
                    kind = "object" if isinstance(value, Mapping) else "array"
                    fitting = [each for each in part[key] if kind in self._types(each)]
                    if len(fitting) > 1:
                        fitting = [each for each in fitting if self._could_be(each, value)][:1]
                    pending += [(each, depth + 1) for each in fitting]
        return parts

    def _could_be(self, schema: Any, value: Any) -> bool:
        """Whether an object has the properties of a branch, and those that tell branches apart their values."""
        schema = self._resolved(schema)
        if not isinstance(value, Mapping):
            return True
        known = {name: self._resolved(each) for name, each in (schema.get("properties") or {}).items()}
        if not all(name in value for name in schema.get("required", ())) or not value.keys() <= known.keys():
            return False
        return all(
            value[name] in (each["enum"] if "enum" in each else [each["const"]])
            for name, each in known.items()
            if name in value and isinstance(each, Mapping) and ("enum" in each or "const" in each)
        )

    def _types(self, schema: Any, depth: int = 0) -> frozenset[str]:
        """The types that a schema names, those of its parts and branches included; empty where it names none."""
        schema = self._resolved(schema)
        if not isinstance(schema, Mapping) or depth > _DEEPEST:
            return frozenset()
        named = schema.get("type")
        if isinstance(named, str):
            return frozenset((named,))
        if isinstance(named, list):
            return frozenset(each for each in named if isinstance(each, str))
        if "properties" in schema:
            return frozenset(("object",))
        parts = [each for key in ("anyOf", "oneOf", "allOf") for each in schema.get(key) or ()]
        return frozenset().union(*(self._types(each, depth + 1) for each in parts))

    def _takes_null(self, schema: Any, depth: int = 0) -> bool:
        schema = self._resolved(schema)
        if not isinstance(schema, Mapping) or depth > _DEEPEST:
            return schema is not False
        kinds = schema.get("type")
        if kinds is not None and "null" not in ((kinds,) if isinstance(kinds, str) else kinds):
            return False
        if None not in schema.get("enum", (None,)) or schema.get("const") is not None:
            return False
        choices = [schema[key] for key in ("anyOf", "oneOf") if isinstance(schema.get(key), list)]
        return all(self._takes_null(each, depth + 1) for each in schema.get("allOf", ())) and all(
            any(self._takes_null(each, depth + 1) for each in listed) for listed in choices
        )

    def _resolved(self, schema: Any) -> Any:
        """Behind ``$ref``, where that points into this schema."""
        for _ in range(_DEEPEST):
            if not isinstance(schema, Mapping) or not isinstance(schema.get("$ref"), str):
                return schema
            found = pointed_at(self._root, schema["$ref"])
            if found is None:
                return schema
            schema = found
        return schema


def _scalar(value: Any, types: frozenset[str]) -> Any:
    if isinstance(value, str) and "string" not in types:
        text = value.strip()
        if "integer" in types and _INTEGER.fullmatch(text):
            return int(text)
        if "number" in types and _NUMBER.fullmatch(text):
            return float(text) if not _INTEGER.fullmatch(text) else int(text)
        if "boolean" in types and text.lower() in ("true", "false"):
            return text.lower() == "true"
    elif isinstance(value, bool):
        if types == {"string"}:
            return "true" if value else "false"
    elif isinstance(value, int | float):
        if types == {"string"}:
            return str(value)
        if isinstance(value, float) and "integer" in types and "number" not in types and value.is_integer():
            return int(value)
    return value
