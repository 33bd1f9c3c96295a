"""Templates: what is a placeholder, what it becomes, and what is only text."""

import sys
import time
from collections.abc import Callable
from typing import Any

import language_template_table as table
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from treadle._language import Reference, Template
from treadle.errors import TemplateError


class Report(BaseModel):
    title: str
    pages: list[int] = []

    @property
    def secret(self) -> str:
        return "never"


def render(source: str, state: dict[str, Any] | None = None, **options: Any) -> str:
    return Template.compile(source).render(table.STATE if state is None else state, **options)


@pytest.mark.parametrize(("source", "expected"), table.RENDERED)
def test_renders(source: str, expected: str) -> None:
    assert render(source) == expected


@pytest.mark.parametrize(("source", "message"), table.ERRORS)
def test_a_reference_that_goes_wrong_is_found_at_compile(source: str, message: str) -> None:
    with pytest.raises(TemplateError) as caught:
        Template.compile(source)
    assert message in str(caught.value)
    assert not caught.value.transient


def test_the_error_says_how_to_write_a_brace() -> None:
    with pytest.raises(TemplateError, match=r"; a reference looks like .* a literal brace is written twice, \{\{$"):
        Template.compile("{state.a b}")


@pytest.mark.parametrize(("source", "message"), table.STRICT)
def test_a_strict_template_names_the_first_missing_part(source: str, message: str) -> None:
    with pytest.raises(TemplateError) as caught:
        render(source, strict=True)
    assert str(caught.value) == message


@pytest.mark.parametrize(("source", "expected"), table.WARNINGS)
def test_warns_once_for_each_reference(source: str, expected: list[str]) -> None:
    warnings: list[str] = []
    render(source, warn=warnings.append)
    assert warnings == expected


@pytest.mark.parametrize(("source", "message"), table.MISFITS)
def test_a_spec_that_does_not_fit_is_an_error(source: str, message: str) -> None:
    with pytest.raises(TemplateError) as caught:
        render(source)
    assert str(caught.value) == message


def test_given_names_win_over_the_state_but_never_over_state_itself() -> None:
    names = {"name": "given", "state": "hidden", "item": {"id": 3}}
    assert render("{name} {state.name} {item.id} {count}", names=names) == "given Ada 3 7"


def test_the_whole_state_is_its_json() -> None:
    assert render("{state}", {"a": [1, None]}) == '{"a": [1, null]}'


def test_a_pydantic_instance_is_read_by_its_declared_fields_and_written_as_json() -> None:
    state = {"report": Report(title="é", pages=[1])}
    assert render("{report}", state) == '{"title": "é", "pages": [1]}'
    assert render("{state.report.title} {report.pages[0]}", state) == "é 1"
    assert render("[{report.secret}{report.model_dump}{report.__dict__}]", state) == "[]"
    assert render("{list}", {"list": [Report(title="a")]}) == '[{"title": "a", "pages": []}]'


def test_references_are_in_order_of_appearance() -> None:
    template = Template.compile("a {state.x[0].y:>3} {{no}} {b} {state[k e y]!r} {")
    assert template.references == (
        Reference("state.x[0].y", "state", ("x", 0, "y"), 2),
        Reference("b", "b", (), 27),
        Reference("state[k e y]", "state", ("k e y",), 31),
    )
    assert not template.is_literal
    assert Template.compile("{{no}} {").is_literal


def test_templates_are_equal_and_hashed_by_their_source() -> None:
    first, second = Template.compile("{a}"), Template.compile("{a}")
    assert first == second
    assert len({first, second, Template.compile("{b}")}) == 2
    with pytest.raises(AttributeError):
        first.source = "x"  # type: ignore[misc]


@pytest.mark.parametrize("value", [10**5000, {(1, 2): 3}], ids=["too long", "not JSON"])
def test_a_value_that_has_no_text_is_an_error(value: Any) -> None:
    with pytest.raises(TemplateError, match=r"^'state.v' cannot be written as text: "):
        render("{state.v}", {"v": value})


def test_a_value_that_contains_itself_is_an_error() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(TemplateError, match=r"^'v' cannot be written as text: Circular"):
        render("{v}", {"v": loop})


def test_deep_nesting_of_a_value_is_an_error_or_works() -> None:
    value: Any = 1
    for _ in range(100_000):
        value = [value]
    with pytest.raises(TemplateError, match=r"^'v' is nested too deeply to be written as text$"):
        render("{v}", {"v": value})
    assert render("{state.v" + "[0]" * 100_000 + "}", {"v": value}) == "1"


