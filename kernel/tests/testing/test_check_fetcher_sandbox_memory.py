"""The suites of attachment fetchers, sandboxes and memories pass good ones, and have a sentence for each fault."""

from __future__ import annotations

import base64
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
import trio
from pydantic import BaseModel

from treadle import (
    AttachmentRequest,
    CommandResult,
    Conversation,
    HttpRequest,
    MediaPart,
    Sandbox,
    SandboxError,
    SystemMessage,
    ToolError,
)
from treadle.messages import AssistantMessage, Message, dump, load
from treadle.testing import FakeSandbox, check_attachment_fetcher, check_memory, check_sandbox

PNG = b"\x89PNG\r\n\x1a\n123"
URL = "https://pics/a.png"


def box() -> FakeSandbox:
    return FakeSandbox(urls={URL: PNG}, refuses=["https://evil"])


class Web:
    """Fetches over the sandbox's HTTP, and is broken in the way that a test says."""

    schemes: ClassVar[Any] = frozenset({"http", "https"})
    purpose: Any = "attachment"

    async def fetch(self, request: AttachmentRequest, sandbox: Sandbox) -> MediaPart:
        async with sandbox.http(self.purpose) as http:
            reply = await http.send(HttpRequest(method="GET", url=request.source, max_bytes=request.max_bytes))
        if reply.status_code != 200:
            raise ToolError(f"{request.source} answered {reply.status_code}", transient=False)
        return self.part(reply.body, request)

    def part(self, body: bytes, request: AttachmentRequest) -> MediaPart:
        return MediaPart(type="image", media_type="image/png", data=body)


class Data:
    """The unlike one: needs no world at all."""

    schemes: ClassVar[Any] = frozenset({"data"})

    async def fetch(self, request: AttachmentRequest, sandbox: Sandbox) -> MediaPart:
        await trio.lowlevel.checkpoint()
        body = base64.b64decode(request.source.partition(",")[2])
        if len(body) > request.max_bytes:
            raise ToolError(f"the attachment has more than {request.max_bytes} bytes", transient=False)
        return MediaPart(type="image", media_type="image/png", data=body)


FETCH: Any = {"sandbox": box, "expect": PNG, "missing": "https://pics/b.png", "refused": "https://evil/x.png"}


async def test_two_unlike_fetchers_pass() -> None:
    await check_attachment_fetcher(Web, AttachmentRequest(source=URL), **FETCH)
    source = "data:image/png;base64," + base64.b64encode(PNG).decode()
    await check_attachment_fetcher(Data, AttachmentRequest(source=source), expect=PNG)


class IgnoresStatus(Web):
    async def fetch(self, request: AttachmentRequest, sandbox: Sandbox) -> MediaPart:
        async with sandbox.http("attachment") as http:
            reply = await http.send(HttpRequest(method="GET", url=request.source, max_bytes=request.max_bytes))
        return self.part(reply.body, request)


class NoLimit(Web):
    async def fetch(self, request: AttachmentRequest, sandbox: Sandbox) -> MediaPart:
        return await super().fetch(replace(request, max_bytes=10**9), sandbox)


class TightLimit(Web):
    def part(self, body: bytes, request: AttachmentRequest) -> MediaPart:
        return super().part(body[: request.max_bytes - 1] if request.max_bytes == len(body) else body, request)


class CountsContainer(Web):
    async def fetch(self, request: AttachmentRequest, sandbox: Sandbox) -> MediaPart:
        if request.max_bytes < 2 * len(PNG):
            raise ToolError("the container is too large", transient=False)
        return await super().fetch(request, sandbox)


class WrapsRefusal(Web):
    async def fetch(self, request: AttachmentRequest, sandbox: Sandbox) -> MediaPart:
        try:
            return await super().fetch(request, sandbox)
        except SandboxError as error:
            raise ToolError(str(error)) from error


class RaisesKeyError(Web):
    async def fetch(self, request: AttachmentRequest, sandbox: Sandbox) -> MediaPart:
        try:
            return await super().fetch(request, sandbox)
        except ToolError as error:
            raise KeyError("status") from error


class SwallowsFetch(Web):
    async def fetch(self, request: AttachmentRequest, sandbox: Sandbox) -> MediaPart:
        try:
            return await super().fetch(request, sandbox)
        except trio.Cancelled:
            return MediaPart(type="image", media_type="image/png", data=b"")


def giving(**changes: Any) -> type[Web]:
    made = {"type": "image", "media_type": "image/png", "data": PNG, **changes}
    return type("Changed", (Web,), {"part": lambda self, body, request: MediaPart(**made)})


