"""Tools called by steps: their time limit, their errors, their sandbox, and what is told of them."""

from __future__ import annotations

import re
import sys
from typing import Any

import pytest
import trio
from engine_doubles import Recorder, act, flow, host_of, run, sandbox_class, statuses

import treadle
from treadle._language import ArgumentTree
from treadle.contracts.events import RunWarning, ToolCallFinished, ToolCallStarted
from treadle.contracts.sandbox import Sandbox
from treadle.contracts.tool import Tool
from treadle.errors import SandboxError, ToolError


def tool(do: Any, *, timeout: float | None = None) -> type[Tool]:
    """A tool class that does this."""

    class Made(Tool):
        name = "t"

        async def call(self, arguments, context):
            return await do(arguments, context)

    Made.timeout = timeout
    return Made


async def call(made: type[Tool], arguments: Any = None, **how: Any) -> tuple[Any, Recorder]:
    """A step that calls the tool once and gives its result."""

    async def behave(ctx):
        return await ctx.call_tool("t", arguments or {}, call_id="c1")

    recorder = Recorder()
    result = await run(flow(host_of({"a": behave}, tools={"t": made}, **how), act("a")), observers=[recorder])
    return result.step_results["a"], recorder


async def test_a_tool_gets_its_arguments_and_who_calls_and_its_result_is_the_steps():
    seen = []

    async def do(arguments, context):
        seen.append((arguments, context.step_id, context.call_id, context.sandbox))
        context.warn("careful")
        return {"n": 1}

    step, recorder = await call(tool(do), {"x": [1]})
    assert step.output == {"n": 1}
    assert seen == [({"x": [1]}, "a", "c1", None)]
    assert recorder.told() == [
        "RunStarted", "StepStarted a", "ToolCallStarted a", "RunWarning a", "ToolCallFinished a", "StepFinished a",
        "RunFinished",
    ]  # fmt: skip
    warning = next(event for event in recorder.events if isinstance(event, RunWarning))
    assert (warning.step_id, warning.message) == ("a", "careful")
    started = next(event for event in recorder.events if isinstance(event, ToolCallStarted))
    finished = next(event for event in recorder.events if isinstance(event, ToolCallFinished))
    assert (started.call_id, started.tool_name) == (finished.call_id, finished.tool_name) == ("c1", "t")
    assert finished.error is None


async def test_calls_without_an_id_are_numbered_within_the_attempt():
    ids = []

    async def do(arguments, context):
        ids.append(context.call_id)

    async def twice(ctx):
        await ctx.call_tool("t", {})
        await ctx.call_tool("t", {})

    await run(flow(host_of({"a": twice}, tools={"t": tool(do)}), act("a")))
    assert ids == ["a.1.1", "a.1.2"]


async def test_a_tool_that_takes_too_long_is_an_error_that_says_its_outcome_is_unknown(autojump_clock):
    async def do(arguments, context):
        await trio.sleep_forever()

    step, recorder = await call(tool(do, timeout=2))
    assert step.error == "tool 't' timed out after 2 s; whether it had an effect is unknown"
    assert step.error_classification == "transient"
    finished = next(event for event in recorder.events if isinstance(event, ToolCallFinished))
    assert (finished.seconds, finished.error) == (pytest.approx(2), step.error)


async def leaves(arguments, context):
    sys.exit(3)


async def leaves_in_a_thread(arguments, context):
    await trio.to_thread.run_sync(sys.exit, 3)


async def leaves_in_a_nursery(arguments, context):
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.to_thread.run_sync, sys.exit, 3)
        nursery.start_soon(trio.sleep_forever)


@pytest.mark.parametrize("do", [leaves, leaves_in_a_thread, leaves_in_a_nursery])
async def test_a_tool_that_calls_sys_exit_has_failed_and_ends_nothing_else(do):
    step, recorder = await call(tool(do))
    assert (step.status, step.error) == ("failed", "tool 't' failed: SystemExit: 3")
    finished = next(event for event in recorder.events if isinstance(event, ToolCallFinished))
    assert finished.error == "3"


async def test_ctrl_c_in_a_tool_is_no_failure_of_the_tool():
    async def do(arguments, context):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await call(tool(do))


async def test_a_foreign_exception_of_a_tool_is_reported_with_its_type():
    async def do(arguments, context):
        return arguments["missing"]

    step, recorder = await call(tool(do))
    assert step.error == "tool 't' failed: KeyError: 'missing'"
    assert next(event for event in recorder.events if isinstance(event, ToolCallFinished)).error == "'missing'"


@pytest.mark.parametrize(
    ("error", "kind"), [(ToolError("no luck"), "transient"), (SandboxError("sandbox: no"), "permanent")]
)
async def test_an_error_of_ours_passes_as_it_is(error, kind):
    async def do(arguments, context):
        raise error

    step, _ = await call(tool(do))
    assert (step.error, step.error_classification) == (str(error), kind)


