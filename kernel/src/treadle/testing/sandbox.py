"""A sandbox without a world: files in memory, commands and pages as scripted, and everything recorded."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import trio
from pydantic import BaseModel, ConfigDict

from treadle._plugins.objects import offering
from treadle.contracts.sandbox import CommandResult, HttpClient, HttpReply, HttpRequest, Purpose, Sandbox
from treadle.errors import SandboxError, ToolError

__all__ = ["FakeSandbox", "standing_for"]


class AnyBlock(BaseModel):
    """A ``config.sandbox`` block of whatever keys."""

    model_config = ConfigDict(extra="allow", frozen=True)


class FakeSandbox(Sandbox):
    """Touches nothing. What was asked of it is in ``reads``, ``writes``, ``commands_run`` and ``requests``.

    :param files: path -> content; a file that is not here raises ``FileNotFoundError``.
    :param commands: command line -> what it prints, or its whole result; any other gives the return code 127.
    :param urls: URL -> body, whole reply, or an error to raise; any other gives the status 404.
    :param refuses: paths, command lines and URLs, or their beginnings, that are refused; ``*`` refuses everything.
    """

    block_model = AnyBlock

    def __init__(
        self,
        block: BaseModel | None = None,
        base: Path = Path(),
        *,
        files: Mapping[str, str | bytes] = {},
        commands: Mapping[str, str | CommandResult] = {},
        urls: Mapping[str, str | bytes | HttpReply | Exception] = {},
        refuses: Collection[str] = (),
    ) -> None:
        super().__init__(block or AnyBlock(), base)
        self.files = {str(Path(path)): _bytes(content) for path, content in files.items()}
        self.refuses = (refuses,) if isinstance(refuses, str) else tuple(refuses)
        self.reads: list[str] = []
        self.writes: list[str] = []
        self.commands_run: list[str] = []
        self.requests: list[tuple[Purpose, HttpRequest]] = []
        self._commands = dict(commands)
        self._urls = dict(urls)

    @property
    def used(self) -> bool:
        """Whether anything was asked for, refused or not."""
        return self._asked > 0

    _asked = 0

    @classmethod
    def combine(cls, parent: BaseModel, child: BaseModel) -> BaseModel:
        """The keys of both; the parent's win."""
        return AnyBlock(**{**child.model_dump(), **parent.model_dump()})

    def as_plugin(self) -> object:
        """A plugin that offers this very object as the sandbox ``fake``."""
        return offering({"sandbox": {"fake": standing_for(self)}})

    def check_path(self, path: str, *, write: bool) -> Path:
        """The path as it was given."""
        self._check(path, "path")
        return Path(path)

    def check_command(self, command: str, *, cwd: str) -> None:
        """Return unless it is refused."""
        self._check(command, "command")

    async def check_url(self, url: str, *, purpose: Purpose) -> None:
        """Return unless it is refused."""
        await trio.lowlevel.checkpoint()
        self._check(url, "URL")

    async def read(self, path: str, *, max_bytes: int | None = None) -> bytes:
        """The content of a file that was given or written."""
        await trio.lowlevel.checkpoint()
        self._check(path, "path")
        self.reads.append(path)
        content = self.files.get(str(Path(path)))
        if content is None:
            raise FileNotFoundError(2, "No such file or directory", path)
        if max_bytes is not None and len(content) > max_bytes:
            raise ToolError(f"the file {path} has {len(content)} bytes, more than {max_bytes}", transient=False)
        return content

    async def write(self, path: str, data: bytes) -> Path:
        """Keep the content."""
        await trio.lowlevel.checkpoint()
        self._check(path, "path")
        self.writes.append(path)
        self.files[str(Path(path))] = bytes(data)
        return Path(path)

    async def run(
        self, command: str, *, cwd: str = ".", timeout: float | None = None, max_bytes: int | None = None
    ) -> CommandResult:
        """What was scripted."""
        await trio.lowlevel.checkpoint()
        self._check(command, "command")
        self.commands_run.append(command)
        result = self._commands.get(command)
        if isinstance(result, CommandResult):
            return result
        if result is None:
            return CommandResult(returncode=127, stdout=b"", stderr=f"{command}: not found\n".encode())
        return CommandResult(returncode=0, stdout=result.encode(), stderr=b"")

    def http(self, purpose: Purpose) -> AbstractAsyncContextManager[HttpClient]:
        """A client that gives what was scripted."""
        return _client(self, purpose)

    async def _send(self, purpose: Purpose, request: HttpRequest) -> HttpReply:
        await trio.lowlevel.checkpoint()
        self._check(request.url, "URL")
        self.requests.append((purpose, request))
        given = self._urls.get(request.url)
        if isinstance(given, Exception):
            raise given
        if isinstance(given, HttpReply):
            reply = given
        else:
            status, body = (404, b"not found") if given is None else (200, _bytes(given))
            reply = HttpReply(status_code=status, headers={}, body=body, url=request.url)
        if request.max_bytes is not None and len(reply.body) > request.max_bytes:
            text = f"the reply of {request.url} has {len(reply.body)} bytes, more than {request.max_bytes}"
            raise ToolError(text, transient=False)
        return reply

    def _check(self, what: str, kind: str) -> None:
        self._asked += 1
        if any(each == "*" or what.startswith(each) for each in self.refuses):
            raise SandboxError(f"the sandbox refuses the {kind} {what}")


class _Client:
    def __init__(self, sandbox: FakeSandbox, purpose: Purpose) -> None:
        self._sandbox = sandbox
        self._purpose = purpose

    async def send(self, request: HttpRequest) -> HttpReply:
        return await self._sandbox._send(self._purpose, request)


@asynccontextmanager
async def _client(sandbox: FakeSandbox, purpose: Purpose) -> AsyncIterator[HttpClient]:
    await trio.lowlevel.checkpoint()
    yield _Client(sandbox, purpose)


def standing_for(sandbox: Sandbox) -> Any:
    """What stands where a class of sandboxes is expected, and gives the one that a test made."""

    class Standing:
        block_model = sandbox.block_model
        combine = sandbox.combine

        def __new__(cls, block: BaseModel, base: Path) -> Any:
            return sandbox

    return Standing


def _bytes(content: str | bytes) -> bytes:
    return content.encode() if isinstance(content, str) else content
