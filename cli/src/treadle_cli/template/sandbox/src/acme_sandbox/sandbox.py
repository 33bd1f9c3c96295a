"""The sandbox ``my_sandbox``: files below one folder, no commands, no network."""

from __future__ import annotations

import os
from contextlib import AbstractAsyncContextManager
from pathlib import Path, PurePath
from typing import NoReturn

import trio
from pydantic import BaseModel, ConfigDict, Field

from treadle import CommandResult, HttpClient, Sandbox, SandboxError, ToolError
from treadle.contracts.sandbox import Purpose

__all__ = ["AcmeSandbox", "AcmeSandboxBlock"]


class AcmeSandboxBlock(BaseModel):
    """What ``sandbox:`` in treadle.yaml and ``config.sandbox`` in a workflow take. Unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    root: str = Field(default=".", description="the folder that may be read and written, and all below it")


class AcmeSandbox(Sandbox):
    """Holds tools to the files below one folder. Every refusal says ``sandbox``."""

    block_model = AcmeSandboxBlock
    block: AcmeSandboxBlock

    @classmethod
    def combine(cls, parent: BaseModel, child: BaseModel) -> BaseModel:
        """What both allow: the inner one of the two folders.

        :raises SandboxError: neither lies in the other, so nothing is allowed by both.
        """
        if not isinstance(parent, AcmeSandboxBlock) or not isinstance(child, AcmeSandboxBlock):
            raise SandboxError("sandbox: the blocks are not of my_sandbox")
        outer, inner = (PurePath(os.path.normpath(each.root)) for each in (parent, child))
        if inner.is_absolute() == outer.is_absolute() and ".." not in inner.parts:
            if inner.is_relative_to(outer):
                return child
            if outer.is_relative_to(inner):
                return parent
        raise SandboxError(f"sandbox: the folder '{child.root}' is not inside '{parent.root}'")

    def check_path(self, path: str, *, write: bool) -> Path:
        """The path with links and ``..`` followed, if it lies below the folder."""
        try:
            root, place = (Path(os.path.realpath(self.base / each)) for each in (self.block.root, path))
        except ValueError as error:  # a NUL in the text
            raise ToolError(f"{path!r} cannot be a path: {error}", transient=False) from error
        if not place.is_relative_to(root):
            raise SandboxError(f"the sandbox allows files below '{self.block.root}' only, and not '{path}'")
        return place

    def check_command(self, command: str, *, cwd: str) -> NoReturn:
        """No command may run."""
        raise SandboxError("the sandbox allows no commands")

    async def check_url(self, url: str, *, purpose: Purpose) -> NoReturn:
        """No address may be reached."""
        await trio.lowlevel.checkpoint()
        raise SandboxError(f"the sandbox allows no network, and so not {url}")

    async def read(self, path: str, *, max_bytes: int | None = None) -> bytes:
        """The file's bytes, read in a thread so that other steps go on."""
        place = self.check_path(path, write=False)
        return await trio.to_thread.run_sync(_read, place, max_bytes, abandon_on_cancel=True)

    async def write(self, path: str, data: bytes) -> Path:
        """Replace or make the file, and the directories above it."""
        place = self.check_path(path, write=True)
        await trio.to_thread.run_sync(_write, place, data)
        return place

    async def run(
        self, command: str, *, cwd: str = ".", timeout: float | None = None, max_bytes: int | None = None
    ) -> CommandResult:
        """No command may run."""
        await trio.lowlevel.checkpoint()
        self.check_command(command, cwd=cwd)

    def http(self, purpose: Purpose) -> AbstractAsyncContextManager[HttpClient]:
        """No request may be made: entering refuses."""
        return _NoNetwork()


class _NoNetwork(AbstractAsyncContextManager[HttpClient]):
    async def __aenter__(self) -> HttpClient:
        await trio.lowlevel.checkpoint()
        raise SandboxError("the sandbox allows no network")

    async def __aexit__(self, *_error: object) -> None:
        """It was never entered."""


def _read(place: Path, max_bytes: int | None) -> bytes:
    with place.open("rb") as file:
        data = file.read() if max_bytes is None else file.read(max_bytes + 1)
    if max_bytes is not None and len(data) > max_bytes:
        raise ToolError(f"{place} is larger than the limit of {max_bytes} bytes", transient=False)
    return data


def _write(place: Path, data: bytes) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    new = place.with_name(f".{place.name}.new")
    new.write_bytes(data)
    new.replace(place)  # readers see the old content or the new one, never a part
