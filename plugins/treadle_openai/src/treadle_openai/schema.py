"""JSON Schemas for OpenAI: checked before a request, and compiled for its strict mode.

https://platform.openai.com/docs/guides/structured-outputs#supported-schemas
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from treadle.schemas import MAPS_OF_SCHEMAS, SCHEMA_LISTS, inside, pointed_at, with_inside
from treadle_http.dialects import SchemaRefused, described, inlined, merged

__all__ = ["schema_problems", "strict_schema"]

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
    for key in MAPS_OF_SCHEMAS:
        if key in schema and not isinstance(schema[key], Mapping):
            yield f"{path}.{key}: is an object of schemas, not {_kind(schema[key])}"
    for key in SCHEMA_LISTS:
        if key in schema and (not isinstance(schema[key], list | tuple) or not schema[key]):
            yield f"{path}.{key}: is a list of schemas, not {_kind(schema[key])}"
    for place, each in inside(schema):
        yield from _problems(each, f"{path}.{place}", root, is_openai)


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
    return pointed_at(root, reference) is not None


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


# --- compiled ---------------------------------------------------------------------------------------

_SAID = frozenset(
    {
        "$ref", "additionalProperties", "anyOf", "const", "description", "enum", "exclusiveMaximum", "exclusiveMinimum",
        "items", "maxItems", "maximum", "minItems", "minimum", "multipleOf", "pattern", "properties", "required",
        "title", "type",
    }
)  # fmt: skip
_FORMATS = frozenset({"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"})
_NO_RULES = frozenset({"$anchor", "$comment", "$defs", "$id", "$schema", "default", "deprecated", "examples",
                       "readOnly", "writeOnly"})  # fmt: skip
_DEEPEST = 10
_MOST_PROPERTIES = 5000
_MOST_CHOICES = 1000
"""The guide's limits, the choices over the whole schema."""


class _NotStrict(Exception):
    """Strict mode cannot say what the schema says."""


def strict_schema(schema: Mapping[str, Any], dropped: list[str] | None = None) -> dict[str, Any] | None:
    """The schema as strict mode takes it, or None where strict mode cannot say what it says.

    Every object is closed and every property required, those that may be missing as null, which whoever asked reads
    as missing. References are followed, but where they lead back to themselves. Keywords that strict mode lacks go
    into the description; defaults and examples are left out. Whoever asked checks the reply against the original,
    which is not changed.

    None is given where the root is not an object, an object takes properties of any name, a place takes anything, or
    one of the guide's limits is passed.

    :param dropped: takes the place of each keyword that is not held to, such as ``properties.age.maxLength``.
    """
    try:
        whole = inlined(schema)
        definitions = whole.pop("$defs", {})
        if "anyOf" in whole or "oneOf" in whole:
            return None
        strict = _Strict([] if dropped is None else dropped)
        closed = strict.closed(whole, "", 0)
        if closed.get("type") != "object":
            return None
        if definitions:
            closed["$defs"] = {name: strict.closed(each, f"$defs.{name}", 0) for name, each in definitions.items()}
    except (_NotStrict, SchemaRefused):
        return None
    return closed


class _Strict:
    def __init__(self, dropped: list[str]) -> None:
        self._dropped = dropped
        self._properties = 0
        self._choices = 0

    def closed(self, schema: Any, path: str, depth: int) -> dict[str, Any]:
        if not isinstance(schema, Mapping) or depth > _DEEPEST:
            raise _NotStrict
        while isinstance(schema.get("allOf"), list | tuple):
            schema = merged({key: value for key, value in schema.items() if key != "allOf"}, *schema["allOf"])
        if "$ref" in schema:
            return {"$ref": schema["$ref"]}
        schema = _in_its_words(schema)
        said, unsaid = {}, {}
        for key, value in schema.items():
            known = value in _FORMATS if key == "format" else key in _SAID
            if known and not (key == "pattern" and "(?" in str(value)):  # its patterns do not look around
                said[key] = value
            elif key not in _NO_RULES:
                unsaid[key] = value
        self._dropped.extend(f"{path}.{key}".lstrip(".") for key in unsaid)
        said = described(said, unsaid)
        kinds = _kinds(said)
        if not kinds and not any(key in said for key in ("anyOf", "enum", "const")):
            raise _NotStrict  # anything at all
        self._choices += len(said.get("enum", ()))
        if "object" in kinds:
            self._close(said, path)
        else:
            said.pop("additionalProperties", None)
            said.pop("required", None)
        if "array" in kinds and not isinstance(said.get("items"), Mapping):
            raise _NotStrict
        if self._properties > _MOST_PROPERTIES or self._choices > _MOST_CHOICES:
            raise _NotStrict
        deeper = depth + ("object" in kinds or "array" in kinds)
        return with_inside(
            said,
            lambda each, place: False if each is False else self.closed(each, f"{path}.{place}".lstrip("."), deeper),
        )

    def _close(self, said: dict[str, Any], path: str) -> None:
        properties = said.get("properties")
        if said.get("additionalProperties") or not isinstance(properties, Mapping):
            raise _NotStrict
        required = said.get("required", ())
        said.setdefault("type", "object")
        said["properties"] = {name: each if name in required else _or_null(each) for name, each in properties.items()}
        said["required"] = list(properties)
        said["additionalProperties"] = False
        self._properties += len(properties)


def _kinds(schema: Mapping[str, Any]) -> frozenset[str]:
    kinds = schema.get("type", "object" if "properties" in schema else ())
    return frozenset((kinds,) if isinstance(kinds, str) else kinds)


def _in_its_words(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """The same said with the keywords that strict mode has."""
    changed: dict[str, Any] = {}
    if "patternProperties" in schema:
        raise _NotStrict
    if "oneOf" in schema and "anyOf" not in schema:
        changed["anyOf"] = schema["oneOf"]
    if isinstance(firsts := schema.get("prefixItems"), list | tuple):
        rest = schema.get("items")
        changed["items"] = {"anyOf": [*firsts, *([rest] if isinstance(rest, Mapping) else [])]}
    if not changed:
        return schema
    return {key: value for key, value in schema.items() if key not in ("oneOf", "prefixItems")} | changed


def _or_null(schema: Any) -> Any:
    """The schema of a property that may be missing."""
    if not isinstance(schema, Mapping) or not schema:
        raise _NotStrict
    kind = schema.get("type")
    if isinstance(kind, str) and not any(key in schema for key in ("anyOf", "oneOf", "allOf", "enum", "const")):
        return schema if kind == "null" else {**schema, "type": [kind, "null"]}
    choices = schema.get("anyOf")
    if isinstance(choices, list | tuple) and any(_is_null(each) for each in choices):
        return schema
    words = {key: schema[key] for key in ("title", "description") if key in schema}
    bare = {key: value for key, value in schema.items() if key not in words}
    return {**words, "anyOf": [bare, {"type": "null"}]}


def _is_null(schema: Any) -> bool:
    return isinstance(schema, Mapping) and schema.get("type") == "null"