async def test_the_one_error_of_a_tools_nursery_is_the_tools_error():
    async def do(arguments, context):
        async with trio.open_nursery():
            raise ToolError("inside")

    step, _ = await call(tool(do))
    assert step.error == "inside"


async def test_a_result_that_is_no_json_is_refused_with_its_place():
    async def do(arguments, context):
        return {"items": [b"raw"]}

    step, recorder = await call(tool(do))
    assert step.error == (
        "the result of tool 't'.items[0]: a value of type bytes cannot be kept in the state; give JSON values (text, "
        "numbers, booleans, null, lists, mappings) or a pydantic model"
    )
    assert next(event for event in recorder.events if isinstance(event, ToolCallFinished)).error == step.error


async def test_a_tool_that_is_cancelled_is_not_told_as_a_success(autojump_clock):
    async def do(arguments, context):
        await trio.sleep_forever()

    async def behave(ctx):
        await ctx.call_tool("t", {})

    recorder = Recorder()
    host = host_of({"a": behave}, tools={"t": tool(do)})
    result = await run(flow(host, act("a"), config={"timeout": 1}), observers=[recorder])
    assert statuses(result) == {"a": "cancelled"}
    finished = next(event for event in recorder.events if isinstance(event, ToolCallFinished))
    assert finished.error == "cancelled; whether it had an effect is unknown"


async def test_an_unknown_tool_is_a_permanent_error():
    async def behave(ctx):
        await ctx.call_tool("tt", {})

    result = await run(flow(host_of({"a": behave}, tools={"t": tool(None)}), act("a")))
    assert result.step_results["a"].error.startswith("no tool 'tt'; did you mean 't'")
    assert result.step_results["a"].error_classification == "permanent"


async def test_a_tool_that_needs_a_sandbox_where_none_is_installed_says_how_to_get_one():
    async def do(arguments, context):
        context.require_sandbox("t")

    step, _ = await call(tool(do))
    assert step.error == (
        "tool 't' reaches the world through a sandbox, and none is installed; pip install treadle-sandbox"
    )
    assert step.error_classification == "permanent"


async def test_the_sandbox_is_opened_once_a_run_and_closed_with_it():
    seen = []

    async def do(arguments, context):
        seen.append((context.require_sandbox("t"), context.sandbox.block.enabled))

    async def behave(ctx):
        await ctx.call_tool("t", {})

    sandbox = sandbox_class()
    host = host_of(dict.fromkeys("abc", behave), tools={"t": tool(do)}, sandbox=sandbox)
    workflow = flow(host, act("a"), act("b"), act("c", "a"), config={"sandbox": {"enabled": True}})
    async with treadle.open(host=host) as session:
        await session.run(workflow)
        assert [entry.split()[0] for entry in sandbox.log] == ["opened", "closed"]
        await session.run(workflow)
        assert [entry.split()[0] for entry in sandbox.log] == ["opened", "closed"] * 2
    assert len({id(each) for each, _ in seen}) == 2
    assert {enabled for _, enabled in seen} == {True}


async def test_a_sandbox_class_that_cannot_be_made_is_its_plugins_fault():
    async def behave(ctx):
        await ctx.call_tool("t", {})

    async def do(arguments, context):
        context.require_sandbox("t")

    half = type("Half", (Sandbox,), {"block_model": sandbox_class().block_model})
    result = await run(flow(host_of({"a": behave}, tools={"t": tool(do)}, sandbox=half), act("a")))
    told = str(result.step_results["a"].exception)
    assert re.match(r"sandbox '.*' of plugin '.*' cannot be opened: TypeError: Can't instantiate abstract class", told)


async def test_without_a_tool_call_no_sandbox_is_opened():
    sandbox = sandbox_class()
    await run(flow(host_of(sandbox=sandbox), act("a")))
    assert sandbox.log == []


async def test_one_tool_object_serves_a_session():
    made = []

    class Counted(Tool):
        name = "t"

        def __init__(self) -> None:
            made.append(self)

        async def call(self, arguments, context):
            return None

    async def behave(ctx):
        await ctx.call_tool("t", {})

    host = host_of({"a": behave, "b": behave}, tools={"t": Counted})
    async with treadle.open(host=host) as session:
        await session.run(flow(host, act("a"), act("b")))
        await session.run(flow(host, act("a")))
    assert len(made) == 1


async def test_arguments_that_pass_a_value_of_the_state_pass_a_copy():
    async def do(arguments, context):
        arguments["items"].append(3)
        return arguments["items"]

    async def behave(ctx):
        arguments = ArgumentTree._from_document({"items": "state.items"})
        return await ctx.call_tool("t", ctx.render_arguments(arguments))

    workflow = flow(host_of({"a": behave}, tools={"t": tool(do)}), act("a", output="made"), state={"items": [1, 2]})
    result = await run(workflow)
    assert result.final_state == {"items": [1, 2], "made": [1, 2, 3]}