FETCHER_FAULTS = [
    (type("Odd", (Web,), {"schemes": frozenset()}), r"Odd.schemes is frozenset\(\); it must be a frozenset"),
    (type("Odd", (Web,), {"schemes": {"HTTPS:"}}), "Odd.schemes has 'HTTPS:'; a scheme is lower case"),
    (type("Odd", (Web,), {"schemes": {"ftp"}}), "does not declare the scheme 'https' of the example"),
    (type("Odd", (Web,), {"purpose": "tool"}), r"asked for http\('tool'\); its purpose is 'attachment'"),
    (type("Odd", (Web,), {"fetch": None}), "Odd has no method fetch"),
    (IgnoresStatus, "with a source that is not there succeeded; it must raise ToolError"),
    (NoLimit, "with one byte more than allowed succeeded"),
    (CountsContainer, "where max_bytes was lowered to .*: the container is too large; max_bytes is of what is given"),
    (TightLimit, "gave other bytes where max_bytes is exactly their number"),
    (WrapsRefusal, "where the sandbox refuses raised ToolError: .*; SandboxError must come out as itself"),
    (RaisesKeyError, "raised KeyError: 'status'; ToolError or SandboxError is wanted"),
    (SwallowsFetch, "attachment fetcher 'SwallowsFetch' swallowed a cancellation"),
    (giving(type="pdf"), "gave a part of type pdf, and image was asked for"),
    (giving(media_type="image/png; x=1"), "gave the media type 'image/png; x=1'; it is lower case"),
    (giving(data=None, url="https://x/"), "gave a URL; the bytes are wanted"),
    (giving(data=b"other"), "gave 5 bytes that are not those expected"),
    (type("Odd", (Web,), {"part": lambda *_: b"x"}), "gave bytes; a MediaPart is wanted"),
]


@pytest.mark.parametrize(("kind", "sentence"), FETCHER_FAULTS, ids=range(len(FETCHER_FAULTS)))
async def test_each_fault_of_a_fetcher_has_its_sentence(kind: Any, sentence: str) -> None:
    with pytest.raises(AssertionError, match=sentence):
        await check_attachment_fetcher(kind, AttachmentRequest(source=URL), **FETCH)


async def test_the_media_type_that_a_step_says_is_held_to() -> None:
    with pytest.raises(AssertionError, match="gave image/png, and the step says image/gif"):
        await check_attachment_fetcher(Web, AttachmentRequest(source=URL, media_type="image/gif"), **FETCH)


# --- sandboxes --------------------------------------------------------------------------------------------


class Block(BaseModel):
    allowed: tuple[str, ...] = ("echo hi",)


class Small(Sandbox):
    """Files below its base, commands of a list that it plays itself, and no network."""

    block_model = Block
    block: Block

    @classmethod
    def combine(cls, parent: BaseModel, child: BaseModel) -> BaseModel:
        assert isinstance(parent, Block)
        assert isinstance(child, Block)
        return Block(allowed=tuple(each for each in child.allowed if each in parent.allowed))

    def check_path(self, path: str, *, write: bool) -> Path:
        if ".." in path:
            raise SandboxError(f"the sandbox has no {path}")
        return self.base / path

    def check_command(self, command: str, *, cwd: str) -> None:
        if command not in (*self.block.allowed, "sleep"):
            raise SandboxError(f"the sandbox does not run {command}")

    async def check_url(self, url: str, *, purpose: Any) -> None:
        await trio.lowlevel.checkpoint()
        raise SandboxError("the sandbox has no network")

    async def read(self, path: str, *, max_bytes: int | None = None) -> bytes:
        await trio.lowlevel.checkpoint()
        content = self.check_path(path, write=False).read_bytes()
        if max_bytes is not None and len(content) > max_bytes:
            raise ToolError("too large")
        return content

    async def write(self, path: str, data: bytes) -> Path:
        await trio.lowlevel.checkpoint()
        found = self.check_path(path, write=True)
        found.parent.mkdir(parents=True, exist_ok=True)
        found.write_bytes(data)
        return found

    async def run(self, command: str, *, timeout: float | None = None, **options: Any) -> CommandResult:
        self.check_command(command, cwd=".")
        if command == "sleep":
            await trio.sleep(timeout or 0)
            return CommandResult(returncode=-1, stdout=b"", stderr=b"", timed_out=True)
        await trio.lowlevel.checkpoint()
        return CommandResult(returncode=0, stdout=b"hi\n", stderr=b"")

    @asynccontextmanager
    async def http(self, purpose: Any) -> AsyncIterator[Any]:
        await self.check_url("", purpose=purpose)
        yield None


WORLD: Any = {
    "command": "echo hi",
    "output": b"hi\n",
    "slow_command": "sleep",
    "refused_path": "../x",
    "refused_command": "rm",
    "refused_url": "http://x/",
}


