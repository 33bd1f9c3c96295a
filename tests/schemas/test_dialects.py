"""What providers' compilers make of any schema: the dialect's published rules hold, and values come back right."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from pydantic import BaseModel

from treadle import OutputError
from treadle.schemas import inside
from treadle_anthropic.schema import format_schema as anthropic
from treadle_google.schema import gemini_schema as google
from treadle_http.dialects import SchemaRefused, inlined
from treadle_local.grammar import grammar_schema as local
from treadle_loop.shapes import SchemaShape, TypeShape
from treadle_ollama.schema import format_schema as ollama
from treadle_openai.schema import strict_schema as openai

Compiler = Callable[..., Any]
COMPILERS: dict[str, Compiler] = {
    "anthropic": anthropic,
    "google": lambda schema, dropped=None: google(schema, "schema", dropped),
    "local": local,
    "ollama": ollama,
    "openai": openai,
}

# --- schemas and values of them ---------------------------------------------------------------------

NAMES = ("title", "$ref", "ref", "default", "properties", "pattern", "items", "a")
LEAVES = st.sampled_from(
    [
        {"type": "string"},
        {"type": "string", "minLength": 2, "title": "T", "description": "words"},
        {"type": "string", "pattern": "^[a-c]+$"},
        {"type": "string", "pattern": r"(?=a)\w"},
        {"type": "string", "format": "uri-reference"},
        {"enum": ["a", "b"]},
        {"type": "integer", "minimum": 0, "maximum": 9, "default": 3},
        {"type": "number", "exclusiveMinimum": 0},
        {"type": "boolean", "default": True},
        {"type": ["string", "null"]},
        {"const": "c"},
        {"$ref": "#/$defs/leaf"},
        {"$ref": "#/$defs/pair", "description": "beside"},
        {"allOf": [{"$ref": "#/$defs/pair"}]},
    ]
)
DEFINITIONS = {
    "leaf": {"type": "string", "default": "x"},
    "pair": {
        "type": "object",
        "properties": {"title": {"$ref": "#/$defs/leaf"}, "n": {"type": "integer"}},
        "required": ["n"],
    },
}


def objects(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    named = st.dictionaries(st.sampled_from(NAMES), inner, min_size=1, max_size=4)
    return named.flatmap(
        lambda found: st.lists(st.sampled_from(sorted(found)), unique=True).map(
            lambda required: {"type": "object", "properties": found, "required": required}
        )
    )


INNER = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        objects(inner),
        inner.map(lambda each: {"type": "array", "items": each, "maxItems": 2}),
        inner.map(lambda each: {"anyOf": [each, {"type": "null"}]}),
    ),
    max_leaves=5,
)
SCHEMAS = objects(INNER).map(lambda schema: {**schema, "$defs": DEFINITIONS})


def value_of(draw: Any, schema: Any, root: Any, *, whole: bool) -> Any:
    """A value of a schema that these strategies made; ``whole``: nothing that may be missing is."""
    if "$ref" in schema:
        return value_of(draw, DEFINITIONS[schema["$ref"].rpartition("/")[2]], root, whole=whole)
    if "allOf" in schema:
        return value_of(draw, schema["allOf"][0], root, whole=whole)
    if "anyOf" in schema:
        return None if draw(st.booleans()) else value_of(draw, schema["anyOf"][0], root, whole=whole)
    if "enum" in schema:
        return draw(st.sampled_from(schema["enum"]))
    if "const" in schema:
        return schema["const"]
    kind = schema["type"]
    if kind == "object":
        return {
            name: value_of(draw, each, root, whole=whole)
            for name, each in schema["properties"].items()
            if whole or name in schema.get("required", ()) or draw(st.booleans())
        }
    if kind == "array":
        return [value_of(draw, schema["items"], root, whole=whole) for _ in range(draw(st.integers(0, 2)))]
    if kind == "boolean":
        return draw(st.booleans())
    if kind == ["string", "null"]:
        return draw(st.sampled_from(["abc", None]))
    return {"string": "abc", "integer": 3, "number": 0.5}[kind]


def with_nulls(value: Any, schema: Any) -> Any:
    """The value as strict mode has it written: null for every property that is missing."""
    while "$ref" in schema or "allOf" in schema:
        schema = DEFINITIONS[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema["allOf"][0]
    if "anyOf" in schema:
        return None if value is None else with_nulls(value, schema["anyOf"][0])
    if isinstance(value, dict):
        return {
            name: with_nulls(value[name], each) if name in value else None
            for name, each in schema["properties"].items()
        }
    if isinstance(value, list):
        return [with_nulls(each, schema["items"]) for each in value]
    return value


def everywhere(schema: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(schema, dict):
        yield path, schema
        for place, each in inside(schema):
            yield from everywhere(each, f"{path}/{place}")


# --- the rules that vendors publish -------------------------------------------------------------------

OPENAI_SAYS = {
    "type", "properties", "required", "additionalProperties", "items", "enum", "const", "anyOf", "$ref", "$defs",
    "title", "description", "pattern", "format", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum",
    "multipleOf", "minItems", "maxItems",
}  # fmt: skip
ANTHROPIC_SAYS = OPENAI_SAYS - {
    "pattern", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "maxItems", "$ref", "$defs",
}  # fmt: skip
GOOGLE_SAYS = {
    "type", "format", "title", "description", "nullable", "enum", "maxItems", "minItems", "properties", "required",
    "minProperties", "maxProperties", "minLength", "maxLength", "pattern", "anyOf", "propertyOrdering", "items",
    "minimum", "maximum",
}  # fmt: skip


def check_openai(compiled: dict[str, Any]) -> None:
    """https://platform.openai.com/docs/guides/structured-outputs#supported-schemas"""
    assert compiled["type"] == "object"
    assert "anyOf" not in compiled
    for path, each in everywhere(compiled):
        assert set(each) <= OPENAI_SAYS, path
        assert {"type", "anyOf", "enum", "const", "$ref"} & set(each), path
        assert "$ref" not in each or set(each) == {"$ref"}, path
        if each.get("type") == "object":
            assert each["additionalProperties"] is False, path
            assert sorted(each["required"]) == sorted(each["properties"]), path
        assert each.get("type") != "array" or "items" in each, path


