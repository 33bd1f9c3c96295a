"""Bodies of webhooks are JSON, whatever the values are."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle import ArgumentTree
from treadle_approval.body import json_template, json_text


def sent(template: Any, state: dict[str, Any], **names: Any) -> Any:
    tree = ArgumentTree._from_document(json_template(template))
    return json.loads(json_text(tree.render(state, names)))


@given(st.text(), st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner)))
def test_no_value_changes_the_form(text: str, value: Any) -> None:
    template = '{"a": "it is {state.text}", "b": {state.value}, "c": ["{state.text}", 1]}'
    made = sent(template, {"text": text, "value": value})
    assert made == {"a": f"it is {text}", "b": value, "c": [text, 1]}


@pytest.mark.parametrize(
    ("template", "made"),
    [
        ('{"text": "{run_id} at {gate}"}', {"text": "r1 at g"}),
        ('{"id": {run_id}}', {"id": "r1"}),
        ('{"n": {state.n}, "m": "{state.n}"}', {"n": 3, "m": "3"}),
        ('{"deep": {"list": [{state.list}, {}]}}', {"deep": {"list": [[1, "x"], {}]}}),
        ('[{state.n}, "a\\nb"]', [3, "a\nb"]),
        ("{state.list}", [1, "x"]),
        ({"text": "{run_id}", "n": "state.n"}, {"text": "r1", "n": 3}),
        ('{"brace": "{ {{x}} }"}', {"brace": "{ {x} }"}),
        ('{"first": {state.list[0]}}', {"first": 1}),
    ],
)
def test_a_placeholder_in_a_text_is_text_and_outside_of_one_it_is_the_value(template: Any, made: Any) -> None:
    assert sent(template, {"n": 3, "list": [1, "x"]}, run_id="r1", gate="g") == made


@pytest.mark.parametrize("template", ['{"a": }', '{"a": "x"', "hello {state.n}", '{"a": NaN}', ""])
def test_what_can_never_be_json_is_refused(template: str) -> None:
    with pytest.raises(ValueError, match="body_template: not JSON"):
        json_template(template)
