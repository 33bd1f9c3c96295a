"""Tools of one's own: functions, classes, and the registry of them."""

from __future__ import annotations

import enum
import functools
import threading
from dataclasses import dataclass
from typing import Annotated, Literal, Optional

import pytest
import trio
from pydantic import BaseModel, Field

import treadle
from treadle import BaseTool, FunctionTool, NotInstalledError, Tool, ToolContext, ToolError, ToolRegistry, tool
from treadle.contracts.events import RunWarning
from treadle.testing import offering

CONTEXT = ToolContext(run_id="r", step_id="s", call_id="c")


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Point:
    x: int
    y: int = 0


class Address(BaseModel):
    city: str


@tool
def word_count(text: str) -> dict[str, int]:
    """Count the words in a text."""
    return {"words": len(text.split())}


@tool(name="mixed", description="Takes all kinds.", effect="pure", timeout=5, parallel_safe=False)
async def everything(
    plain,
    number: int,
    share: Annotated[float, "from 0 to 1", Field(le=1)],
    tags: list[str],
    prices: dict[str, float],
    colour: Colour,
    point: Point,
    address: Address,
    mode: Literal["fast", "slow"] = "fast",
    note: Optional[str] = "none given",  # noqa: UP045 - as older programs write it
    either: int | str | None = None,
    *,
    model_config: bool = False,
):
    return [plain, number, share, tags, prices, colour, point, address, mode, note, either, model_config]


GIVEN = {
    "plain": "p", "number": "3", "share": 0.5, "tags": ["a"], "prices": {"a": "1.5"}, "colour": "red",
    "point": {"x": 1}, "address": {"city": "Ulm"},
}  # fmt: skip


def test_a_function_is_described_by_its_name_its_docstring_and_its_hints():
    assert (word_count.name, word_count.description) == ("word_count", "Count the words in a text.")
    assert (word_count.effect, word_count.timeout, word_count.parallel_safe) == (None, None, True)
    assert word_count.parameters == {
        "type": "object",
        "properties": {"text": {"type": "string"}},
        "required": ["text"],
        "additionalProperties": False,
    }
    assert word_count.spec.name == "word_count"


def test_it_can_still_be_called_as_the_function():
    assert word_count("a b") == {"words": 2}
    assert word_count.__name__ == "word_count"


def test_the_schema_of_all_kinds_of_hints():
    assert (everything.name, everything.description) == ("mixed", "Takes all kinds.")
    assert (everything.effect, everything.timeout, everything.parallel_safe) == ("pure", 5, False)
    schema = everything.parameters
    assert schema["required"] == [*GIVEN]
    shown = schema["properties"]
    assert shown["plain"] == {"type": "string"}
    assert shown["share"] == {"type": "number", "maximum": 1, "description": "from 0 to 1"}
    assert shown["tags"] == {"type": "array", "items": {"type": "string"}}
    assert shown["prices"] == {"type": "object", "additionalProperties": {"type": "number"}}
    assert shown["colour"] == {"$ref": "#/$defs/Colour"}
    assert shown["mode"] == {"type": "string", "enum": ["fast", "slow"], "default": "fast"}
    assert shown["note"] == {"anyOf": [{"type": "string"}, {"type": "null"}], "default": "none given"}
    assert shown["model_config"] == {"type": "boolean", "default": False}
    assert schema["$defs"].keys() == {"Colour", "Point", "Address"}


async def test_arguments_are_checked_and_made_what_the_hints_say():
    assert await everything.call(GIVEN, CONTEXT) == [
        "p", 3, 0.5, ["a"], {"a": 1.5}, Colour.RED, Point(1), Address(city="Ulm"), "fast", "none given", None, False
    ]  # fmt: skip


async def test_null_is_a_value_where_the_hint_has_it_and_else_not_given():
    got = await everything.call({**GIVEN, "note": None, "mode": None}, CONTEXT)
    assert got[8:10] == ["fast", None]


async def test_all_wrong_arguments_are_named_and_trying_again_is_in_vain():
    wrong = {**GIVEN, "number": "many", "colour": "green", "point": {}, "numbr": 1}
    del wrong["plain"]
    with pytest.raises(ToolError) as caught:
        await everything.call(wrong, CONTEXT)
    assert not caught.value.transient
    assert str(caught.value) == (
        "mixed: argument 'plain' is missing; argument 'number': must be a whole number; argument 'colour': must be "
        "'red' or 'blue'; argument 'point.x': field required; "
        "unknown argument 'numbr'; did you mean 'number'?"
    )


async def test_a_tool_without_parameters_says_that_it_takes_none():
    @tool
    async def now():
        return 1

    assert now.parameters == {"type": "object", "properties": {}, "additionalProperties": False}
    assert await now.call({}, CONTEXT) == 1
    with pytest.raises(ToolError, match=r"^now: unknown argument 'zone'; it takes none$"):
        await now.call({"zone": 1}, CONTEXT)


async def test_a_default_is_the_functions_own():
    default: list[int] = []

    @tool
    async def keep(items=default):
        return items

    assert await keep.call({}, CONTEXT) is default


async def test_a_plain_function_runs_in_a_worker_thread_and_an_async_one_does_not():
    @tool
    def plain():
        assert threading.current_thread().name.startswith("treadle tool plain")
        return threading.current_thread()

    @tool
    async def on_trio():
        return threading.current_thread()

    assert await plain.call({}, CONTEXT) is not threading.current_thread()
    assert await on_trio.call({}, CONTEXT) is threading.current_thread()