def small(kind: type[Sandbox] = Small) -> Any:
    return lambda base: kind(Block(), base)


async def test_two_unlike_sandboxes_pass(tmp_path: Path) -> None:
    await check_sandbox(small(), tmp_path, **WORLD)
    await check_sandbox(
        lambda base: FakeSandbox(base=base, files=FILES, commands={"echo hi": "hi\n"}, urls={"http://x/": "page"}),
        tmp_path,
        command="echo hi",
        output=b"hi\n",
        url="http://x/",
    )


FILES = {"a.bin": "Grüße, 世界 🙂\r\n\x00"}


class KeepsOld(Small):
    async def write(self, path: str, data: bytes) -> Path:
        found = self.check_path(path, write=True)
        found.parent.mkdir(parents=True, exist_ok=True)
        with found.open("r+b" if found.exists() else "wb") as file:
            file.write(data)
        return found


class NoFolders(Small):
    async def write(self, path: str, data: bytes) -> Path:
        found = self.check_path(path, write=True)
        found.write_bytes(data)
        return found


class TextMode(Small):
    async def write(self, path: str, data: bytes) -> Path:
        return await super().write(path, data.replace(b"\r\n", b"\n"))


class NoReadLimit(Small):
    async def read(self, path: str, *, max_bytes: int | None = None) -> bytes:
        return await super().read(path)


class MissingIsEmpty(Small):
    async def read(self, path: str, *, max_bytes: int | None = None) -> bytes:
        return await super().read(path, max_bytes=max_bytes) if path != "missing.bin" else b""


class RefusesByPermission(Small):
    def check_command(self, command: str, *, cwd: str) -> None:
        if command == "rm":
            raise PermissionError(command)


class RunsAnything(Small):
    def check_command(self, command: str, *, cwd: str) -> None:
        """Whatever."""


class Unnamed(Small):
    def check_path(self, path: str, *, write: bool) -> Path:
        if ".." in path:
            raise SandboxError("no")
        return super().check_path(path, write=write)


class SwallowsRun(Small):
    async def run(self, command: str, **options: Any) -> CommandResult:
        try:
            return await super().run(command, **options)
        except trio.Cancelled:
            return CommandResult(returncode=-15, stdout=b"", stderr=b"")


class TimeOutCode(Small):
    async def run(self, command: str, **options: Any) -> CommandResult:
        return replace(await super().run(command, **options), returncode=0)


class Widens(Small):
    @classmethod
    def combine(cls, parent: BaseModel, child: BaseModel) -> BaseModel:
        return Block(allowed=("echo hi", "rm"))


class CombinesToDict(Small):
    @classmethod
    def combine(cls, parent: BaseModel, child: BaseModel) -> Any:
        return {}


class LeavesDirectory(Small):
    async def __aenter__(self) -> LeavesDirectory:
        self.scratch = tempfile.TemporaryFile()  # noqa: SIM115 - left open, which is the fault
        return self


SANDBOX_FAULTS = [
    (KeepsOld, r"write\(\) must replace what a file held"),
    (NoFolders, "writing 'new/folder/b.bin' raised FileNotFoundError: .*; it makes the directories above"),
    (TextMode, "'a.bin' was written and read back as"),
    (NoReadLimit, "a file larger than max_bytes succeeded; ToolError is wanted"),
    (MissingIsEmpty, "a file that is not there succeeded; OSError is wanted"),
    (RefusesByPermission, "check_command of what it refuses raised PermissionError: rm; SandboxError is wanted"),
    (RunsAnything, "check_command of what it refuses succeeded; SandboxError is wanted"),
    (Unnamed, "check_path of what it refuses: the error must be permanent and contain the word sandbox: no"),
    (SwallowsRun, "sandbox 'SwallowsRun', a command swallowed a cancellation"),
    (TimeOutCode, "a command out of time has timed_out and the return code -1"),
    (Widens, r"combine\(\) of a block with itself gave another"),
    (CombinesToDict, r"combine\(\) gave dict, not Block"),
    (LeavesDirectory, "left something open: unclosed file"),
    (type("Odd", (Small,), {"block_model": dict}), "Odd.block_model is <class 'dict'>; it must be a pydantic model"),
]


@pytest.mark.parametrize(("kind", "sentence"), SANDBOX_FAULTS, ids=range(len(SANDBOX_FAULTS)))
async def test_each_fault_of_a_sandbox_has_its_sentence(kind: Any, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=sentence):
        await check_sandbox(small(kind), tmp_path, **WORLD)


# --- memories ---------------------------------------------------------------------------------------------


