"""Running the tool calls of a reply: exactly one result for each, in their order, whatever happens."""

from __future__ import annotations

import contextvars
import functools
import inspect
import json
import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import treadle
from treadle.threads import await_on_callers_loop
from treadle_loop.arguments import echo
from treadle_loop.conversations.summaries import UNREGISTERED
from treadle_loop.conversations.toolbox import Registry, ToolSpec
from treadle_loop.transcript import ToolCallPart, ToolResultPart

__all__ = ["Executor"]

_log = logging.getLogger("treadle_loop")

_MOST_THREADS = 8


class _TimedOut(Exception):
    """The tool's own time is up."""


class Executor:
    """Runs calls, in threads or on trio.

    :param began: called with each call, and with the call as observers see it.
    :param ended: called with the call as observers see it, its result and the seconds.
    """

    def __init__(
        self,
        registry: Registry,
        deps: Any,
        *,
        began: Callable[[ToolCallPart, ToolCallPart], None],
        ended: Callable[[ToolCallPart, ToolResultPart, float], None],
    ) -> None:
        self._registry = registry
        self._deps = deps
        self._began = began
        self._ended = ended
        self._telling = threading.Lock()

    # --- in threads ---

    def run(self, calls: Sequence[ToolCallPart]) -> list[ToolResultPart]:
        """All of them: side by side where there are several and all of them may be, else one after another."""
        if not self._at_once(calls):
            return [self._one(call) for call in calls]
        with ThreadPoolExecutor(min(_MOST_THREADS, len(calls)), thread_name_prefix="treadle-tool") as pool:
            running = [pool.submit(contextvars.copy_context().run, self._one, call) for call in calls]
            try:
                return [each.result() for each in running]
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def _one(self, call: ToolCallPart) -> ToolResultPart:
        began = self._tell_began(call)
        refused = self._refused(call, self._asked)
        if isinstance(refused, ToolResultPart):
            return self._told(call, refused, began)
        spec = refused
        try:
            value = _call(spec, functools.partial(spec.handler, self._deps, **call.arguments))
            result = _success(call, value)
        except (Exception, SystemExit) as error:  # no tool ends the program
            result = _failed(call, spec, error)
        return self._told(call, result, began)

    def _asked(self, call: ToolCallPart) -> Any:
        return self._deps.before_tool(call)

    # --- on trio ---

    async def run_on_trio(self, calls: Sequence[ToolCallPart], limiter: Any) -> list[ToolResultPart]:
        """The same on trio: async handlers are awaited, others run in threads, at most eight."""
        if not self._at_once(calls):
            return [await self._one_on_trio(call, limiter) for call in calls]
        results: dict[int, ToolResultPart] = {}

        async def fill(index: int, call: ToolCallPart) -> None:
            results[index] = await self._one_on_trio(call, limiter)

        from treadle.nurseries import open_nursery  # it imports trio

        async with open_nursery() as nursery:
            for index, call in enumerate(calls):
                nursery.start_soon(fill, index, call)
        return [results[index] for index in range(len(calls))]

    async def _one_on_trio(self, call: ToolCallPart, limiter: Any) -> ToolResultPart:
        began = self._tell_began(call)
        answer: Any = None
        try:
            answer = self._deps.before_tool(call) if self._runs(call) else None
            if inspect.isawaitable(answer):
                answer = await answer
        except (Exception, SystemExit) as error:
            answer = error

        def given(_: ToolCallPart) -> Any:
            if isinstance(answer, Exception | SystemExit):
                raise answer
            return answer

        refused = self._refused(call, given)
        if isinstance(refused, ToolResultPart):
            return self._told(call, refused, began)
        spec = refused
        try:
            value = await _call_on_trio(spec, functools.partial(spec.handler, self._deps, **call.arguments), limiter)
            result = _success(call, value)
        except (Exception, SystemExit) as error:
            result = _failed(call, spec, error)
        except BaseExceptionGroup as group:  # of a nursery of its own
            if group.split((Exception, SystemExit))[1] is not None:
                raise
            from treadle.nurseries import lone_error

            result = _failed(call, spec, lone_error(group))
        return self._told(call, result, began)

    # --- both ---

    def _at_once(self, calls: Sequence[ToolCallPart]) -> bool:
        found = [self._registry.get(call.tool_name) for call in calls]
        return len(calls) > 1 and all(spec is None or spec.parallel_safe for spec in found)

    def _runs(self, call: ToolCallPart) -> bool:
        return call.parse_error is None and call.tool_name in self._registry

    def _refused(self, call: ToolCallPart, ask: Callable[[ToolCallPart], Any]) -> ToolResultPart | ToolSpec:
        """Why the call does not run, or the tool."""
        if call.parse_error is not None:
            return _error(
                call,
                f"Error: the arguments of '{call.tool_name}' are not valid JSON: {call.parse_error}. They were: "
                f"{echo(call.raw_arguments)}. Re-issue the call with valid JSON.",
            )
        spec = self._registry.get(call.tool_name)
        if spec is None:
            names = ", ".join(self._registry.names())
            there_are = f"The tools are: {names}" if names else "There are no tools"
            return _error(call, f"Error: there is no tool '{call.tool_name}'. {there_are}.")
        try:
            denied = ask(call)
        except (Exception, SystemExit):
            _log.exception("before_tool failed for tool %s", call.tool_name)
            return _error(call, f"Error: the approval hook failed, so '{call.tool_name}' did not run.")
        if denied is not None:
            return _error(call, f"Denied: {denied}")
        try:
            self._registry.signature(call.tool_name).bind(self._deps, **call.arguments)
        except TypeError as error:
            schema = json.dumps(spec.parameters, ensure_ascii=False, default=str)
            return _error(
                call, f"Invalid arguments for '{call.tool_name}': {error}. They must fit this JSON Schema: {schema}"
            )
        return spec

    def _tell_began(self, call: ToolCallPart) -> float:
        with self._telling:  # observers and counts are used by one thread at a time
            self._began(call, self._seen(call))
        return time.monotonic()

    def _told(self, call: ToolCallPart, result: ToolResultPart, began: float) -> ToolResultPart:
        seconds = time.monotonic() - began
        with self._telling:
            self._ended(self._seen(call), result, seconds)
        return result

    def _seen(self, call: ToolCallPart) -> ToolCallPart:
        """As observers see it: a name that the model made up may be anything."""
        if call.tool_name in self._registry:
            return call
        return call.model_copy(update={"tool_name": UNREGISTERED})


