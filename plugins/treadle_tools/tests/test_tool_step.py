"""The step ``tool``."""

from collections.abc import Mapping
from typing import Any

import pytest
from pydantic import ValidationError

from treadle import (
    ArgumentTree,
    EmbedRequest,
    EmbedResponse,
    Exchange,
    Expression,
    ModelRequest,
    ModelResponse,
    NotInstalledError,
    Reference,
    RunConfig,
    StepContext,
    Template,
)
from treadle_tools.step import ToolStep


class ToolCallContext(StepContext):
    """Renders over a state and answers tool calls; everything else is a mistake here."""

    def __init__(self, state: Mapping[str, Any], tools: Mapping[str, Any]) -> None:
        self.run_id, self.step_id, self.attempt, self.config = "r", "s", 1, RunConfig()
        self.calls: list[tuple[str, Mapping[str, Any]]] = []
        self._state = state
        self._tools = tools

    @property
    def state(self) -> Mapping[str, Any]:
        return self._state

    def render_arguments(self, arguments: ArgumentTree) -> dict[str, Any]:
        rendered: dict[str, Any] = arguments.render(self._state)
        return rendered

    async def call_tool(self, name: str, arguments: Mapping[str, Any], *, call_id: str | None = None) -> Any:
        self.calls.append((name, arguments))
        if name not in self._tools:
            raise NotInstalledError(f"no tool '{name}'")
        return self._tools[name]

    def render(self, template: Template, names: Mapping[str, Any] | None = None) -> str:
        raise AssertionError

    def evaluate(self, expression: Expression) -> Any:
        raise AssertionError

    def exchange(self, request: ModelRequest) -> Exchange:
        raise AssertionError

    async def complete(self, request: ModelRequest) -> ModelResponse:
        raise AssertionError

    async def embed(self, request: EmbedRequest) -> EmbedResponse:
        raise AssertionError

    def emit_text(self, text: str) -> None:
        raise AssertionError

    def warn(self, message: str) -> None:
        raise AssertionError(message)

    def role(self, role: Any) -> Any:
        raise AssertionError


def _step(**fields: Any) -> ToolStep:
    return ToolStep.model_validate({"id": "fetch", "type": "tool", **fields})


async def test_arguments_are_rendered_at_any_depth_and_the_value_is_passed_on() -> None:
    step = _step(
        tool_name="look",
        tool_args={"url": "https://x.test/{state.id}", "items": "state.items", "deep": [{"a": "{state.id}"}], "n": 5},
    )
    ctx = ToolCallContext({"id": "ü7", "items": [1, {"b": 2}]}, {"look": {"status_code": 200}})
    outcome = await step.run(ctx)
    assert outcome.value == outcome.shown == {"status_code": 200}
    assert outcome.writes == {}
    rendered = {"url": "https://x.test/ü7", "items": [1, {"b": 2}], "deep": [{"a": "ü7"}], "n": 5}
    assert ctx.calls == [("look", rendered)]


async def test_a_tool_without_arguments_gets_none_and_may_give_nothing() -> None:
    ctx = ToolCallContext({}, {"look": None})
    assert (await _step(tool_name="look").run(ctx)).value is None
    assert ctx.calls == [("look", {})]


async def test_an_unknown_tool_fails_when_the_step_runs() -> None:
    with pytest.raises(NotInstalledError, match="no tool 'lok'"):
        await _step(tool_name="lok").run(ToolCallContext({}, {"look": 1}))


def test_the_step_refers_to_its_tool_and_reads_what_its_arguments_do() -> None:
    step = _step(tool_name="look", tool_args={"a": "{state.b.c}"}, output="out")
    assert list(step.references()) == [Reference(role="tool", name="look", field="tool_name", is_needed=True)]
    assert [place for place, _ in step.reads()] == ["tool_args"]
    assert [str(path) for path in step.writes()] == ["out"]


@pytest.mark.parametrize(
    ("fields", "place", "text"),
    [
        ({}, "tool_name", "Field required"),
        ({"tool_name": ""}, "tool_name", "String should have at least 1 character"),
        ({"tool_name": "a", "tool_args": ["b"]}, "tool_args", "Input should be a valid dictionary"),
        ({"tool_name": "a", "tool_args": {"u": "{state.b"}}, "tool_args", "{state.b"),
        ({"tool_name": "a", "tool_arg": {}}, "tool_arg", "Extra inputs are not permitted"),
    ],
)
def test_a_wrong_step_is_found_when_it_is_loaded(fields: dict[str, Any], place: str, text: str) -> None:
    with pytest.raises(ValidationError) as caught:
        _step(**fields)
    (detail,) = caught.value.errors()
    assert detail["loc"] == (place,)
    assert text in detail["msg"]
