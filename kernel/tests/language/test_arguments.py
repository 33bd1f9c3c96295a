"""Arguments: nested data whose texts are templates, paths, or left alone."""

from typing import Any

import language_path_table as table
import pytest
from pydantic import BaseModel, ValidationError

from treadle._language import ArgumentTree, StatePath, compile_arguments
from treadle.errors import StateError, TemplateError

STATE: dict[str, Any] = table.ARGUMENTS_STATE


@pytest.mark.parametrize(("written", "passed"), table.PASSED)
def test_passes(written: Any, passed: Any) -> None:
    assert compile_arguments(written).render(STATE) == passed


def test_a_missing_path_is_a_permanent_error_that_names_it() -> None:
    with pytest.raises(StateError) as caught:
        compile_arguments({"a": ["state.user.age"]}).render(STATE)
    assert str(caught.value) == "'state.user.age' is missing, so it cannot be passed as an argument"
    assert not caught.value.transient


def test_references_and_paths_are_listed() -> None:
    tree = compile_arguments({"a": "{state.x} {y}", "b": ["state.z[0]"], "c": {"value": "{no}", "template": False}})
    assert [reference.text for reference in tree.references] == ["state.x", "y"]
    assert tree.state_paths == (StatePath.parse("z[0]"),)


def test_templates_within_are_strict_and_warn_as_any_other() -> None:
    tree, warnings = compile_arguments({"a": "{state.gone}"}), list[str]()
    assert tree.render(STATE, warn=warnings.append) == {"a": ""}
    assert warnings == ["'state.gone' is missing: 'state' has no 'gone'; it is rendered as empty text"]
    with pytest.raises(TemplateError, match=r"'state.gone' is missing"):
        tree.render(STATE, strict=True)
    assert compile_arguments("{item}").render(STATE, {"item": 1}) == "1"


def test_changing_what_was_rendered_changes_nothing_else() -> None:
    tree = compile_arguments({"a": ["x"]})
    tree.render(STATE)["a"].append("y")
    assert tree.render(STATE) == {"a": ["x"]}


def test_deep_nesting_is_an_error() -> None:
    value: Any = "x"
    for _ in range(100_000):
        value = [value]
    with pytest.raises(TemplateError, match=r"^arguments are nested more than 100 levels deep$"):
        compile_arguments(value)


class Document(BaseModel):
    tool_args: ArgumentTree


def test_is_a_pydantic_field() -> None:
    written = {"value": "{n}", "template": False}
    document = Document.model_validate({"tool_args": written})
    assert document.tool_args.render(STATE) == {"value": "3", "template": False}  # names of arguments
    assert document.model_dump() == {"tool_args": written}
    assert Document.model_json_schema()["properties"]["tool_args"] == {
        "title": "Tool Args",
        "type": "object",
        "$comment": "Texts within are templates; one that is exactly state.key passes the value itself",
    }


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ({"a": "{state.}"}, "the reference goes wrong after '{state'"),
        ({1: "a"}, "the name of an argument is text; put the name in quotes"),
        (["a"], "Input should be a valid dictionary"),
    ],
)
def test_its_error_is_an_ordinary_validation_error(written: Any, message: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Document.model_validate({"tool_args": written})
    assert message in caught.value.errors()[0]["msg"]
