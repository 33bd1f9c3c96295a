"""The suite of tools."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, get_args

import trio

from treadle._engine.state import check_value
from treadle.contracts.sandbox import Sandbox
from treadle.contracts.tool import Effect, Tool, ToolContext
from treadle.errors import SandboxError, StateError, ToolError, TreadleError
from treadle.testing.cancellation import check_cancellation, in_sentences, leaving_nothing
from treadle.testing.sandbox import FakeSandbox
from treadle.testing.schemas import fault_of_schema
from treadle.tools import as_tool

__all__ = ["check_tool", "check_tool_class"]

_NOT_GIVEN: Any = object()
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""What every vendor takes as the name of a function."""
_UNICODE = "Grüße, 世界 🙂 \u202e"


@in_sentences
async def check_tool(
    tool: Tool | type[Tool] | Callable[..., Any],
    arguments: Mapping[str, Any],
    *,
    sandbox: Callable[[], Sandbox] = FakeSandbox,
    expect: Any = _NOT_GIVEN,
    failing: Sequence[Mapping[str, Any]] = (),
) -> None:
    """Hold a tool to its contract: what it declares, values, errors, the sandbox, calls at once, cancellation.

    :param tool: the tool, its class, or a function, as ``treadle.open(tools=...)`` takes them.
    :param arguments: an example that succeeds.
    :param sandbox: gives the sandbox of each call. With a ``FakeSandbox`` it is also seen what the tool does to it.
    :param expect: the value of the example.
    :param failing: arguments that must be answered with a ``ToolError`` or ``SandboxError``.
    :raises AssertionError: with what it did, and what the contract says of that.
    """
    made = as_tool(tool)
    check_tool_class(made)
    what = f"tool '{made.name}'"
    _check_example(made, arguments, what)
    async with leaving_nothing(what):
        box = sandbox()
        value = await _call(made, arguments, box, what)
        if expect is not _NOT_GIVEN and value != expect:
            raise AssertionError(f"{what} gave {value!r}, and {expect!r} was expected")
        _check_effect(made, arguments, box, what)
        await _check_at_once(made, arguments, sandbox, what)
        await _check_wrong_arguments(made, arguments, sandbox, failing, what)
        if isinstance(box, FakeSandbox) and box.used:
            await _check_refusals(made, arguments, what)
    await check_cancellation(lambda: made.call(copy.deepcopy(dict(arguments)), _context(sandbox())), what=what)


def check_tool_class(kind: Any) -> None:
    """What can be said of a tool, or of its class, without calling it."""
    if not isinstance(kind, Tool) and not callable(kind):
        raise AssertionError(f"{kind!r} is no tool; offer a subclass of treadle.Tool or what @treadle.tool makes")
    tool = as_tool(kind)
    name = getattr(tool, "name", None)
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise AssertionError(f"a tool is called {name!r}; models take letters, digits, '_' and '-', at most 64 of them")
    what = f"tool '{name}'"
    description: Any = tool.description
    if not isinstance(description, str) or not description.strip():
        raise AssertionError(f"{what} has no description, which is all that a model knows of it")
    if fault := fault_of_schema(tool.parameters):
        raise AssertionError(f"{what}: its parameters are no JSON Schema of an object: {fault}")
    if tool.effect not in (None, *get_args(Effect)):
        raise AssertionError(f"{what}: its effect is {tool.effect!r}; it is pure, idempotent, once or None")
    if tool.timeout is not None and not tool.timeout > 0:
        raise AssertionError(f"{what}: its timeout is {tool.timeout!r}; it is in seconds, or None")


def _check_example(tool: Tool, arguments: Mapping[str, Any], what: str) -> None:
    properties = tool.parameters.get("properties", {})
    for name in tool.parameters.get("required", ()):
        if name not in arguments:
            raise AssertionError(f"{what} requires '{name}', which the example lacks")
    if tool.parameters.get("additionalProperties") is not True:
        for name in arguments:
            if name not in properties:
                raise AssertionError(f"{what} takes '{name}' in the example and does not declare it")