def test_a_long_value_is_rendered_as_it_is() -> None:
    big = "{name}" * 200_000
    assert render("<{big}>", {"big": big}) == f"<{big}>"


@pytest.mark.parametrize("unit", ["{a.", "{a[", "{", "{{", "}}", "{a", "{a:", "{a[0].", "e\u0301", "{x:>", "{a:0000"])
def test_compiling_takes_time_in_proportion_to_the_source(unit: str) -> None:
    started = time.perf_counter()
    Template.compile(unit * 100_000 + "}")
    assert time.perf_counter() - started < 5  # quadratic time would be minutes


def calls_of(function: Callable[[], object]) -> int:
    """How many calls, of Python and of C, the function makes."""
    count = 0

    def note(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        function()
    finally:
        sys.setprofile(None)
    return count


def test_rendering_takes_operations_in_proportion_to_the_placeholders() -> None:
    state = {"a": {"b": [1]}, "big": "x" * 1_000_000}
    few, many = (Template.compile("{state.a.b[0]:>3} text {a} " * count) for count in (100, 1_000))
    assert calls_of(lambda: many.render(state)) <= 10 * calls_of(lambda: few.render(state))


def test_rendering_takes_no_more_operations_for_a_large_value() -> None:
    template = Template.compile("<{state.v}>")
    large = calls_of(lambda: template.render({"v": "{x}" * 400_000}))
    assert large == calls_of(lambda: template.render({"v": "{x}"}))


def test_a_template_is_read_once_however_often_it_is_rendered(monkeypatch: pytest.MonkeyPatch) -> None:
    template = Template.compile("{state.a} {{b}} {c}")
    monkeypatch.setattr("treadle._language.templates.scan", None)
    assert {template.render({"a": 1, "c": 2}) for _ in range(3)} == {"1 {b} 2"}


class Document(BaseModel):
    prompt: Template


def test_is_a_pydantic_field() -> None:
    document = Document.model_validate({"prompt": "{state.a}"})
    assert document.prompt == Template.compile("{state.a}")
    assert document.model_dump() == {"prompt": "{state.a}"}
    assert document.model_dump_json() == '{"prompt":"{state.a}"}'
    assert Document(prompt=document.prompt) == document
    for mode in ("validation", "serialization"):
        schema = Document.model_json_schema(mode=mode)
        comment = "A template: {state.key} becomes the value there, and {{ is one brace"
        assert schema["properties"]["prompt"] == {"title": "Prompt", "type": "string", "$comment": comment}
    assert document.model_copy(deep=True) == document


def test_its_error_is_an_ordinary_validation_error() -> None:
    with pytest.raises(ValidationError) as caught:
        Document.model_validate({"prompt": "\ud800 {state.} {reason}"})
    (error,) = caught.value.errors()
    assert error["type"] == "template"
    assert error["loc"] == ("prompt",)
    assert error["msg"].startswith("'{state.} {reason}' at column 3 of the template: the reference goes")
    with pytest.raises(ValidationError, match="Input should be a valid string"):
        Document.model_validate({"prompt": 1})


fragments = [*"{}[].!:abz_-0189 \n\"'<>,é\u0301🎉\ud800", "state", "{{", "}}", "{state."]
braced = st.lists(st.sampled_from(fragments)).map("".join)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)


@given(braced | st.text())
@example("{a:\ud800>3}")
def test_any_text_compiles_and_renders_or_is_a_template_error(source: str) -> None:
    try:
        template = Template.compile(source)
        template.render({"a": 1, "b": "x", "z": [1]})
    except TemplateError:
        return
    assert Template.compile(template.source).references == template.references


@given(st.text().filter(lambda text: "{" not in text))
def test_text_without_an_opening_brace_renders_to_itself(source: str) -> None:
    assert render(source) == source


@given(braced)
def test_text_with_its_braces_doubled_and_paired_is_literal(inner: str) -> None:
    text = inner.replace("{", "").replace("}", "")
    assert render(f"{{{{{text}}}}}") == f"{{{text}}}"


@given(braced | st.text(), braced.filter(lambda text: "{" not in text and "}" not in text))
def test_a_value_is_never_expanded_again(value: str, around: str) -> None:
    assert render(f"{around}{{state.v}}{around}{{v}}", {"v": value}) == f"{around}{value}{around}{value}"


@given(values)
def test_every_json_value_has_a_text(value: Any) -> None:
    assert isinstance(render("{v}{state.v!r}", {"v": value}), str)
