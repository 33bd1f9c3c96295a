"""The suite of sandboxes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import trio
from pydantic import BaseModel

from treadle.contracts.sandbox import CommandResult, HttpReply, HttpRequest, Sandbox
from treadle.errors import SandboxError, ToolError
from treadle.testing.cancellation import check_cancellation, in_sentences, leaving_nothing

__all__ = ["check_sandbox", "check_sandbox_class"]

_CONTENT = "Grüße, 世界 🙂\r\n\x00".encode()


@in_sentences
async def check_sandbox(
    make: Callable[[Path], Sandbox],
    base: Path,
    *,
    command: str | None = None,
    output: bytes | None = None,
    url: str | None = None,
    slow_command: str | None = None,
    refused_path: str | None = None,
    refused_command: str | None = None,
    refused_url: str | None = None,
) -> None:
    """Hold a sandbox to its contract: blocks, files, commands, HTTP, refusals, time-outs, cancellation, closing.

    What is left out is not tried: a sandbox that runs no commands has none to show.

    :param make: gives a sandbox with this base directory, not entered.
    :param base: an empty directory, in which it lets files be read and written.
    :param command: a command line that it runs and that succeeds.
    :param output: what that prints.
    :param url: a page that it reaches, on a server of the test's own.
    :param slow_command: one that takes more than a second.
    :raises AssertionError: with what it did, and what the contract says of that.
    """
    what = f"sandbox '{type(make(base)).__name__}'"
    check_sandbox_class(type(make(base)))
    _check_blocks(make(base), what)
    async with leaving_nothing(what):

        async def look(sandbox: Sandbox) -> None:
            await _check_files(sandbox, what)
            if command is not None:
                await _check_command(sandbox, command, output, what)
            if slow_command is not None:
                await _check_time_out(sandbox, slow_command, what)
            if url is not None:
                await _get(sandbox, url)
            await _check_refusals(sandbox, refused_path, refused_command, refused_url, what)

        await _use(make, base, look)
        await _use(make, base, lambda sandbox: sandbox.read("a.bin"))

    actions: list[tuple[str, Callable[[Sandbox], Awaitable[Any]]]] = [
        ("writing", lambda sandbox: sandbox.write("a.bin", _CONTENT)),
        ("reading", lambda sandbox: sandbox.read("a.bin")),
    ]
    if command is not None:
        actions.append(("a command", lambda sandbox: sandbox.run(command)))
    if url is not None:
        actions.append(("a request", lambda sandbox: _get(sandbox, url)))
    for name, action in actions:

        async def call(action: Callable[[Sandbox], Awaitable[Any]] = action) -> None:
            await _use(make, base, action)

        await check_cancellation(call, what=f"{what}, {name}")
    async with make(base) as sandbox:
        if await sandbox.read("a.bin") != _CONTENT:
            raise AssertionError(f"{what}: a write that was cancelled and done again left other bytes")


async def _use(make: Callable[[Path], Sandbox], base: Path, action: Callable[[Sandbox], Awaitable[Any]]) -> None:
    async with make(base) as sandbox:
        await action(sandbox)


def check_sandbox_class(kind: Any) -> None:
    """What can be said of a sandbox's class."""
    name = getattr(kind, "__name__", repr(kind))
    if not (isinstance(kind, type) and issubclass(kind, Sandbox)):
        raise AssertionError(f"{name} is no subclass of treadle.Sandbox")
    if missing := sorted(getattr(kind, "__abstractmethods__", ())):
        raise AssertionError(f"{name} lacks {', '.join(missing)}")
    model = getattr(kind, "block_model", None)
    if not (isinstance(model, type) and issubclass(model, BaseModel)):
        raise AssertionError(f"{name}.block_model is {model!r}; it must be a pydantic model of the block")
    model.model_json_schema()


def _check_blocks(sandbox: Sandbox, what: str) -> None:
    """A child is never allowed more than its parent: at the least, two alike blocks come to the same."""
    kind = type(sandbox)
    if not isinstance(sandbox.block, kind.block_model):
        raise AssertionError(f"{what}: its block is no {kind.block_model.__name__}")
    combined = kind.combine(sandbox.block, sandbox.block)
    if not isinstance(combined, kind.block_model):
        raise AssertionError(f"{what}: combine() gave {type(combined).__name__}, not {kind.block_model.__name__}")
    if combined != sandbox.block:
        raise AssertionError(f"{what}: combine() of a block with itself gave another: {combined!r}")


