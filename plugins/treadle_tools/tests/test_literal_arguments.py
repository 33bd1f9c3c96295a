"""Arguments of the step ``tool`` that a document writes out are checked when it is loaded."""

from collections.abc import Mapping
from typing import Any

import pytest

import treadle
from treadle import DocumentError, Host, Problem, Tool, ToolContext, tool
from treadle_tools import plugin


@tool
def add(first: int, second: int = 0) -> int:
    """Add two numbers."""
    return first + second


class Loose(Tool):
    """Only its schema is known."""

    name = "loose"
    description = "x"
    parameters = {  # noqa: RUF012
        "type": "object",
        "properties": {"size": {"$ref": "#/$defs/size"}, "note": {"type": "string"}},
        "required": ["size"],
        "additionalProperties": False,
        "$defs": {"size": {"enum": ["s", "m"]}},
    }

    async def call(self, arguments: Mapping[str, Any], context: ToolContext) -> Any:
        raise AssertionError


@pytest.fixture(scope="module")
def host() -> Host:
    return Host.of({"tools": plugin, "mine": _Mine()})


class _Mine:
    @treadle.hookimpl
    def treadle_tools(self) -> Mapping[str, Any]:
        return {"add": treadle.Offer(lambda: add, "adds"), "loose": treadle.Offer(Loose, "x")}


def _problems(host: Host, name: str, arguments: Any) -> list[Problem]:
    step = {"id": "a", "type": "tool", "tool_name": name, "tool_args": arguments}
    document = {"name": "x", "state": {"x": 1}, "steps": [step]}
    try:
        return list(treadle.build_workflow(document, host=host).warnings)
    except DocumentError as error:
        return list(error.problems)


@pytest.mark.parametrize(
    ("name", "arguments", "place", "message"),
    [
        ("file_read", {}, "tool_name", "file_read: argument 'path' is missing"),
        ("file_read", {"encoding": "utf-8"}, "tool_args", "file_read: argument 'path' is missing"),
        ("file_read", {"path": "a", "pth": "b"}, "tool_args.pth", "unknown argument 'pth'; did you mean 'path'?"),
        ("file_read", {"path": "a", "encoding": "no"}, "tool_args.encoding", "there is no text encoding 'no'"),
        ("http_request", {"url": "x", "method": "PATCH"}, "tool_args.method", "must be GET, POST, PUT or DELETE"),
        ("http_request", {"url": "x", "timeout": -1}, "tool_args.timeout", "must be more than 0"),
        ("file_write", {"path": "{state.x}", "content": ["a"]}, "tool_args.content", "must be text"),
        ("add", {"first": "one"}, "tool_args.first", "argument 'first'"),
    ],
)  # fmt: skip
def test_what_a_call_would_refuse_is_an_error_at_its_place(
    host: Host, name: str, arguments: Any, place: str, message: str
) -> None:
    (problem,) = _problems(host, name, arguments)
    assert (problem.path, problem.severity) == (f"steps.a.{place}", "error")
    assert message in problem.message


@pytest.mark.parametrize(
    ("name", "arguments", "told"),
    [
        (
            "file_read",
            {"path": "a", "encodng": "{state.x}"},
            {"encodng": "error: file_read: unknown argument 'encodng'; did you mean 'encoding'?"},
        ),
        (
            "file_read",
            {"pth": "state.x"},
            {
                "": "error: file_read: argument 'path' is missing",
                "pth": "error: file_read: unknown argument 'pth'; did you mean 'path'?",
            },
        ),
        ("add", {"first": "{state.x}", "secnd": "{state.x}"}, {"secnd": "error: add: unknown argument 'secnd'"}),
        (
            "loose",
            {"size": "s", "colour": {"of": ["{state.x}"]}},
            {"colour": "warning: loose: unknown argument 'colour'; it takes size, note"},
        ),
    ],
)
def test_a_name_needs_no_value_to_be_checked(host: Host, name: str, arguments: Any, told: Mapping[str, str]) -> None:
    found = {each.path: f"{each.severity}: {each.message}" for each in _problems(host, name, arguments)}
    expected = {f"steps.a.tool_args.{key}".strip("."): text for key, text in told.items()}
    assert found.keys() == expected.keys()
    assert all(found[path].startswith(text) for path, text in expected.items())


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("file_read", {"path": "{state.x}"}),
        ("http_request", {"url": "{state.x}", "method": "{state.x}", "timeout": "state.x", "body": {"a": "{state.x}"}}),
        ("http_request", {"url": "x", "method": "get", "timeout": "5", "headers": None}),
        ("file_write", {"path": "a", "content": {"value": "{state.x}", "template": False}}),
        ("add", {"first": "1"}),
        ("loose", {"size": "m"}),
        ("loose", {"size": "{state.x}"}),
        ("none", {"a": 1}),
    ],
)
def test_what_is_right_or_known_to_the_run_alone_is_not_told(host: Host, name: str, arguments: Any) -> None:
    assert [each for each in _problems(host, name, arguments) if each.code != "not-installed"] == []


@pytest.mark.parametrize(
    ("arguments", "place", "message"),
    [
        ({"size": "xl"}, "tool_args.size", "argument 'size': 'xl' is not one of ['s', 'm']"),
        ({"note": "a"}, "tool_args", "argument 'size' is missing"),
        ({"size": "s", "colour": 1}, "tool_args.colour", "unknown argument 'colour'; it takes size, note"),
    ],
)
def test_what_only_a_schema_does_not_allow_is_a_warning(host: Host, arguments: Any, place: str, message: str) -> None:
    (problem,) = _problems(host, "loose", arguments)
    assert (problem.path, problem.severity, problem.message) == (f"steps.a.{place}", "warning", f"loose: {message}")
