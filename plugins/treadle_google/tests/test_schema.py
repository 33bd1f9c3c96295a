"""JSON Schemas in Gemini's dialect."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from treadle.messages import ModelRequest, OutputSchema, ToolSpec, UserMessage
from treadle_google.convert import problems
from treadle_google.schema import SchemaRefused, gemini_schema

ALLOWED = frozenset(
    {
        "type", "format", "description", "nullable", "enum", "items", "maxItems", "minItems", "properties", "required",
        "propertyOrdering", "minProperties", "maxProperties", "minimum", "maximum", "minLength", "maxLength",
        "pattern", "anyOf",
    }
)  # fmt: skip
TYPES = frozenset({"STRING", "NUMBER", "INTEGER", "BOOLEAN", "ARRAY", "OBJECT", "NULL"})


def one(schema: Any) -> Any:
    """The schema of a property, compiled."""
    return gemini_schema({"type": "object", "properties": {"it": schema}})["properties"]["it"]


@pytest.mark.parametrize(
    ("schema", "compiled"),
    [
        ({"type": "string"}, {"type": "STRING"}),
        ({"type": "string", "title": "T", "default": "x", "examples": ["y"], "$comment": "c"}, {"type": "STRING"}),
        ({"type": ["string", "null"], "description": "d"}, {"type": "STRING", "description": "d", "nullable": True}),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, {"type": "INTEGER", "nullable": True}),
        ({"type": ["string", "integer"]}, {"anyOf": [{"type": "STRING"}, {"type": "INTEGER"}]}),
        (
            {"oneOf": [{"type": "string"}, {"type": "boolean"}, {"type": "null"}], "description": "d"},
            {
                "anyOf": [
                    {"type": "STRING", "description": "d", "nullable": True},
                    {"type": "BOOLEAN", "description": "d", "nullable": True},
                ]
            },
        ),
        ({"enum": ["a", "b"]}, {"type": "STRING", "enum": ["a", "b"], "format": "enum"}),
        ({"const": "a"}, {"type": "STRING", "enum": ["a"], "format": "enum"}),
        ({"enum": ["a", None]}, {"type": "STRING", "enum": ["a"], "format": "enum", "nullable": True}),
        ({"enum": [1, 2]}, {"type": "INTEGER", "description": "One of: 1, 2."}),
        ({"type": "integer", "enum": [1], "description": "n"}, {"type": "INTEGER", "description": "n One of: 1."}),
        ({"type": "string", "format": "uuid"}, {"type": "STRING"}),
        ({"type": "string", "format": "date-time"}, {"type": "STRING", "format": "date-time"}),
        ({"type": "integer", "exclusiveMinimum": 0, "maximum": 9}, {"type": "INTEGER", "minimum": 1, "maximum": 9}),
        ({"type": "number", "multipleOf": 2, "minimum": 0.5}, {"type": "NUMBER", "minimum": 0.5}),
        ({"type": "array", "items": {"type": "string"}, "uniqueItems": True},
         {"type": "ARRAY", "items": {"type": "STRING"}}),
        ({"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}]},
         {"type": "ARRAY", "items": {"anyOf": [{"type": "STRING"}, {"type": "INTEGER"}]}}),
        ({"type": "array"},
         {"type": "ARRAY", "items": {"anyOf": [{"type": "STRING"}, {"type": "NUMBER"}, {"type": "BOOLEAN"}]}}),
        ({"type": "object", "additionalProperties": {"type": "string"}}, {"type": "OBJECT"}),
        (True, {"anyOf": [{"type": "STRING"}, {"type": "NUMBER"}, {"type": "BOOLEAN"}]}),
        ({"properties": {"a": {"type": "null"}}, "required": ["a", "gone"]},
         {"type": "OBJECT", "properties": {"a": {"type": "NULL"}}, "required": ["a"]}),
        (
            {"allOf": [{"properties": {"a": {"type": "string"}}, "required": ["a"]}, {"required": ["b"]}],
             "properties": {"b": {"type": "integer"}}},
            {"type": "OBJECT", "properties": {"a": {"type": "STRING"}, "b": {"type": "INTEGER"}},
             "required": ["a", "b"], "propertyOrdering": ["a", "b"]},
        ),
    ],
)  # fmt: skip
def test_what_the_dialect_can_say_is_said(schema: Any, compiled: dict[str, Any]) -> None:
    assert one(schema) == compiled


@pytest.mark.parametrize("name", ["title", "default", "format", "$ref", "anyOf", "type", "enum", "properties", "items"])
def test_a_property_may_have_any_keyword_as_its_name(name: str) -> None:
    schema = {"type": "object", "properties": {name: {"type": "string"}}, "required": [name]}
    expected = {"type": "OBJECT", "properties": {name: {"type": "STRING"}}, "required": [name]}
    assert gemini_schema(schema) == expected
    assert one(schema) == expected


def test_references_are_written_out_also_beside_other_keywords() -> None:
    schema = {
        "type": "object",
        "properties": {"who": {"$ref": "#/$defs/person", "description": "the one"}, "they": {"$ref": "#/$defs/a~1b"}},
        "$defs": {
            "person": {"type": "object", "properties": {"name": {"type": "string"}}, "description": "anyone"},
            "a/b": {"type": "array", "items": {"$ref": "#/$defs/person"}},
        },
    }
    person = {"type": "OBJECT", "properties": {"name": {"type": "STRING"}}}
    assert gemini_schema(schema)["properties"] == {
        "who": {**person, "description": "the one"},
        "they": {"type": "ARRAY", "items": {**person, "description": "anyone"}},
    }


def depth(schema: Any, name: str) -> int:
    inner = schema.get("properties", {}).get(name)
    if inner is not None and inner["type"] == "ARRAY":
        inner = inner["items"]
    return 0 if inner is None else 1 + depth(inner, name)


@pytest.mark.parametrize(
    "child",
    [{"$ref": "#/$defs/node"}, {"type": "array", "items": {"$ref": "#/$defs/node"}},
     {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}, {"allOf": [{"$ref": "#/$defs/node"}]}, {"$ref": "#"}],
)  # fmt: skip
def test_a_schema_that_holds_itself_is_written_out_to_an_end(child: Any) -> None:
    node = {"type": "object", "properties": {"child": child, "name": {"type": "string"}}}
    compiled = gemini_schema({**node, "$defs": {"node": node}})
    assert 2 <= depth(compiled, "child") <= 7


def test_a_list_that_holds_itself_comes_to_an_end() -> None:
    tree = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"$ref": "#/$defs/tree"}}]}
    compiled = gemini_schema({"type": "object", "properties": {"t": {"$ref": "#/$defs/tree"}}, "$defs": {"tree": tree}})
    assert set(keywords(compiled)) <= ALLOWED


@pytest.mark.parametrize(
    ("schema", "says"),
    [
        ({"$ref": "#/$defs/gone"}, "parameters.properties.it.$ref: nothing is at '#/$defs/gone'"),
        ({"$ref": "https://example.com/x"}, "parameters.properties.it.$ref: nothing is at 'https://example.com/x'"),
        ({"$ref": "#/properties/it"}, "parameters.properties.it.$ref: '#/properties/it' leads back to itself"),
    ],
)
def test_a_reference_to_nowhere_is_refused(schema: Any, says: str) -> None:
    with pytest.raises(SchemaRefused) as caught:
        one(schema)
    assert str(caught.value) == says


def test_a_schema_that_grows_without_bound_is_refused() -> None:
    names = [f"p{n}" for n in range(9)]
    many = {f"d{n}": {"properties": {name: {"$ref": f"#/$defs/d{n + 1}"} for name in names}} for n in range(9)}
    schema = {"type": "object", "properties": {"it": {"$ref": "#/$defs/d0"}}, "$defs": {**many, "d9": True}}
    with pytest.raises(SchemaRefused, match="it has more than 3000 schemas"):
        gemini_schema(schema)
    with pytest.raises(SchemaRefused, match="no end to its allOf"):
        gemini_schema({"allOf": [{"$ref": "#"}]})


def test_one_bad_tool_schema_names_the_tool_and_the_path() -> None:
    bad = ToolSpec(
        name="bad",
        parameters={"type": "object", "properties": {"q": {"$ref": "#/$defs/x"}, "r": {"type": "string"}}},
    )
    worse = ToolSpec(name="worse", parameters={"type": "object", "properties": {"q": {"items": {"type": "txt"}}}})
    request = ModelRequest(
        model="gemini-2.5-flash",
        messages=(UserMessage.of("hi"),),
        tools=(ToolSpec(name="good"), bad, worse),
        output=OutputSchema(name="it", schema={"$ref": "#/gone"}),
    )
    first, second, third = problems(request, provider="google")
    assert first == "tool 'bad': parameters.properties.q.$ref: nothing is at '#/$defs/x'"
    assert second.startswith("tool 'worse': parameters.properties.q.items.type: there is no type 'txt'")
    assert third == "the shape 'it': schema.$ref: nothing is at '#/gone'"


# --- for any schema ---------------------------------------------------------------------------------

_names = st.sampled_from(["title", "default", "type", "a", "items", "$ref"])
_leaves = st.one_of(
    st.sampled_from([{"type": "string"}, {"type": "integer"}, {"type": "boolean"}, {"type": "null"}, True, {}]),
    st.builds(lambda values: {"enum": values}, st.lists(st.sampled_from(["a", "b", 1, None]), min_size=1, unique=True)),
    st.just({"type": ["string", "null"], "default": None, "title": "T"}),
    st.just({"type": "number", "exclusiveMinimum": 0, "multipleOf": 0.5}),
    st.just({"$ref": "#/$defs/leaf"}),
    st.just({"$ref": "#"}),
)
_schemas = st.recursive(
    _leaves,
    lambda inner: st.one_of(
        st.builds(lambda items: {"type": "array", "items": items}, inner),
        st.builds(lambda some: {"anyOf": some}, st.lists(inner, min_size=1, max_size=3)),
        st.builds(
            lambda named: {
                "type": "object",
                "properties": named,
                "required": [*named],
                "additionalProperties": False,
            },
            st.dictionaries(_names, inner, max_size=3),
        ),
    ),
    max_leaves=8,
)


def keywords(schema: dict[str, Any]) -> Iterator[str]:
    """Every keyword in a compiled schema, by position."""
    for key, value in schema.items():
        yield key
        if key == "properties":
            for each in value.values():
                yield from keywords(each)
        elif key == "items":
            yield from keywords(value)
        elif key == "anyOf":
            assert set(schema) == {"anyOf"}
            assert len(value) > 1
            for each in value:
                yield from keywords(each)
        elif key == "type":
            assert value in TYPES
        elif key == "required":
            assert set(value) <= set(schema["properties"])
        elif key == "enum":
            assert schema["type"] == "STRING"
            assert all(isinstance(each, str) and each for each in value)


@settings(deadline=None)
@given(st.dictionaries(_names, _schemas, max_size=3))
def test_any_schema_is_compiled_to_what_the_dialect_has_and_is_not_changed(named: dict[str, Any]) -> None:
    schema = {"type": "object", "properties": named, "$defs": {"leaf": {"type": "string"}}}
    before = copy.deepcopy(schema)
    compiled = gemini_schema(schema)
    assert schema == before
    assert set(keywords(compiled)) <= ALLOWED
    assert set(compiled.get("properties", {})) == set(named)


def opened(schema: dict[str, Any]) -> dict[str, Any]:
    """A compiled schema as a JSON Schema."""
    found: dict[str, Any] = {}
    for key, value in schema.items():
        if key == "properties":
            found[key] = {name: opened(each) for name, each in value.items()}
        elif key == "items":
            found[key] = opened(value)
        elif key == "anyOf":
            found[key] = [opened(each) for each in value]
        elif key == "type":
            found[key] = [value.lower(), "null"] if schema.get("nullable") else value.lower()
        elif key == "enum":
            found[key] = [*value, None] if schema.get("nullable") else value
        elif key not in ("nullable", "format", "propertyOrdering"):
            found[key] = value
    return found


@settings(deadline=None)
@given(
    st.recursive(
        st.sampled_from([{"type": "string"}, {"enum": ["a", None]}, {"type": ["integer", "null"]}, {"const": "b"}]),
        lambda inner: st.one_of(
            st.builds(lambda items: {"type": "array", "items": items}, inner),
            st.builds(lambda some: {"anyOf": some}, st.lists(inner, min_size=1, max_size=3)),
            st.builds(
                lambda named: {"type": "object", "properties": named, "required": list(named)},
                st.dictionaries(st.sampled_from(["title", "a"]), inner, min_size=1),
            ),
        ),
        max_leaves=6,
    ),
    st.data(),
)
def test_what_fits_the_schema_fits_the_compiled_one(schema: dict[str, Any], data: st.DataObject) -> None:
    value = data.draw(values_of(schema))
    whole = {"type": "object", "properties": {"it": schema}, "required": ["it"]}
    jsonschema.validate({"it": value}, whole)
    jsonschema.validate({"it": value}, opened(gemini_schema(whole)))


def values_of(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    if "anyOf" in schema:
        return st.one_of(*(values_of(each) for each in schema["anyOf"]))
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if "const" in schema:
        return st.just(schema["const"])
    if schema["type"] == "array":
        return st.lists(values_of(schema["items"]), max_size=2)
    if schema["type"] == "object":
        return st.fixed_dictionaries({name: values_of(each) for name, each in schema["properties"].items()})
    return st.text(max_size=3) if schema["type"] == "string" else st.none() | st.integers()
