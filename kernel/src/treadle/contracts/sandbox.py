"""The sandbox: the only way of tools, attachments and webhooks to files, commands and the network."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import field
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Literal, Protocol, Self

from pydantic import BaseModel

from treadle._dataclasses import dataclass

__all__ = ["CommandResult", "HttpClient", "HttpReply", "HttpRequest", "Purpose", "Sandbox"]

Purpose = Literal["tool", "attachment", "webhook", "mcp"]
"""What a request is for; the rules differ."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandResult:
    """What a command came to. ``returncode`` is negative where a signal ended it, and -1 on a time-out."""

    returncode: int
    stdout: bytes
    stderr: bytes
    timed_out: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    """One request. ``timeout`` is in seconds for each phase; ``max_bytes`` limits the body that is read."""

    method: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    content: bytes | None = None
    timeout: float = 30.0
    max_bytes: int | None = None
    max_redirects: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpReply:
    """One response, read whole. Header names are lower-case; repeated headers are joined by ``, ``."""

    status_code: int
    headers: Mapping[str, str]
    body: bytes
    url: str


class HttpClient(Protocol):
    """Sends requests under the sandbox's rules."""

    async def send(self, request: HttpRequest) -> HttpReply:
        """Send one request.

        :raises SandboxError: the rules refuse it, or one of its redirects.
        :raises ToolError: it could not be made.
        """
        ...


class Sandbox(ABC):
    """Holds tools to a run's ``config.sandbox`` block.

    Entered (``async with``) in the run's own task before its first step and left after its last.
    Every method raises ``SandboxError`` where the rules refuse.
    """

    block_model: ClassVar[type[BaseModel]]
    """The shape of the block. Validated with a context: ``secret_variables``, a callable that gives the names of the
    environment variables that hold the deployment's keys, and that may import providers to do so."""

    def __init__(self, block: BaseModel, base: Path) -> None:
        """``block`` is an instance of ``block_model``; relative paths start from ``base``."""
        self.block = block
        self.base = base

    @classmethod
    @abstractmethod
    def combine(cls, parent: BaseModel, child: BaseModel) -> BaseModel:
        """The block of a child workflow under its parent's: what both allow."""

    async def __aenter__(self) -> Self:
        """Open what its methods need."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        """Close it again."""
        return None

    @abstractmethod
    def check_path(self, path: str, *, write: bool) -> Path:
        """The resolved path, if it may be read or written."""

    @abstractmethod
    def check_command(self, command: str, *, cwd: str) -> None:
        """Return if the command line may run there."""

    @abstractmethod
    async def check_url(self, url: str, *, purpose: Purpose) -> None:
        """Return if the URL may be reached."""

    @abstractmethod
    async def read(self, path: str, *, max_bytes: int | None = None) -> bytes:
        """The file's bytes.

        :raises OSError: as opening and reading do.
        :raises ToolError: it is larger than ``max_bytes``.
        """

    @abstractmethod
    async def write(self, path: str, data: bytes) -> Path:
        """Replace or make the file, and the directories above it. Gives the resolved path."""

    @abstractmethod
    async def run(
        self, command: str, *, cwd: str = ".", timeout: float | None = None, max_bytes: int | None = None
    ) -> CommandResult:
        """Run a command line to its end. The command and all it started are ended on a time-out or cancellation."""

    @abstractmethod
    def http(self, purpose: Purpose) -> AbstractAsyncContextManager[HttpClient]:
        """A client for requests of that purpose."""
