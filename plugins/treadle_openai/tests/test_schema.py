"""A bad tool schema is told by the tool's name and the path in it, before any request."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from treadle.messages import ModelRequest, ToolSpec
from treadle_openai.checks import chat_problems, responses_problems
from treadle_openai.schema import schema_problems


def object_of(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


@pytest.mark.parametrize(
    ("schema", "says"),
    [
        (object_of(a={"type": "strin"}), "parameters.properties.a.type: 'strin' is no type of JSON Schema"),
        (object_of(a={"type": ["string", "nul"]}), "parameters.properties.a.type: 'nul' is no type of JSON Schema"),
        (object_of(a="string"), "parameters.properties.a: a schema is an object, not a str"),
        ({"type": "object", "properties": []}, "parameters.properties: is an object of schemas, not nothing"),
        ({"type": "object", "required": "a"}, "parameters.required: is a list of names, not 'a'"),
        (object_of(a={"enum": []}), "parameters.properties.a.enum: is a list of at least one value, not []"),
        (object_of(a={"anyOf": {}}), "parameters.properties.a.anyOf: is a list of schemas, not a dict"),
        (
            object_of(a={"type": "array", "items": object_of(b={"type": 3})}),
            "parameters.properties.a.items.properties.b.type: 3 is no type of JSON Schema",
        ),
        (
            object_of(a={"anyOf": [{"type": "string"}, {"type": "x"}]}),
            "parameters.properties.a.anyOf.1.type: 'x' is no type of JSON Schema",
        ),
        (object_of(a={"$ref": "#/$defs/b"}), "parameters.properties.a.$ref: '#/$defs/b' leads nowhere in this schema"),
        (object_of(a={"default": float("nan")}), "parameters.properties.a.default: holds what JSON cannot say"),
        (object_of(a={"const": {1, 2}}), "parameters.properties.a.const: holds what JSON cannot say"),
    ],
)
def test_what_is_wrong_for_any_server_is_told_with_its_path(schema: dict[str, Any], says: str) -> None:
    before = copy.deepcopy(schema)
    assert list(schema_problems(schema, is_openai=False)) == [says]
    assert str(schema) == str(before)


@pytest.mark.parametrize(
    ("schema", "says"),
    [
        ({"properties": {}}, "parameters.type: must be 'object', not missing"),
        ({"type": "string"}, "parameters.type: must be 'object', not 'string'"),
        ({"type": "object", "anyOf": [{"type": "object"}]}, "parameters.anyOf: OpenAI takes none at the root"),
        (object_of(a={"type": "array"}), "parameters.properties.a.items: is missing; OpenAI wants it in every array"),
        (object_of(a={"$ref": "https://x.test/y"}), "parameters.properties.a.$ref: 'https://x.test/y' leads nowhere"),
    ],
)
def test_what_openai_wants_besides_is_not_asked_of_other_servers(schema: dict[str, Any], says: str) -> None:
    (problem,) = schema_problems(schema, is_openai=True)
    assert problem.startswith(says)
    assert list(schema_problems(schema, is_openai=False)) == []


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"type": "object"},
        object_of(type={"type": "string"}, items={"type": "integer"}, enum={"enum": [None]}, required={}),
        {**object_of(a={"$ref": "#/$defs/n~1a"}), "$defs": {"n/a": {"type": ["string", "null"]}}},
        object_of(a={"type": "array", "prefixItems": [{"type": "string"}]}, b={"$ref": "#"}, c=True),
        object_of(a={"$ref": "#/properties/b/prefixItems/0"}, b={"type": "array", "prefixItems": [{}]}),
    ],
)
def test_good_schemas_pass_and_names_of_properties_are_no_keywords(schema: dict[str, Any]) -> None:
    assert list(schema_problems(schema, is_openai=True)) == []


def test_the_refusal_names_the_one_bad_tool() -> None:
    good = ToolSpec(name="good", parameters=object_of(a={"type": "string"}))
    bad = ToolSpec(name="bad", parameters=object_of(a={"type": "text"}))
    request = ModelRequest(model="m", messages=(), tools=(good, bad))
    says = ["the schema of tool 'bad' is wrong at parameters.properties.a.type: 'text' is no type of JSON Schema"]
    assert list(chat_problems(request, is_openai=True)) == says
    assert list(responses_problems(request, is_openai=True)) == says
