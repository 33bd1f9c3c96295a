"""Arguments of the wrong kind: one error that names them, before anything is done."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

import treadle
from treadle import ConfigurationError, DocumentError, Host
from treadle.testing import EchoProvider, offering


class Idle(treadle.Step):
    """Does nothing."""

    async def run(self, ctx: treadle.StepContext) -> treadle.StepOutcome:
        return treadle.StepOutcome()


HOST = Host.of({"doubles": offering({"provider": {"echo": EchoProvider}, "step_type": {"idle": Idle}})})


def flow() -> treadle.Workflow:
    return treadle.workflow("x", provider="echo").step("idle", id="a").build(HOST)


WORKFLOWS = "workflow: takes a Workflow or the path of its file"

WRONG: list[tuple[dict[str, Any], str]] = [
    ({"workflow": 5}, WORKFLOWS),
    ({"workflow": None}, WORKFLOWS),
    ({"workflow": {"name": "x"}}, WORKFLOWS),
    ({"workflow": treadle.workflow("x")}, WORKFLOWS),
    ({"state": ["a"]}, "state: takes a mapping of keys to values, not list"),
    ({"state": "a=b"}, "state: takes a mapping of keys to values, not str"),
    ({"config": ["provider"]}, "config: takes a mapping of fields, not list"),
    ({"on_event": "print"}, "on_event: takes a function of one event, not str"),
    ({"tools": 5}, "tools: takes a list of tools, not int"),
    ({"tools": "file_read"}, "tools: takes a list of tools, not str"),
    ({"tools": print}, "tools: takes a list of tools, not builtin_function_or_method"),
    ({"tools": {"a": print}}, "tools: takes a list of tools, not dict"),
    ({"tools": ["file_read"]}, "a tool is a function, a class of treadle.Tool or an object of one, not 'file_read'"),
    ({"providers": [EchoProvider]}, "providers: takes a mapping by name, not list"),
    ({"steps": [1]}, "steps: takes a mapping by name, not list"),
    ({"plugins": [1]}, "plugins: takes a mapping by name, not list"),
    ({"layers": 5}, "layers: takes a list, not int"),
    ({"layers": [5]}, "layers: a provider layer has the method exchange(), and 5 has none"),
    ({"providers": {"p": 5}}, "providers: 'p' is to be a Provider or a subclass of it, not 5"),
    ({"providers": {"p": int}}, "providers: 'p' is to be a Provider or a subclass of it, not <class 'int'>"),
]


@pytest.mark.parametrize(
    ("given", "message"), WRONG, ids=[f"{next(iter(given))}-{n}" for n, (given, _) in enumerate(WRONG)]
)
@pytest.mark.parametrize("how", ["sync", "asyncio"])
def test_run_names_the_argument_and_what_it_takes(given: dict[str, Any], message: str, how: str) -> None:
    arguments = {"workflow": flow(), **given}
    begin: Callable[[], object] = partial(treadle.run_sync, **arguments)
    if how == "asyncio":
        begin = partial(asyncio.run, treadle.run(**arguments))
    with pytest.raises(TypeError) as caught:
        begin()
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"state": [1]}, "state: takes a mapping of keys to values, not list"),
        ({"on_event": 5}, "on_event: takes a function of one event, not int"),
        ({"tools": "abc"}, "tools: takes a list of tools, not str"),
        ({"workflow": 5}, WORKFLOWS),
    ],
)
async def test_so_does_a_session(given: dict[str, Any], message: str) -> None:
    async with treadle.open(host=HOST) as session:
        with pytest.raises(TypeError) as caught:
            await session.run(**{"workflow": flow(), **given})
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: treadle.load_workflow(5, host=HOST), WORKFLOWS),  # type: ignore[arg-type]
        (lambda: treadle.build_workflow({}, host=HOST, config=[1]), "config: takes a mapping of fields, not list"),  # type: ignore[arg-type]
        (lambda: treadle.open(host="x"), "host: takes a Host, not str"),  # type: ignore[arg-type]
        (lambda: treadle.tool(5), "a tool is a function, a class of treadle.Tool or an object of one, not 5"),  # type: ignore[call-overload]
        (lambda: treadle.ToolRegistry([5]), "a tool is a function, a class of"),  # type: ignore[list-item]
    ],
)
def test_and_so_does_what_stands_around_them(call: Callable[[], object], message: str) -> None:
    with pytest.raises(TypeError) as caught:
        call()
    assert str(caught.value).startswith(message)


async def test_a_journal_is_an_object_and_no_path() -> None:
    with pytest.raises(TypeError, match=r"^journal: takes a Journal, as treadle.installed.* opens one, not str$"):
        async with treadle.open(host=HOST, journal="runs.db"):  # type: ignore[arg-type]
            raise AssertionError("it opened")


def test_a_provider_that_is_no_name_is_told_as_a_field() -> None:
    with pytest.raises(ConfigurationError, match=r"^config\.provider: must be text, not 5"):
        treadle.run_sync(flow(), config={"provider": 5})


async def test_functions_are_tools_of_one_run_too() -> None:
    def look() -> str:
        """Look."""
        return "found"

    data = {"name": "x", "steps": [{"id": "a", "type": "tool", "tool_name": "look", "output": "seen"}]}
    async with treadle.open() as session:
        result = await session.run(treadle.build_workflow(data, host=session.host), tools=[look])  # type: ignore[list-item]
    assert result.final_state == {"seen": "found"}


def test_what_a_step_waits_for_may_be_any_iterable_and_a_number_is_a_problem_of_the_document() -> None:
    builder = treadle.workflow("x", provider="echo").step("idle", id="a")
    builder.step("idle", id="b", depends_on=(each for each in ["a"]))
    assert builder.build(HOST).steps[1].depends_on == ("a",)
    with pytest.raises(DocumentError, match=r"depends_on: must be a list, not 5"):
        builder.step("idle", id="c", depends_on=5).build(HOST)  # type: ignore[arg-type]
