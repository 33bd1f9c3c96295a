"""Two ways to run the loop: on trio, and in plain synchronous code."""

from __future__ import annotations

import functools
import time
from collections.abc import Awaitable, Callable, Generator, Sequence
from typing import Any, TypeVar

from treadle import ModelRequest, ModelResponse, ToolCallPart, ToolResultPart
from treadle_loop.asks import Ask, AskModel, RunTools

__all__ = ["drive", "drive_sync"]

T = TypeVar("T")


async def drive(
    loop: Generator[Ask, Any, T],
    *,
    complete: Callable[[ModelRequest], Awaitable[ModelResponse]],
    run_tool: Callable[[ToolCallPart], Awaitable[ToolResultPart]] | None = None,
    run_tools: Callable[[RunTools], Awaitable[Sequence[ToolResultPart]]] | None = None,
) -> T:
    """Run a loop on trio, to its end.

    :param complete: sends a request. What it raises ends the loop and is raised here.
    :param run_tool: runs one call, and makes a result of what the model is to hear of; what it raises ends the loop.
        Calls that may run at once are begun in the order of the reply.
    :param run_tools: instead of it: runs all calls of a reply and gives one result for each, in order.
    """
    import trio

    if run_tools is None:
        if run_tool is None:
            raise TypeError("drive() takes run_tool or run_tools")
        run_tools = functools.partial(_run, run_tool)
    answer: Any = None
    try:
        while True:
            ask = loop.send(answer)
            if type(ask) is AskModel:
                answer = await complete(ask.request)
            elif type(ask) is RunTools:
                answer = await run_tools(ask)
            else:
                answer = trio.current_time()
    except StopIteration as end:
        result: T = end.value
        return result
    finally:
        loop.close()


async def _run(
    run_tool: Callable[[ToolCallPart], Awaitable[ToolResultPart]], ask: RunTools
) -> Sequence[ToolResultPart]:
    if len(ask.calls) == 1 or not ask.at_once:
        return [await run_tool(call) for call in ask.calls]
    from treadle.nurseries import open_nursery  # it imports trio

    results: list[ToolResultPart | None] = [None] * len(ask.calls)

    async def fill(index: int, running: Awaitable[ToolResultPart]) -> None:
        results[index] = await running

    async with open_nursery() as nursery:
        for index, call in enumerate(ask.calls):
            # What is not awaited of `run_tool` happens here, in the order of the reply: trio starts tasks in any order.
            nursery.start_soon(fill, index, run_tool(call))
    return [each for each in results if each is not None]


def drive_sync(
    loop: Generator[Ask, Any, T],
    *,
    complete: Callable[[ModelRequest], ModelResponse],
    run_tools: Callable[[RunTools], Sequence[ToolResultPart]],
    clock: Callable[[], float] = time.monotonic,
) -> T:
    """Run a loop in plain code, to its end.

    :param complete: sends a request.
    :param run_tools: runs the calls of a reply and gives one result for each, in order.
    :param clock: seconds.
    """
    answer: Any = None
    try:
        while True:
            ask = loop.send(answer)
            if type(ask) is AskModel:
                answer = complete(ask.request)
            elif type(ask) is RunTools:
                answer = run_tools(ask)
            else:
                answer = clock()
    except StopIteration as end:
        result: T = end.value
        return result
    finally:
        loop.close()
