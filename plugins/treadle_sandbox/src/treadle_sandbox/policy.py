"""The sandbox ``policy``."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path

import trio
from pydantic import BaseModel

from treadle import CommandResult, HttpClient, Sandbox, SandboxError, ToolError
from treadle.contracts.sandbox import Purpose
from treadle_sandbox.block import PolicyBlock
from treadle_sandbox.commands import run_command
from treadle_sandbox.files import read_file, replace_file, resolved

__all__ = ["PolicySandbox"]

_UNSERVED: Mapping[str, str] = {"attachment": "attachment downloads", "webhook": "webhooks"}


class PolicySandbox(Sandbox):
    """Gives tools the access of this process. Blocks that limit them are refused by :class:`PolicyBlock`.

    Attachments and webhooks may reach no internal address even where the block is disabled. This version cannot
    hold them to that, so it refuses both.
    """

    block_model = PolicyBlock

    @classmethod
    def combine(cls, parent: BaseModel, child: BaseModel) -> BaseModel:
        """The child's block: where neither limits anything, both allow everything.

        :raises SandboxError: either is enabled, which no validated block of this version is.
        """
        for block in (parent, child):
            if not isinstance(block, PolicyBlock) or block.enabled:
                raise SandboxError("sandbox: an enabled block cannot be combined by treadle-sandbox 0.1")
        return child

    def check_path(self, path: str, *, write: bool) -> Path:
        """The resolved path. Every path is allowed."""
        return resolved(path, self.base)

    def check_command(self, command: str, *, cwd: str) -> None:
        """Every command is allowed."""

    async def check_url(self, url: str, *, purpose: Purpose) -> None:
        """Every http and https URL is allowed to tools.

        :raises ToolError: it is no such URL.
        :raises SandboxError: for attachments and webhooks.
        """
        from treadle_sandbox.http import check_address

        _check_purpose(purpose)
        check_address(url)
        await trio.lowlevel.checkpoint()

    async def read(self, path: str, *, max_bytes: int | None = None) -> bytes:
        """The file's bytes, read in a thread. A read that blocks, as of a pipe, is left behind when cancelled."""
        place = self.check_path(path, write=False)
        return await trio.to_thread.run_sync(read_file, place, max_bytes, abandon_on_cancel=True)

    async def write(self, path: str, data: bytes) -> Path:
        """Replace or make the file and the directories above it, in a thread; see ``files.replace_file``."""
        place = self.check_path(path, write=True)
        await trio.to_thread.run_sync(partial(replace_file, place, data))
        return place

    async def run(
        self,
        command: str,
        *,
        cwd: str = ".",
        timeout: float | None = None,
        max_bytes: int | None = None,
    ) -> CommandResult:
        """Run a command line to its end; see ``commands.run_command``."""
        self.check_command(command, cwd=cwd)
        place = self.check_path(cwd, write=False)
        if not await trio.Path(place).is_dir():
            raise ToolError(f"cwd '{cwd}' is not a directory (it stands for {place})", transient=False)
        return await run_command(command, cwd=place, seconds=timeout, max_bytes=max_bytes)

    def http(self, purpose: Purpose) -> AbstractAsyncContextManager[HttpClient]:
        """A client with the access of this process, proxies of the environment included.

        :raises SandboxError: on entering, for attachments and webhooks.
        """
        return self._http(purpose)

    @asynccontextmanager
    async def _http(self, purpose: Purpose) -> AsyncIterator[HttpClient]:
        _check_purpose(purpose)
        from treadle_http import open_client
        from treadle_sandbox.http import PolicyHttpClient

        async with open_client() as client:
            yield PolicyHttpClient(client)


def _check_purpose(purpose: Purpose) -> None:
    if purpose in _UNSERVED:
        raise SandboxError(
            f"the sandbox of treadle-sandbox 0.1 cannot keep {_UNSERVED[purpose]} away from internal addresses yet, "
            "so it refuses them"
        )