def check_anthropic(compiled: dict[str, Any]) -> None:
    """https://platform.claude.com/docs/en/build-with-claude/structured-outputs#json-schema-limitations"""
    for path, each in everywhere(compiled):
        assert set(each) <= ANTHROPIC_SAYS, path
        assert each.get("minItems", 0) in (0, 1), path
        assert each.get("type") != "object" or each["additionalProperties"] is False, path


def check_google(compiled: dict[str, Any]) -> None:
    """https://ai.google.dev/api/caching#Schema"""
    for path, each in everywhere(compiled):
        assert set(each) <= GOOGLE_SAYS, path
        assert set(each) == {"anyOf"} or each["type"].isupper(), path
        assert "enum" not in each or each["type"] == "STRING", path
        assert each.get("format", "enum") in ("enum", "date-time", "float", "double", "int32", "int64"), path
        assert set(each.get("required", ())) <= set(each.get("properties", ())), path


def check_grammar(compiled: dict[str, Any]) -> None:
    """https://github.com/ggml-org/llama.cpp/blob/master/grammars/README.md#json-schemas--gbnf"""
    for path, each in everywhere(compiled):
        assert "default" not in each, path
        pattern = each.get("pattern", "^$")
        assert pattern[0] == "^", path
        assert pattern[-1] == "$", path
        assert "(?" not in pattern, path


CHECKS: dict[str, Callable[[dict[str, Any]], None]] = {
    "anthropic": check_anthropic,
    "google": check_google,
    "local": check_grammar,
    "ollama": check_grammar,
    "openai": check_openai,
}


@pytest.mark.parametrize("dialect", COMPILERS)
@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(schema=SCHEMAS)
def test_what_is_sent_keeps_the_dialects_rules(dialect: str, schema: dict[str, Any]) -> None:
    before = copy.deepcopy(schema)
    dropped: list[str] = []
    compiled = COMPILERS[dialect](schema, dropped)
    assert schema == before, "the caller's schema is changed"
    CHECKS[dialect](compiled)
    assert list(compiled["properties"]) == list(schema["properties"]), "a name is taken for a keyword"
    assert COMPILERS[dialect](schema) == compiled, "a second attempt gets another schema"
    assert all(place.rpartition(".")[2] in json.dumps(schema) for place in dropped)


@pytest.mark.parametrize("dialect", ["anthropic", "local", "ollama", "openai"])
@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(schema=SCHEMAS, data=st.data())
def test_a_value_of_the_schema_can_be_said_and_is_read_back(dialect: str, schema: dict[str, Any], data: Any) -> None:
    value = value_of(data.draw, schema, schema, whole=False)
    if not Draft202012Validator(schema).is_valid(value):
        return  # a pattern or a length that the plain text does not have
    said = with_nulls(value, schema) if dialect == "openai" else value
    compiled = COMPILERS[dialect](schema)
    Draft202012Validator(compiled).validate(said)
    read = SchemaShape(schema, name="x").read(json.dumps(said))
    Draft202012Validator(schema).validate(read)
    assert {name: read[name] for name in value} | read == read


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(schema=SCHEMAS, data=st.data())
def test_what_passes_the_own_check_fits_the_original(schema: dict[str, Any], data: Any) -> None:
    compiled = openai(schema)
    assert compiled is not None
    said = with_nulls(value_of(data.draw, schema, schema, whole=data.draw(st.booleans())), schema)
    try:
        read = SchemaShape(schema, name="x").read(json.dumps(said))
    except OutputError:
        return
    Draft202012Validator(schema).validate(read)