async def test_a_call_that_is_cancelled_leaves_its_thread_to_end_by_itself():
    begun, go_on, ended = threading.Event(), threading.Event(), threading.Event()

    @tool
    def wait():
        begun.set()
        go_on.wait(60)
        ended.set()

    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait.call, {}, CONTEXT)
            await trio.to_thread.run_sync(begun.wait, 60)
            scope.cancel()
    assert scope.cancelled_caught
    assert not ended.is_set()
    go_on.set()
    assert await trio.to_thread.run_sync(ended.wait, 60)


@pytest.mark.parametrize("is_async", [True, False])
async def test_the_context_is_given_and_not_shown(host, is_async):
    def plain(text: str, context: ToolContext) -> str:
        context.warn(f"careful with {text}")
        return context.step_id

    async def on_trio(text: str, context: ToolContext) -> str:
        return plain(text, context)

    made = FunctionTool(on_trio if is_async else plain, name="loud")
    assert list(made.parameters["properties"]) == ["text"]
    events = []
    async with treadle.open(host=host, tools=[made]) as session:
        workflow = treadle.workflow("x").step("call", id="a", tool_name="loud", tool_args={"text": "it"})
        result = await session.run(workflow.build(session.host), on_event=events.append)
    assert result.step_results["a"].output == "a"
    assert [each.message for each in events if isinstance(each, RunWarning)] == ["careful with it"]


async def test_a_plugin_may_offer_a_function_made_a_tool(host):
    plugins = {"words": offering({"tool": {"word_count": word_count}})}
    async with treadle.open(host=host, plugins=plugins) as session:
        workflow = treadle.workflow("x").step("call", id="a", tool_name="word_count", tool_args={"text": "a b c"})
        result = await session.run(workflow.build(session.host))
    assert result.step_results["a"].output == {"words": 3}


def positional(a, /):
    pass


def many(*words):
    pass


def keywords(**more):
    pass


def unknown(a: threading.Lock):
    pass


def unreadable(a: NotThere):  # noqa: F821
    pass


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (positional, "^tool 'positional': parameter 'a' cannot be given by name, as arguments are$"),
        (many, "^tool 'many': parameter 'words' cannot be given by name"),
        (keywords, "^tool 'keywords': parameter 'more' cannot be given by name"),
        (unknown, "^tool 'unknown': Unable to generate pydantic-core schema for"),
        (unreadable, "^tool 'unreadable': a type hint cannot be read: name 'NotThere' is not defined; define it at"),
        (lambda a: a, "^a function without a name needs one to be a tool"),
    ],
)
def test_what_cannot_be_a_tool_is_refused_when_it_is_made(function, text):
    with pytest.raises(TypeError, match=text):
        tool(function)


async def test_a_partial_function_is_a_tool_under_a_name():
    made = FunctionTool(functools.partial(everything.function, number=1), name="p")
    assert made.parameters["properties"]["number"]["default"] == 1


class Repeat(BaseTool):
    name = "repeat"
    description = "Repeat a text."
    parameters_schema = {"type": "object", "properties": {"text": {"type": "string"}}}  # noqa: RUF012 - as users write

    async def execute(self, text, times=2):
        return text * times


async def test_a_base_tool_takes_its_arguments_as_keywords():
    made = Repeat()
    assert isinstance(made, Tool)
    assert await made.call({"text": "ab"}, CONTEXT) == "abab"
    assert made.spec.parameters == Repeat.parameters_schema
    with pytest.raises(ToolError, match=r"^repeat: missing a required argument: 'text'$") as caught:
        await made.call({}, CONTEXT)
    assert not caught.value.transient


def test_a_misspelt_effect_is_refused_as_it_would_count_as_one_that_may_run_twice():
    def pay() -> None:
        raise AssertionError("it is not called")

    with pytest.raises(TypeError, match=r"^tool 'pay': effect is pure, idempotent or once, not 'onc'$"):
        treadle.tool(effect="onc")(pay)  # type: ignore[call-overload]


def test_a_registry_keeps_tools_by_name():
    registry = ToolRegistry([word_count, Repeat])
    assert registry.names() == ["repeat", "word_count"]
    assert [each.name for each in registry] == ["repeat", "word_count"]
    assert registry.get("word_count") is word_count
    assert "repeat" in registry
    assert len(registry) == 2
    with pytest.raises(NotInstalledError, match=r"^no tool 'word_cont'; did you mean 'word_count'\?$"):
        registry.get("word_cont")


def test_registering_a_name_again_replaces_the_tool_and_warns():
    registry, other = ToolRegistry([word_count]), FunctionTool(lambda: 1, name="word_count")
    with pytest.warns(UserWarning, match="^tool 'word_count' is registered already and is replaced; replace=True does"):
        registry.register(other)
    assert registry.get("word_count") is other
    registry.register(word_count, replace=True)
    assert registry.get("word_count") is word_count


def test_a_function_that_is_registered_becomes_a_tool():
    registry = ToolRegistry()
    registry.register(many_words)
    assert registry.get("many_words").parameters["required"] == ["text"]


def many_words(text, least: int = 100):
    return len(text.split()) >= least


async def test_a_session_takes_a_registry(host):
    async with treadle.open(host=host, tools=ToolRegistry([word_count, many_words])) as session:
        workflow = treadle.workflow("x").step(
            "call", id="a", tool_name="many_words", tool_args={"text": "a", "least": "1"}
        )
        result = await session.run(workflow.build(session.host))
    assert result.step_results["a"].output is True
