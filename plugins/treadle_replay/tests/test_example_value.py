"""Made-up values fit their schema."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, TypeAdapter

from treadle_replay.example_value import NoExampleError, example_value


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"const": {"a": 1}}, {"a": 1}),
        ({"enum": ["red", "blue"]}, "red"),
        ({"type": "string", "default": "d"}, "d"),
        ({"type": "string"}, "Mock"),
        ({"type": "string", "format": "date"}, "2000-01-01"),
        ({"type": "integer"}, 0),
        ({"type": "integer", "minimum": 3, "multipleOf": 5}, 5),
        ({"type": "integer", "exclusiveMaximum": -3}, -4),
        ({"type": "integer", "multipleOf": 1.5, "minimum": 1}, 3),
        ({"type": "number", "exclusiveMinimum": 0, "maximum": 1}, 0.5),
        ({"type": "number", "minimum": 0.1, "multipleOf": 0.1}, 0.1),
        ({"type": "boolean"}, False),
        ({"type": "null"}, None),
        ({"type": ["null", "integer"]}, 0),
        ({"anyOf": [{"type": "null"}, {"type": "boolean"}]}, False),
        ({"oneOf": [{"type": "integer"}, {"type": "string"}], "minimum": 2}, 2),
        ({"type": "array", "items": {"type": "integer"}}, []),
        ({"type": "array", "prefixItems": [{"type": "integer"}], "items": {"type": "null"}, "minItems": 2}, [0, None]),
        ({"type": "array", "items": {"type": "string"}, "minItems": 2, "uniqueItems": True}, ["Mock", "Mock1"]),
        ({"type": "array", "items": {"enum": ["x", "y"]}, "minItems": 2, "uniqueItems": True}, ["x", "y"]),
        ({"properties": {"a": {"type": "integer"}, "b": {}}, "required": ["a"]}, {"a": 0}),
        ({"type": "object", "required": ["z"]}, {"z": "Mock"}),
        ({"allOf": [{"required": ["a"]}, {"properties": {"a": {"const": 1}}}]}, {"a": 1}),
        ({"$ref": "#/$defs/a~1b", "$defs": {"a/b": {"const": 7}}}, 7),
        ({}, "Mock"),
        (True, "Mock"),
    ],
)
def test_each_construct_gives_its_documented_value(schema: Any, expected: Any) -> None:
    value = example_value(schema, text="Mock")
    assert value == expected
    assert type(value) is type(expected)


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        (False, "the schema allows no value"),
        ({"$ref": "https://x.test/a.json"}, "is outside the schema"),
        ({"$ref": "#/$defs/a"}, "is not in the schema"),
        ({"required": ["n"], "properties": {"n": {"$ref": "#"}}}, "# needs itself and has no end"),
        ({"type": "colour"}, "'colour' is no type of JSON Schema"),
        ({"type": "integer", "minimum": 1, "maximum": 0}, "no number is within the limits"),
        ({"type": "string", "minLength": 2, "maxLength": 1}, "no text has at least 2 and at most 1"),
        ({"type": "array", "minItems": 2, "maxItems": 1}, "no list has at least 2 and at most 1"),
        ({"allOf": [{"enum": [1]}, {"enum": [2]}]}, "nothing in common"),
    ],
)
def test_where_nothing_fits_it_says_why(schema: Any, text: str) -> None:
    with pytest.raises(NoExampleError, match=text):
        example_value(schema)


class Node(BaseModel):
    name: str
    next: "Node | None"
    children: list["Node"]
    weight: float = 1.5


def test_a_schema_that_pydantic_makes_of_a_recursive_model_gives_a_valid_value() -> None:
    value = example_value(Node.model_json_schema(), text="n")
    assert Node.model_validate(value).model_dump() == {"name": "n", "next": None, "children": [], "weight": 1.5}


def test_a_union_of_models_gives_a_valid_value() -> None:
    adapter: TypeAdapter[Any] = TypeAdapter(Node | dict[str, int])
    adapter.validate_python(example_value(adapter.json_schema()))


def _limits(low: str, high: str, numbers: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    pairs = st.lists(numbers, min_size=2, max_size=2).map(sorted)
    return st.one_of(
        st.just({}),
        numbers.map(lambda number: {low: number}),
        numbers.map(lambda number: {high: number}),
        pairs.map(lambda pair: {low: pair[0], high: pair[1]}),
    )


def _schemas(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    names = st.text(max_size=3)
    objects = st.dictionaries(names, inner, max_size=4).flatmap(
        lambda properties: (
            st.lists(st.sampled_from(sorted(properties)), unique=True).map(
                lambda required: {"type": "object", "properties": properties, "required": required}
            )
            if properties
            else st.just({"type": "object"})
        )
    )
    sizes = _limits("minItems", "maxItems", st.integers(0, 3))
    arrays = st.tuples(inner, sizes).map(lambda pair: {"type": "array", "items": pair[0], **pair[1]})
    return st.one_of(objects, arrays, st.lists(inner, min_size=1, max_size=3).map(lambda each: {"anyOf": each}))


WHOLE = st.integers(-50, 50)
LEAVES = st.one_of(
    st.sampled_from([{"type": "boolean"}, {"type": "null"}, {"const": "c"}, {"enum": [3, "x"]}, {}, True]),
    _limits("minLength", "maxLength", st.integers(0, 20)).map(lambda limits: {"type": "string", **limits}),
    _limits("minimum", "maximum", WHOLE).map(lambda limits: {"type": "integer", **limits}),
    _limits("minimum", "maximum", st.floats(-1e6, 1e6)).map(lambda limits: {"type": "number", **limits}),
    WHOLE.map(lambda number: {"type": "integer", "exclusiveMinimum": number}),
    st.tuples(WHOLE, st.integers(1, 9)).map(lambda p: {"type": "integer", "minimum": p[0], "multipleOf": p[1]}),
    st.tuples(WHOLE, st.integers(1, 9)).map(
        lambda p: {"type": "number", "exclusiveMinimum": p[0], "exclusiveMaximum": p[0] + p[1]}
    ),
)


def _fits(value: Any, schema: Any) -> bool:
    """What the strategy's constructs mean, told apart from how a value is made."""
    if schema is True or not schema:
        return True
    if "anyOf" in schema:
        return any(_fits(value, branch) for branch in schema["anyOf"])
    if "const" in schema or "enum" in schema:
        return value in schema.get("enum", [schema.get("const")])
    kind = schema["type"]
    if kind == "object":
        properties = schema.get("properties", {})
        return (
            isinstance(value, dict)
            and value.keys() >= set(schema.get("required", ()))
            and all(_fits(item, properties.get(name, True)) for name, item in value.items())
        )
    if kind == "array":
        in_size = schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", 99)
        return isinstance(value, list) and in_size and all(_fits(item, schema["items"]) for item in value)
    if kind == "string":
        return isinstance(value, str) and schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", 99)
    if kind in ("boolean", "null"):
        return value is (None if kind == "null" else False)
    return (
        type(value) in ((int,) if kind == "integer" else (int, float))
        and schema.get("minimum", value) <= value <= schema.get("maximum", value)
        and value % schema.get("multipleOf", 1 if kind == "integer" else value or 1) == 0
        and ("exclusiveMinimum" not in schema or value > schema["exclusiveMinimum"])
        and ("exclusiveMaximum" not in schema or value < schema["exclusiveMaximum"])
    )


@given(st.recursive(LEAVES, _schemas, max_leaves=12), st.text(max_size=10))
def test_a_made_up_value_fits_its_schema_and_is_the_same_every_time(schema: Any, text: str) -> None:
    value = example_value(schema, text=text)
    assert _fits(value, schema)
    assert example_value(schema, text=text) == value