def _call(spec: ToolSpec, function: Callable[[], Any]) -> Any:
    """Call a handler, for as long as it may take. One whose time is up goes on in its thread, and nobody waits."""
    if spec.timeout_seconds is None:
        return function()
    ended: list[tuple[Any, BaseException | None]] = []

    def run() -> None:
        try:
            ended.append((function(), None))
        except BaseException as error:
            ended.append((None, error))

    context = contextvars.copy_context()
    thread = threading.Thread(target=context.run, args=(run,), name=f"treadle-tool-{spec.name}", daemon=True)
    thread.start()
    thread.join(spec.timeout_seconds)
    if not ended:
        raise _TimedOut
    value, error = ended[0]
    if error is not None:
        raise error
    return value


async def _call_on_trio(spec: ToolSpec, function: Callable[[], Any], limiter: Any) -> Any:
    import trio

    with trio.move_on_after(spec.timeout_seconds or float("inf")) as scope:
        if inspect.iscoroutinefunction(spec.handler):
            return await await_on_callers_loop(function)
        value = await trio.to_thread.run_sync(function, abandon_on_cancel=True, limiter=limiter)
        return await await_on_callers_loop(lambda: value) if inspect.isawaitable(value) else value
    if scope.cancelled_caught:
        raise _TimedOut
    raise AssertionError("it returns, or its time is up")


def _success(call: ToolCallPart, value: Any) -> ToolResultPart:
    return ToolResultPart(call_id=call.id, tool_name=call.tool_name, content=str(value))


def _error(call: ToolCallPart, text: str) -> ToolResultPart:
    return ToolResultPart(call_id=call.id, tool_name=call.tool_name, content=text, is_error=True)


def _failed(call: ToolCallPart, spec: ToolSpec, error: BaseException) -> ToolResultPart:
    if isinstance(error, _TimedOut):
        return _error(
            call,
            f"Error: '{spec.name}' timed out after {spec.timeout_seconds:g} s; the outcome is unknown, as it may "
            "still take effect.",
        )
    if isinstance(error, treadle.ToolError):
        return _error(call, f"Error: {error}")
    _log.error("tool %s failed", spec.name, exc_info=error)
    return _error(call, f"Error: {type(error).__name__}: {error}")
