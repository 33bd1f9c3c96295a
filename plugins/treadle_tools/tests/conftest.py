"""A sandbox that records what it is asked for and answers what it is told."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from treadle import CommandResult, HttpReply, HttpRequest, Sandbox, ToolContext
from treadle_sandbox.block import PolicyBlock
from treadle_sandbox.policy import PolicySandbox


class RecordingSandbox(Sandbox):
    """Keeps requests and commands; gives ``reply`` and ``result``."""

    block_model = PolicyBlock

    def __init__(self) -> None:
        super().__init__(PolicyBlock(), Path("/base"))
        self.requests: list[HttpRequest] = []
        self.purposes: list[str] = []
        self.commands: list[tuple[str, dict[str, Any]]] = []
        self.reply = HttpReply(status_code=200, headers={}, body=b"", url="")
        self.result = CommandResult(returncode=0, stdout=b"", stderr=b"")
        self.fails: OSError | None = None

    @classmethod
    def combine(cls, parent: BaseModel, child: BaseModel) -> BaseModel:
        return child

    def check_path(self, path: str, *, write: bool) -> Path:
        return self.base / path

    def check_command(self, command: str, *, cwd: str) -> None:
        """Everything may run."""

    async def check_url(self, url: str, *, purpose: Any) -> None:
        """Everything may be reached."""

    async def read(self, path: str, *, max_bytes: int | None = None) -> bytes:
        raise self.fails or AssertionError("not asked for")

    async def write(self, path: str, data: bytes) -> Path:
        raise self.fails or AssertionError("not asked for")

    async def run(self, command: str, **options: Any) -> CommandResult:
        self.commands.append((command, options))
        return self.result

    @asynccontextmanager
    async def http(self, purpose: Any) -> AsyncIterator[Any]:
        self.purposes.append(purpose)
        yield self

    async def send(self, request: HttpRequest) -> HttpReply:
        self.requests.append(request)
        return self.reply


@pytest.fixture
def recording() -> RecordingSandbox:
    return RecordingSandbox()


@pytest.fixture
def recorded(recording: RecordingSandbox) -> ToolContext:
    """A context whose sandbox is ``recording``."""
    return ToolContext(run_id="r", step_id="s", call_id="c", sandbox=recording)


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return tmp_path.resolve()


@pytest.fixture
def real(base: Path) -> ToolContext:
    """A context whose sandbox reaches the files and commands of this machine, from ``base``."""
    return ToolContext(run_id="r", step_id="s", call_id="c", sandbox=PolicySandbox(PolicyBlock(), base))


@pytest.fixture
def bare() -> ToolContext:
    """A context without a sandbox."""
    return ToolContext(run_id="r", step_id="s", call_id="c")
