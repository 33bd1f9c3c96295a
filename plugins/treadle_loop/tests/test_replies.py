"""The JSON value in a reply is found whatever stands around it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle import OutputError
from treadle_loop.replies import json_values
from treadle_loop.shapes import SchemaShape, check_schema

VALUE = {"a": 1}

REPLIES = [
    ('{"a": 1}', VALUE),
    ('  \n{"a": 1}\n', VALUE),
    ('Here you are: {"a": 1}. Anything else?', VALUE),
    ('```json\n{"a": 1}\n```', VALUE),
    ('```\n{"a": 1}\n```', VALUE),
    ('~~~json\n{"a": 1}\n~~~', VALUE),
    ('````json\n{"a": "```"}\n````', {"a": "```"}),
    ('```json\n{"a": "use `x` and ```"}\n```', {"a": "use `x` and ```"}),
    ('```bash\necho {}\n```\n```json\n{"a": 1}\n```', VALUE),
    ('First {not json} then {"a": 1}', VALUE),
    ('```json\n{"a": 1}', VALUE),
    ("[1, 2]", [1, 2]),
    ("The list is [1, 2].", [1, 2]),
    ('{"a": "}"} tail }', {"a": "}"}),
    ('{"a": {"b": {"c": []}}}', {"a": {"b": {"c": []}}}),
    ('"text"', "text"),
    ("7", 7),
    ("null", None),
]


@pytest.mark.parametrize(("text", "value"), REPLIES)
def test_the_likeliest_value_comes_first(text: str, value: Any) -> None:
    assert next(json_values(text)) == value


@pytest.mark.parametrize("text", ["", "no", "{", '{"a": 1', "```json\n```", '{"a": NaN}', "{" * 5000, "[" * 100_000])
def test_a_reply_without_a_whole_value_has_none(text: str) -> None:
    assert [value for value in json_values(text) if value != []] == []


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)
PROSE = st.text(alphabet=st.characters(blacklist_characters='{}[]"`~', blacklist_categories=("Cs",)))


@given(st.dictionaries(st.text(), JSON), PROSE, PROSE, st.sampled_from(["", "```json\n", "```\n"]))
def test_any_object_in_any_prose_is_found(value: dict[str, Any], before: str, after: str, fence: str) -> None:
    closing = "\n```\n" if fence else ""
    assert next(json_values(f"{before}\n{fence}{json.dumps(value)}{closing}{after}")) == value


@given(st.text())
def test_no_reply_raises(text: str) -> None:
    list(json_values(text))


def test_a_value_of_the_wrong_shape_is_passed_over_for_one_that_fits() -> None:
    schema = {"type": "object", "required": ["b"]}
    assert SchemaShape(schema, name="s").read('{"a": 1} or rather {"b": 2}') == {"b": 2}


def test_the_complaint_is_about_the_likeliest_value_and_names_each_field() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["m"]}
    with pytest.raises(OutputError) as caught:
        SchemaShape(schema, name="s").read('{"n": "x"}')
    assert str(caught.value) == (
        "the reply does not have the shape asked for: 'm' is a required property; n: 'x' is not of type 'integer'"
    )


def test_a_long_complaint_is_cut() -> None:
    with pytest.raises(OutputError) as caught:
        SchemaShape({"type": "object", "properties": {"n": {"type": "integer"}}}, name="s").read(
            json.dumps({"n": "x" * 5000})
        )
    assert len(str(caught.value)) < 900


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({"type": "objekt"}, "not a JSON Schema: type: 'objekt'"),
        ({"properties": []}, r"not a JSON Schema: properties: \[\] is not of type 'object'"),
        ({"additionalProperties": True}, "schema: additionalProperties: true"),
        ({"properties": {"a": {"items": {"additionalProperties": True}}}}, r"schema\.properties\.a\.items: "),
    ],
)
def test_a_schema_that_cannot_be_held_to_is_refused(schema: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check_schema(schema)


def test_a_property_named_like_a_keyword_is_a_property() -> None:
    check_schema(
        {"properties": {"additionalProperties": {"type": "boolean"}}, "default": {"additionalProperties": True}}
    )