# --- by example -------------------------------------------------------------------------------------


class Node(BaseModel):
    """A tree."""

    title: str = "leaf"
    default: int | None = None
    children: list[Node] = []


def test_a_model_that_holds_itself_is_sent_to_openai_and_read_back() -> None:
    shape = TypeShape(Node)
    assert shape.output.schema is not None
    compiled = openai(shape.output.schema)
    assert compiled is not None
    check_openai(compiled)
    assert compiled["properties"]["children"]["items"] == {"$ref": "#/$defs/Node"}
    said = {"title": "top", "default": None, "children": [{"title": None, "default": 3, "children": None}]}
    Draft202012Validator(compiled).validate(said)
    assert shape.read(json.dumps(said)) == Node(title="top", children=[Node(default=3)])


def test_a_model_that_holds_itself_is_said_in_words_to_anthropic_and_unrolled_for_google() -> None:
    schema = Node.model_json_schema()
    assert anthropic(schema) is None
    check_google(google(schema, "schema"))
    assert ollama(schema)["$defs"]["Node"]["properties"]["children"]["items"] == {"$ref": "#/$defs/Node"}


@pytest.mark.parametrize(
    ("dialect", "dropped"),
    [
        ("openai", ["properties.a.minLength", "properties.b.items.not", "not"]),
        ("anthropic", ["properties.a.minLength", "properties.a.pattern", "properties.b.items.not", "not"]),
        ("google", ["schema.properties.b.items.not", "schema.not"]),
        ("ollama", ["properties.a.pattern"]),
        ("local", ["properties.a.pattern"]),
    ],
)
def test_what_is_dropped_is_told_by_its_place(dialect: str, dropped: list[str]) -> None:
    schema = {
        "type": "object",
        "properties": {
            "a": {"type": "string", "minLength": 2, "pattern": "ab+", "default": "abb"},
            "b": {"type": "array", "items": {"type": "integer", "not": {"const": 3}}},
        },
        "required": ["a"],
        "not": {"required": ["c"]},
    }
    told: list[str] = []
    COMPILERS[dialect](schema, told)
    assert sorted(told) == sorted(dropped)


def test_nulls_are_read_as_missing_in_the_right_one_of_several_branches() -> None:
    def one(kind: str, **properties: Any) -> dict[str, Any]:
        named = {"kind": {"const": kind}, **properties}
        return {"type": "object", "properties": named, "required": ["kind"], "additionalProperties": False}

    text, number = {"type": "string"}, {"type": "integer", "default": 1}
    schema = {
        "type": "object",
        "properties": {"of": {"anyOf": [one("a", x=text), one("b", x=number), one("c", y=text), {"type": "null"}]}},
        "required": ["of"],
    }
    shape = SchemaShape(schema, name="x")
    assert shape.read('{"of": {"kind": "a", "x": null}}') == {"of": {"kind": "a"}}
    assert shape.read('{"of": {"kind": "b", "x": null}}') == {"of": {"kind": "b", "x": 1}}
    assert shape.read('{"of": {"kind": "c", "y": null}}') == {"of": {"kind": "c"}}
    assert shape.read('{"of": null}') == {"of": None}


def test_optional_choices_take_null_and_give_nothing() -> None:
    schema = {"type": "object", "properties": {"mood": {"enum": ["good", "bad"], "default": "good"}}}
    compiled = openai(schema)
    assert compiled is not None
    assert compiled["properties"]["mood"] == {"anyOf": [{"enum": ["good", "bad"]}, {"type": "null"}]}
    assert SchemaShape(schema, name="x").read('{"mood": null}') == {"mood": "good"}


@pytest.mark.parametrize(
    ("schema", "says"),
    [
        ({"$ref": "https://example.com/x"}, "$ref: 'https://example.com/x' leads nowhere in this schema"),
        ({"properties": {"a": {"$ref": "#/$defs/b"}}}, "properties.a.$ref: '#/$defs/b' leads nowhere in this schema"),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}, "$ref: '#/$defs/a' leads back to itself"),
        (
            {
                "items": {"$ref": "#/$defs/l0"},
                "$defs": {
                    f"l{n}": {"anyOf": [{"$ref": f"#/$defs/l{n + 1}"}] * 2} if n < 14 else {"type": "null"}
                    for n in range(15)
                },
            },
            "without references it has more than 3000 schemas",
        ),
    ],
)
def test_references_without_an_end_are_refused(schema: dict[str, Any], says: str) -> None:
    with pytest.raises(SchemaRefused) as caught:
        inlined(schema)
    assert says in str(caught.value)
    assert openai(schema) is None
    assert anthropic(schema) is None