async def _call(tool: Tool, arguments: Mapping[str, Any], sandbox: Sandbox, what: str) -> Any:
    given = copy.deepcopy(dict(arguments))
    async with sandbox:
        value = await tool.call(given, _context(sandbox))
    if given != arguments:
        raise AssertionError(f"{what} changed the arguments it was given")
    try:
        check_value(value, "its value")
        json.dumps(value, allow_nan=False, default=lambda each: each.model_dump(mode="json"))
    except (StateError, TypeError, ValueError) as error:
        raise AssertionError(f"{what} gave what is no JSON value: {error}") from error
    return value


def _check_effect(tool: Tool, arguments: Mapping[str, Any], sandbox: Sandbox, what: str) -> None:
    effect = tool.effect_of(arguments)
    if effect not in (None, *get_args(Effect)):
        raise AssertionError(f"{what}: effect_of() gave {effect!r}; it is pure, idempotent, once or None")
    if effect != "pure" or not isinstance(sandbox, FakeSandbox):
        return
    sent = [request.method for _, request in sandbox.requests if request.method.upper() not in ("GET", "HEAD")]
    did = (
        ("wrote a file", sandbox.writes),
        ("ran a command", sandbox.commands_run),
        (f"sent a {sent[0] if sent else ''} request", sent),
    )
    for text, happened in did:
        if happened:
            raise AssertionError(f"{what} says that the call is pure, and {text}")


async def _check_at_once(tool: Tool, arguments: Mapping[str, Any], sandbox: Callable[[], Sandbox], what: str) -> None:
    if not tool.parallel_safe:
        return
    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(_call, tool, arguments, sandbox(), what)


async def _check_wrong_arguments(
    tool: Tool,
    arguments: Mapping[str, Any],
    sandbox: Callable[[], Sandbox],
    failing: Sequence[Mapping[str, Any]],
    what: str,
) -> None:
    for name in tool.parameters.get("required", ()):
        rest = {key: value for key, value in arguments.items() if key != name}
        error = await _error(tool, rest, sandbox, f"{what} without its argument '{name}'")
        if error is None:
            raise AssertionError(f"{what} requires '{name}', and a call without it succeeded")
        if error.transient:
            raise AssertionError(f"{what} without its argument '{name}': the error is transient; it would come again")
    for each in failing:
        shown = json.dumps(each, ensure_ascii=False)
        if await _error(tool, each, sandbox, f"{what} with {shown}") is None:
            raise AssertionError(f"{what} with {shown} must fail, and succeeded")
    for name, value in arguments.items():
        if isinstance(value, str):
            text = f"{what} with a text in several scripts as '{name}'"
            await _error(tool, {**arguments, name: value + _UNICODE}, sandbox, text)


async def _error(
    tool: Tool, arguments: Mapping[str, Any], sandbox: Callable[[], Sandbox], how: str
) -> TreadleError | None:
    try:
        async with sandbox() as box:
            await tool.call(copy.deepcopy(dict(arguments)), _context(box))
    except (ToolError, SandboxError) as error:
        return error
    except Exception as error:
        raise AssertionError(
            f"{how} raised {type(error).__name__}: {error}; a tool fails with ToolError or SandboxError"
        ) from error
    return None


async def _check_refusals(tool: Tool, arguments: Mapping[str, Any], what: str) -> None:
    for box, how in ((FakeSandbox(refuses="*"), "where the sandbox refuses"), (None, "without a sandbox")):
        try:
            await tool.call(copy.deepcopy(dict(arguments)), _context(box))
        except SandboxError as error:
            if "sandbox" not in str(error) or error.transient:
                raise AssertionError(f"{what} {how}: the error must be permanent and say sandbox: {error}") from error
        except Exception as error:
            remedy = " (context.require_sandbox gives it)" if box is None else ""
            raise AssertionError(
                f"{what} {how} raised {type(error).__name__}: {error}; SandboxError is wanted{remedy}"
            ) from error
        else:
            raise AssertionError(f"{what} {how} succeeded; a refusal must come out as SandboxError")


def _context(sandbox: Sandbox | None) -> ToolContext:
    return ToolContext(run_id="run", step_id="step", call_id="call", sandbox=sandbox)
