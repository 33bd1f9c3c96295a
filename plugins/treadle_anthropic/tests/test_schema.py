"""JSON Schemas on their way to the Messages API."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from treadle_anthropic.schema import format_schema, input_schema, input_schema_problem


def test_objects_are_closed_and_bounds_become_words() -> None:
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "description": "a person",
        "properties": {
            "age": {"type": "integer", "minimum": 0, "description": "in years"},
            "when": {"type": "string", "format": "date"},
            "mail": {"type": "string", "format": "idn-email"},
            "tags": {"type": "array", "items": {"type": "string", "maxLength": 9}, "minItems": 1, "maxItems": 3},
            "kind": {"oneOf": [{"const": "a"}, {"type": "null"}]},
        },
        "required": ["age"],
    }
    before = copy.deepcopy(schema)
    assert format_schema(schema) == {
        "type": "object",
        "description": "a person",
        "properties": {
            "age": {"type": "integer", "description": 'in years\n\n{"minimum": 0}'},
            "when": {"type": "string", "format": "date"},
            "mail": {"type": "string", "description": '{"format": "idn-email"}'},
            "tags": {
                "type": "array",
                "items": {"type": "string", "description": '{"maxLength": 9}'},
                "minItems": 1,
                "description": '{"maxItems": 3}',
            },
            "kind": {"anyOf": [{"const": "a"}, {"type": "null"}]},
        },
        "required": ["age"],
        "additionalProperties": False,
    }
    assert schema == before


def test_properties_called_like_keywords_are_kept() -> None:
    schema = {"type": "object", "properties": {name: {"type": "string"} for name in ("$ref", "title", "minimum")}}
    closed = format_schema(schema)
    assert closed is not None
    assert list(closed["properties"]) == ["$ref", "title", "minimum"]


def test_definitions_that_are_no_loop_are_written_in_place() -> None:
    schema = {
        "$defs": {"A": {"type": "object", "properties": {"b": {"$ref": "#/$defs/B"}}}, "B": {"type": "string"}},
        "$ref": "#/$defs/A",
    }
    closed = format_schema(schema)
    assert closed == {"type": "object", "properties": {"b": {"type": "string"}}, "additionalProperties": False}


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"type": "object"},
        {"type": "object", "properties": {}, "additionalProperties": True},
        {"type": "object", "properties": {"x": {"type": "object", "additionalProperties": {"type": "string"}}}},
        {"type": "object", "properties": {"x": {}}},
        {"type": "object", "properties": {"x": True}},
        {"type": "array"},
        {"enum": [{"a": 1}]},
        {"$ref": "#/$defs/A", "$defs": {"A": {"type": "array", "items": {"$ref": "#/$defs/A"}}}},
        {"$ref": "#/$defs/A", "$defs": {"A": {"anyOf": [{"$ref": "#/$defs/B"}]}, "B": {"$ref": "#/$defs/A"}}},
        {"$ref": "https://example.com/schema"},
        {"$ref": "#/$defs/Missing"},
    ],
)
def test_what_the_dialect_cannot_say_is_not_sent(schema: dict[str, Any]) -> None:
    assert format_schema(schema) is None


_LEAVES = st.one_of(
    st.builds(
        lambda kind, extra: {"type": kind, **extra},
        st.sampled_from(["string", "integer", "number", "boolean", "null"]),
        st.sampled_from([{}, {"minimum": 1}, {"maxLength": 2}, {"pattern": "^a"}, {"format": "uri"}, {"title": "t"}]),
    ),
    st.just({"enum": ["a", 1, None]}),
)
_SCHEMAS = st.recursive(
    _LEAVES,
    lambda inner: st.one_of(
        st.builds(
            lambda names, each: {"type": "object", "properties": dict.fromkeys(names, each), "required": names[:1]},
            st.lists(st.sampled_from(["a", "b", "title"]), min_size=1, max_size=3, unique=True),
            inner,
        ),
        inner.map(lambda each: {"type": "array", "items": each, "maxItems": 2}),
        st.lists(inner, min_size=1, max_size=2).map(lambda each: {"anyOf": each}),
    ),
    max_leaves=6,
)
_SAYABLE = {
    "type", "properties", "required", "additionalProperties", "items", "enum", "const", "anyOf", "title",
    "description", "format", "minItems",
}  # fmt: skip


@given(_SCHEMAS)
def test_whatever_is_sent_is_a_schema_of_the_dialect(schema: dict[str, Any]) -> None:
    before = copy.deepcopy(schema)
    closed = format_schema(schema)
    assert schema == before
    assert closed is not None
    Draft202012Validator.check_schema(closed)
    pending: list[Any] = [closed]
    while pending:
        each = pending.pop()
        assert set(each) <= _SAYABLE
        if each.get("type") == "object":
            assert each["additionalProperties"] is False
        pending += [*each.get("properties", {}).values(), *each.get("anyOf", ())]
        if "items" in each:
            pending.append(each["items"])


def test_a_tools_schema_gets_the_type_that_its_root_must_have() -> None:
    assert input_schema({"properties": {}}) == {"type": "object", "properties": {}}
    assert input_schema({}) == {"type": "object"}


@pytest.mark.parametrize(
    ("parameters", "says"),
    [
        ({"type": "array"}, 'parameters.type: Anthropic takes an object, not "array"'),
        ({"anyOf": [{}]}, "parameters.anyOf: Anthropic takes none at the root of a tool's schema"),
        (
            {"properties": {"q": {"type": "strnig"}}},
            "parameters.properties.q.type: not a JSON Schema: 'strnig' is not valid under any of the given schemas",
        ),
        (
            {"properties": {"a b": {}}},
            "parameters.properties.a b: Anthropic takes letters, digits, _, . and - in a property's name, 64 char",
        ),
        ({"properties": {"q": {"default": {1, 2}}}}, "parameters: not JSON ("),
    ],
)
def test_a_bad_tool_schema_is_told_with_the_tool_and_the_place(parameters: dict[str, Any], says: str) -> None:
    problem = input_schema_problem("look", parameters)
    assert problem is not None
    assert problem.startswith(f"tool 'look': {says}")


def test_a_good_tool_schema_has_no_problem() -> None:
    assert input_schema_problem("look", {"type": "object", "properties": {"q": {"type": "string"}}}) is None
    assert input_schema_problem("look", {}) is None