class ListMemory:
    """A list of messages under its key in the state, and broken in the way that a test says."""

    async def begin(self, ctx: Any, *, key: str, system_prompt: Any, turn: Any, **rest: Any) -> Conversation:
        await trio.lowlevel.checkpoint()
        messages: list[Message] = [load(Message, each) for each in ctx.state.get(key, [])]
        if system_prompt and not messages:
            messages.append(SystemMessage(text=system_prompt))
        return Conversation(messages=(*messages, turn), handle=key)

    def commit(self, ctx: Any, conversation: Conversation, reply: Message) -> Any:
        return {conversation.handle: [dump(each) for each in (*conversation.messages, reply)]}


class Shelf:
    """The unlike one: keeps conversations outside of the state."""

    def __init__(self) -> None:
        self.kept: dict[str, tuple[Message, ...]] = {}

    async def begin(self, ctx: Any, *, key: str, system_prompt: Any, turn: Any, **rest: Any) -> Conversation:
        await trio.lowlevel.checkpoint()
        before = self.kept.get(key) or ((SystemMessage(text=system_prompt),) if system_prompt else ())
        return Conversation(messages=(*before, turn), handle=key)

    def commit(self, ctx: Any, conversation: Conversation, reply: Message) -> Any:
        self.kept[conversation.handle] = (*conversation.messages, reply)
        return {}


async def test_two_unlike_memories_pass() -> None:
    await check_memory(ListMemory)
    await check_memory(Shelf)


class Eager(ListMemory):
    async def begin(self, ctx: Any, **rest: Any) -> Conversation:
        conversation = await super().begin(ctx, **rest)
        ctx.apply({rest["key"]: [dump(each) for each in conversation.messages]})
        return conversation


class EagerShelf(Shelf):
    async def begin(self, ctx: Any, **rest: Any) -> Conversation:
        conversation = await super().begin(ctx, **rest)
        self.kept[rest["key"]] = conversation.messages
        return conversation


class WritesItself(ListMemory):
    def commit(self, ctx: Any, conversation: Conversation, reply: Message) -> Any:
        ctx.apply(super().commit(ctx, conversation, reply))
        return {}


class OneKey(ListMemory):
    async def begin(self, ctx: Any, *, key: str, **rest: Any) -> Conversation:
        return await super().begin(ctx, key="chat", **rest)


class Objects(ListMemory):
    def commit(self, ctx: Any, conversation: Conversation, reply: Message) -> Any:
        return {conversation.handle: [*conversation.messages, reply]}


class ForgetsReply(ListMemory):
    def commit(self, ctx: Any, conversation: Conversation, reply: Message) -> Any:
        return super().commit(ctx, Conversation(messages=conversation.messages[:-1], handle=conversation.handle), reply)


class PromptLast(ListMemory):
    async def begin(self, ctx: Any, **rest: Any) -> Conversation:
        found = await super().begin(ctx, **rest)
        return replace(found, messages=found.messages[::-1])


class PromptAsReply(ListMemory):
    async def begin(self, ctx: Any, *, system_prompt: Any, **rest: Any) -> Conversation:
        found = await super().begin(ctx, system_prompt=None, **rest)
        first = (AssistantMessage.of(system_prompt),) if len(found.messages) == 1 else ()
        return replace(found, messages=(*first, *found.messages))


class SwallowsBegin(ListMemory):
    async def begin(self, ctx: Any, **rest: Any) -> Conversation:
        try:
            return await super().begin(ctx, **rest)
        except trio.Cancelled:
            return Conversation(messages=())

    def commit(self, ctx: Any, conversation: Conversation, reply: Message) -> Any:
        return super().commit(ctx, conversation, reply) if conversation.messages else {}


MEMORY_FAULTS = [
    (Eager, r"begin\(\) changed the state; only commit\(\) may keep a turn"),
    (EagerShelf, "kept a turn that was never committed"),
    (WritesItself, r"commit\(\) changed the state; it gives back what is to be written"),
    (OneKey, "a second conversation: the conversation is"),
    (Objects, r"commit\(\) writes what a state cannot hold"),
    (ForgetsReply, "the conversation is .* was expected"),
    (PromptLast, "the conversation is .* was expected"),
    (PromptAsReply, "the system prompt is a AssistantMessage"),
    (SwallowsBegin, "memory 'SwallowsBegin' swallowed a cancellation"),
]


@pytest.mark.parametrize(("kind", "sentence"), MEMORY_FAULTS, ids=range(len(MEMORY_FAULTS)))
async def test_each_fault_of_a_memory_has_its_sentence(kind: Any, sentence: str) -> None:
    with pytest.raises(AssertionError, match=sentence):
        await check_memory(kind)
