"""The form of tools' schemas: what is wrong is told with its path, and names are never taken for keywords."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.schemas import MAPS_OF_SCHEMAS, SCHEMA_LISTS, SCHEMAS, schema_problems

KEYWORDS = (*MAPS_OF_SCHEMAS, *SCHEMA_LISTS, *SCHEMAS, "type", "required", "enum", "title", "default", "$ref")


@pytest.mark.parametrize("name", KEYWORDS)
def test_a_property_may_have_any_keyword_as_its_name(name: str) -> None:
    schema = {"type": "object", "properties": {name: {"type": "string"}}, "required": [name]}
    assert list(schema_problems(schema)) == []
    assert next(iter(schema_problems({"type": "object", "properties": {name: {"type": "x"}}}))).startswith(
        f"parameters.properties.{name}.type: there is no type 'x'"
    )


@pytest.mark.parametrize(
    ("schema", "says"),
    [
        ([], "parameters: a schema is an object, not []"),
        ({"type": "string"}, "parameters.type: a tool's parameters are an object, not 'string'"),
        ({"required": "a"}, "parameters.required: it is a list of names, not 'a'"),
        ({"required": [1]}, "parameters.required: it is a list of names, not [1]"),
        ({"properties": []}, "parameters.properties: it maps names to schemas, and is not []"),
        ({"properties": {"a": 1}}, "parameters.properties.a: a schema is an object, not 1"),
        ({"properties": {"a": {"enum": "x"}}}, "parameters.properties.a.enum: it is a list of values, not 'x'"),
        ({"properties": {"a": {"items": 3}}}, "parameters.properties.a.items: a schema is an object, not 3"),
        ({"properties": {"a": {"items": [3]}}}, "parameters.properties.a.items.0: a schema is an object, not 3"),
        ({"properties": {"a": {"anyOf": {}}}}, "parameters.properties.a.anyOf: it is a list of schemas, not {}"),
        ({"description": 3}, "parameters.description: it is a text, not 3"),
        ({"$defs": {"x": {"type": ["string", "nil"]}}}, ("parameters.$defs.x.type: there is no type 'nil'; "
         "the types are array, boolean, integer, null, number, object, string")),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_with_its_path(schema: Any, says: str) -> None:
    assert list(schema_problems(schema)) == [says]


def test_a_schema_without_end_is_told_and_not_followed() -> None:
    schema: dict[str, Any] = {"type": "object"}
    schema["properties"] = {"a": schema}
    (problem,) = schema_problems(schema)
    assert problem.endswith(": schemas are nested deeper than 100")


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=3), lambda inner: (
    st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYWORDS), inner, max_size=4)
), max_leaves=20))  # fmt: skip
def test_any_data_is_looked_at_without_an_exception(data: Any) -> None:
    assert all(isinstance(problem, str) for problem in schema_problems(data))