async def _check_files(sandbox: Sandbox, what: str) -> None:
    for path in ("a.bin", "new/folder/b.bin", "Grüße 世界.txt"):
        try:
            written = await sandbox.write(path, _CONTENT)
        except OSError as error:
            shown = f"{type(error).__name__}: {error}"
            raise AssertionError(f"{what}: writing {path!r} raised {shown}; it makes the directories above") from error
        if not isinstance(written, Path):
            raise AssertionError(f"{what}: write() gave {type(written).__name__}; the resolved path is wanted")
        if (found := await sandbox.read(path)) != _CONTENT:
            raise AssertionError(f"{what}: {path!r} was written and read back as {found!r}")
        if not isinstance(sandbox.check_path(path, write=True), Path):
            raise AssertionError(f"{what}: check_path() must give the resolved path")
    await sandbox.write("a.bin", b"shorter")
    if await sandbox.read("a.bin") != b"shorter":
        raise AssertionError(f"{what}: write() must replace what a file held")
    await sandbox.read("a.bin", max_bytes=7)
    await _raises(ToolError, lambda: sandbox.read("a.bin", max_bytes=6), f"{what}: a file larger than max_bytes")
    await _raises(OSError, lambda: sandbox.read("missing.bin"), f"{what}: a file that is not there")
    await sandbox.write("a.bin", _CONTENT)


async def _check_command(sandbox: Sandbox, command: str, output: bytes | None, what: str) -> None:
    sandbox.check_command(command, cwd=".")
    results: list[CommandResult] = []

    async def run() -> None:
        results.append(await sandbox.run(command))

    async with trio.open_nursery() as nursery:
        for _ in range(2):
            nursery.start_soon(run)
    for result in results:
        if result.returncode != 0 or result.timed_out:
            raise AssertionError(f"{what}: {command!r} came to {result!r}")
        if output is not None and result.stdout != output:
            raise AssertionError(f"{what}: {command!r} printed {result.stdout!r}, and {output!r} was expected")


async def _check_time_out(sandbox: Sandbox, command: str, what: str) -> None:
    result = await sandbox.run(command, timeout=0.05)
    if not result.timed_out or result.returncode != -1:
        raise AssertionError(f"{what}: a command out of time has timed_out and the return code -1; it gave {result!r}")


async def _check_refusals(sandbox: Sandbox, path: str | None, command: str | None, url: str | None, what: str) -> None:
    async def checked(check: Callable[[], Any]) -> None:
        await trio.lowlevel.checkpoint()
        check()

    cases: list[tuple[str, Callable[[], Awaitable[Any]]]] = []
    if path is not None:
        cases += [
            ("check_path", lambda: checked(lambda: sandbox.check_path(path, write=False))),
            ("read", lambda: sandbox.read(path)),
            ("write", lambda: sandbox.write(path, b"")),
        ]
    if command is not None:
        cases += [
            ("check_command", lambda: checked(lambda: sandbox.check_command(command, cwd="."))),
            ("run", lambda: sandbox.run(command)),
        ]
    if url is not None:
        cases += [
            ("check_url", lambda: sandbox.check_url(url, purpose="tool")),
            ("http", lambda: _get(sandbox, url)),
        ]
    for name, call in cases:
        how = f"{what}: {name} of what it refuses"
        error = await _raises(SandboxError, call, how)
        if "sandbox" not in str(error) or getattr(error, "transient", True):
            raise AssertionError(f"{how}: the error must be permanent and contain the word sandbox: {error}")


async def _raises(kind: type[Exception], call: Callable[[], Awaitable[Any]], how: str) -> Exception:
    try:
        await call()
    except kind as error:
        return error
    except Exception as error:
        raise AssertionError(f"{how} raised {type(error).__name__}: {error}; {kind.__name__} is wanted") from error
    raise AssertionError(f"{how} succeeded; {kind.__name__} is wanted")


async def _get(sandbox: Sandbox, url: str) -> HttpReply:
    async with sandbox.http("tool") as client:
        return await client.send(HttpRequest(method="GET", url=url))
