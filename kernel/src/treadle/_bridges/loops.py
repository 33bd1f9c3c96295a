"""The asyncio loop of the program that started a run, and calls from trio to it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import ContextVar, copy_context
from typing import TYPE_CHECKING, TypeVar

from treadle.errors import ToolError

if TYPE_CHECKING:
    import asyncio

__all__ = ["CALLERS_LOOP", "call_on", "of_the_loop"]

T = TypeVar("T")

CALLERS_LOOP: ContextVar[asyncio.AbstractEventLoop | None] = ContextVar("treadle_callers_loop", default=None)
"""Set in whatever a program on asyncio has started on trio."""

_WITHOUT_ASYNCIO = (
    "no running event loop",
    "no current event loop",
    "'NoneType' object has no attribute 'create_future'",  # queues, events and locks of asyncio
    "trio.run received unrecognized yield message",
)
_WITHOUT_TRIO = ("must be called from async context", "Task got bad yield: <class 'trio.")


def of_the_loop(tool_name: str, error: BaseException) -> BaseException:
    """A tool's error; where it came of a loop that is another than the tool was written for, a permanent one that says
    what to do about it.
    """
    told = None
    if isinstance(error, RuntimeError | TypeError | AttributeError) and any(
        each in str(error) for each in _WITHOUT_ASYNCIO
    ):
        told = ToolError(
            f"tool '{tool_name}' is written for asyncio, and there is no asyncio loop where it runs",
            hint="trio runs async tools: await trio.sleep() and the like, or, in a program on asyncio, write "
            '@treadle.tool(loop="asyncio"); one that is not async calls asyncio.run()',
            transient=False,
        )
    elif isinstance(error, RuntimeError) and str(error).startswith(_WITHOUT_TRIO):
        told = ToolError(
            f"tool '{tool_name}' is written for trio, and runs where there is none",
            hint='leave loop="asyncio" out; a tool that is not async calls trio.from_thread.run()',
            transient=False,
        )
    if told is None:
        return error
    told.__cause__ = error
    return told


async def call_on(loop: asyncio.AbstractEventLoop, function: Callable[[], Awaitable[T]]) -> T:
    """Await a function in a task of its own on an asyncio loop, which runs in another thread.

    A cancellation here cancels that task, whose end is waited for.

    :raises ToolError: the task was cancelled there, or the loop has ended.
    """
    import trio

    token, context, ended = trio.lowlevel.current_trio_token(), copy_context(), trio.Event()
    started: list[asyncio.Task[T]] = []

    async def call() -> T:
        return await function()

    def start() -> None:
        task = loop.create_task(call(), context=context)
        task.add_done_callback(lambda _: token.run_sync_soon(ended.set))
        started.append(task)

    try:
        loop.call_soon_threadsafe(start)
    except RuntimeError as error:
        raise ToolError("the program's asyncio loop has ended", transient=False) from error
    try:
        await ended.wait()
    finally:
        if not ended.is_set():
            # In the order in which they are asked for: it has been started by then.
            loop.call_soon_threadsafe(lambda: started[0].cancel())
            with trio.CancelScope(shield=True):
                await ended.wait()
    if started[0].cancelled():
        raise ToolError("its task was cancelled by the program")
    return started[0].result()
