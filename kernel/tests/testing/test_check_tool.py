"""The suite of tools passes good ones, and has a sentence for each fault."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import pytest
import trio
import trio.lowlevel

from treadle import HttpRequest, SandboxError, Tool, ToolContext, ToolError, tool
from treadle.testing import FakeSandbox, check_tool
from treadle.testing.schemas import fault_of_schema

SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}


def box() -> FakeSandbox:
    return FakeSandbox(files={"a.txt": "hello"}, commands={"ls": "a.txt"}, urls={"http://x/": "page"})


class Read(Tool):
    """Reads a file, and is broken in the way that a test says."""

    name = "read"
    description = "Read a file"
    parameters = SCHEMA
    effect = "pure"

    async def call(self, arguments: Mapping[str, Any], context: ToolContext) -> Any:
        if "path" not in arguments:
            raise ToolError("read: argument 'path' is missing", transient=False)
        return await self.read(arguments, context)

    async def read(self, arguments: Mapping[str, Any], context: ToolContext) -> Any:
        try:
            return (await context.require_sandbox(self.name).read(arguments["path"])).decode()
        except OSError as error:
            raise ToolError(f"read: {error}", transient=False) from error


@tool
async def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    await trio.lowlevel.checkpoint()
    return a + b


@tool
def join(words: list[str]) -> str:
    """Join words, in a thread."""
    return " ".join(words)


async def test_good_tools_pass() -> None:
    await check_tool(Read, {"path": "a.txt"}, sandbox=box, expect="hello", failing=[{"path": "b.txt"}])
    await check_tool(add, {"a": 1}, expect=2, failing=[{"a": "x"}, {"a": 1, "c": 2}])
    await check_tool(join, {"words": ["a", "b"]}, expect="a b")


class Missing(Read):
    async def call(self, arguments: Mapping[str, Any], context: ToolContext) -> Any:
        return await self.read({"path": arguments["path"]}, context)


class Optional(Read):
    async def call(self, arguments: Mapping[str, Any], context: ToolContext) -> Any:
        return await self.read({"path": "a.txt", **arguments}, context)


class Transient(Read):
    async def call(self, arguments: Mapping[str, Any], context: ToolContext) -> Any:
        if "path" not in arguments:
            raise ToolError("read: no path")
        return await self.read(arguments, context)


class Changes(Read):
    async def call(self, arguments: Any, context: ToolContext) -> Any:
        arguments.setdefault("path", "a.txt")
        arguments["path"] += ""
        arguments["seen"] = True
        return 1


class GivesBytes(Read):
    async def read(self, arguments: Mapping[str, Any], context: ToolContext) -> Any:
        return b"hello"


class GivesNan(Read):
    async def read(self, arguments: Mapping[str, Any], context: ToolContext) -> Any:
        return float("nan")


class Writes(Read):
    async def read(self, arguments: Mapping[str, Any], context: ToolContext) -> Any:
        await context.require_sandbox("read").write("log.txt", b"")
        return ""


class Posts(Read):
    async def read(self, arguments: Mapping[str, Any], context: ToolContext) -> Any:
        async with context.require_sandbox("read").http("tool") as http:
            await http.send(HttpRequest(method="POST", url="http://x/"))
        return ""


class Swallows(Read):
    async def read(self, arguments: Mapping[str, Any], context: ToolContext) -> Any:
        try:
            await trio.lowlevel.checkpoint()
        except BaseException:
            return "stopped"
        return "done"


class SwallowsRefusal(Read):
    async def read(self, arguments: Mapping[str, Any], context: ToolContext) -> Any:
        try:
            return await super().read(arguments, context)
        except SandboxError:
            return "not allowed"


class WrapsRefusal(Read):
    async def read(self, arguments: Mapping[str, Any], context: ToolContext) -> Any:
        try:
            return await super().read(arguments, context)
        except SandboxError as error:
            raise ToolError(str(error)) from error


class NeedsSandbox(Read):
    async def read(self, arguments: Mapping[str, Any], context: ToolContext) -> Any:
        return (await context.sandbox.read("a.txt")).decode()  # type: ignore[union-attr]  # the fault


class Ascii(Read):
    async def read(self, arguments: Mapping[str, Any], context: ToolContext) -> Any:
        return arguments["path"].encode("ascii").decode()


class OneAtATime(Read):
    def __init__(self) -> None:
        self.busy = False

    async def read(self, arguments: Mapping[str, Any], context: ToolContext) -> Any:
        assert not self.busy, "called twice at once"
        self.busy = True
        try:
            await trio.lowlevel.checkpoint()
        finally:
            self.busy = False
        return 1


class LeavesFile(Read):
    async def read(self, arguments: Mapping[str, Any], context: ToolContext) -> Any:
        os.fdopen(os.dup(0))
        return 1


def changed(**attributes: Any) -> type[Read]:
    return type("Changed", (Read,), attributes)


FAULTS = [
    (Missing, r"without its argument 'path' raised KeyError: 'path'; a tool fails with ToolError or SandboxError"),
    (Optional, "requires 'path', and a call without it succeeded"),
    (Transient, "without its argument 'path': the error is transient"),
    (Changes, "tool 'read' changed the arguments it was given"),
    (GivesBytes, "gave what is no JSON value: its value: a value of type bytes"),
    (GivesNan, "gave what is no JSON value: its value: nan is not a JSON number"),
    (Writes, "says that the call is pure, and wrote a file"),
    (Posts, "says that the call is pure, and sent a POST request"),
    (Swallows, "tool 'read' swallowed a cancellation at its checkpoint 1"),
    (SwallowsRefusal, "where the sandbox refuses succeeded; a refusal must come out as SandboxError"),
    (WrapsRefusal, "where the sandbox refuses raised ToolError: the sandbox refuses the path a.txt; SandboxError is"),
    (NeedsSandbox, "without a sandbox raised AttributeError: .* is wanted .context.require_sandbox gives it"),
    (Ascii, "with a text in several scripts as 'path' raised UnicodeEncodeError"),
    (LeavesFile, "left something open: unclosed file"),
    (changed(name="read file"), "a tool is called 'read file'; models take letters, digits"),
    (changed(description=" "), "has no description, which is all that a model knows of it"),
    (changed(effect="none"), "its effect is 'none'"),
    (changed(effect_of=lambda self, arguments: "maybe"), r"effect_of\(\) gave 'maybe'"),
    (changed(timeout=0), "its timeout is 0; it is in seconds"),
    (changed(parameters={"type": "array"}), "no JSON Schema of an object: its type is 'array', not 'object'"),
    (changed(parameters={"type": "object", "properties": {}}), "takes 'path' in the example and does not declare it"),
]


@pytest.mark.parametrize(("kind", "sentence"), FAULTS, ids=range(len(FAULTS)))
async def test_each_fault_has_its_sentence(kind: type[Tool], sentence: str) -> None:
    with pytest.raises(AssertionError, match=sentence):
        await check_tool(kind, {"path": "a.txt"}, sandbox=box)


async def test_one_that_may_not_be_called_at_once_has_to_say_so() -> None:
    with pytest.raises(AssertionError, match="called twice at once"):
        await check_tool(OneAtATime(), {"path": "a.txt"})
    OneAtATime.parallel_safe = False
    await check_tool(OneAtATime(), {"path": "a.txt"})


async def test_examples_are_compared() -> None:
    with pytest.raises(AssertionError, match="gave 'hello', and 'hallo' was expected"):
        await check_tool(Read, {"path": "a.txt"}, sandbox=box, expect="hallo")
    with pytest.raises(AssertionError, match="must fail, and succeeded"):
        await check_tool(Read, {"path": "a.txt"}, sandbox=box, failing=[{"path": "a.txt"}])
    with pytest.raises(AssertionError, match="requires 'path', which the example lacks"):
        await check_tool(Read, {})


@pytest.mark.parametrize(
    ("schema", "fault"),
    [
        (SCHEMA, ""),
        ([], "it is list"),
        ({"type": "object", "x": {1}}, "it is not JSON: Object of type set is not JSON serializable"),
        ({"type": "object", "properties": []}, "'properties' of the root is no mapping"),
        (
            {"type": "object", "properties": {"a": {"type": "str"}}},
            "properties.a has the type 'str', which JSON Schema",
        ),
        ({"type": "object", "properties": {"a": 3}}, "properties.a is int, not a schema"),
        ({"type": "object", "properties": {}, "required": ["a"]}, "the root requires 'a', which is none of its"),
        ({"type": "object", "required": "a"}, "'required' of the root is no list of names"),
        ({"type": "object", "anyOf": "a"}, "'anyOf' of the root is no list"),
        ({"type": "object", "properties": {"a": {"$ref": "#/$defs/X"}}}, "properties.a refers to #/$defs/X, which is"),
        ({"type": "object", "properties": {"a": {"$ref": "#/$defs/X"}}, "$defs": {"X": {"type": "string"}}}, ""),
    ],
)
def test_schemas_of_arguments(schema: Any, fault: str) -> None:
    found = fault_of_schema(schema)
    assert found.startswith(fault)
    assert bool(found) == bool(fault)
