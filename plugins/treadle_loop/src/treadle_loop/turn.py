"""One turn of a model in a step: the loop, on the step's own model calls and tools."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Iterable

from treadle import (
    ModelRequest,
    NotInstalledError,
    StepContext,
    Tool,
    ToolCallPart,
    ToolResultPart,
    ToolSpec,
    TreadleError,
)
from treadle_loop.arguments import ArgumentCheck, canonical
from treadle_loop.loop import LoopSettings, Outcome, converse
from treadle_loop.tools import LoopTool, failure, result_of

__all__ = ["StepTools", "loop_tool", "registered", "take_turn"]


def loop_tool(tool: Tool, spec: ToolSpec | None = None, *, max_calls: int | None = None) -> LoopTool:
    """A registered tool for the loop.

    :param spec: as the model is to see it; the tool's own where None. Arguments are held to the tool's own schema.
    """
    return LoopTool(
        spec=spec or tool.spec,
        check=ArgumentCheck(tool.name, tool.parameters),
        parallel_safe=tool.parallel_safe,
        max_calls=max_calls,
    )


async def take_turn(ctx: StepContext, request: ModelRequest, settings: LoopSettings) -> Outcome:
    """Run the loop in a step. Its tools are registered ones, by name.

    Whatever a tool raises goes back to the model as the call's result. What a model call raises is raised here.
    """
    from treadle_loop.drivers import drive  # which brings trio: checking a document needs none

    return await drive(converse(request, settings), complete=ctx.complete, run_tool=StepTools(ctx).run)


class StepTools:
    """Runs calls for a step, as the model asks for them."""

    def __init__(self, ctx: StepContext) -> None:
        self._ctx = ctx
        self._told: set[int] = set()

    def run(self, call: ToolCallPart) -> Awaitable[ToolResultPart]:
        """Begin one call; awaited, it gives what the model hears.

        A ``once`` tool that an earlier attempt of the step has run with other arguments is not run straight away:
        the model does not know of that attempt, and is told first. Calling again runs it.
        """
        assert call.arguments is not None, "the loop runs no call without arguments"
        if (done := self._untold(call)) is not None:
            return _given(failure(call, done))
        # Called here and not awaited: the call gets its number now, in the order of the reply.
        running = self._ctx.call_tool(call.tool_name, dict(call.arguments))
        return _heard(call, running)

    def _untold(self, call: ToolCallPart) -> str | None:
        earlier = [each for each in self._ctx.done_calls(call.tool_name) if id(each) not in self._told]
        if not earlier:
            return None
        asked = canonical(call.arguments)
        if any(canonical(each.arguments) == asked for each in earlier):
            return None
        self._told.update(id(each) for each in earlier)
        done = "; ".join(
            f"with {canonical(each.arguments)} it gave {json.dumps(each.result, ensure_ascii=False, default=str)[:500]}"
            for each in earlier
        )
        return (
            f"not run: '{call.tool_name}' was called before in this step, which is being tried again: {done}. "
            "If this further call is still needed, make it again"
        )


async def _given(result: ToolResultPart) -> ToolResultPart:
    return result


async def _heard(call: ToolCallPart, running: Awaitable[object]) -> ToolResultPart:
    try:
        return result_of(call, await running)
    except TreadleError as error:
        return failure(call, f"{error.message}; {error.hint}" if error.hint else error.message)


def registered(ctx: StepContext, names: Iterable[str]) -> dict[str, Tool]:
    """Those of the tools that are there."""
    found: dict[str, Tool] = {}
    for name in names:
        try:
            found[name] = ctx.tool(name)
        except NotInstalledError:
            continue
    return found
