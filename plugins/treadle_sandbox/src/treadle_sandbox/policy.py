"""The sandbox ``policy``."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

import trio
from pydantic import BaseModel

from treadle import CommandResult, HttpClient, Sandbox, SandboxError, ToolError
from treadle.contracts.sandbox import Purpose
from treadle_sandbox.block import PolicyBlock, combined
from treadle_sandbox.command_line import CheckedCommand, checked_command
from treadle_sandbox.commands import OutputTooLongError, run_command
from treadle_sandbox.files import open_directory, read_file, replace_file
from treadle_sandbox.paths import PathRules

__all__ = ["PolicySandbox"]

_ENVIRONMENT = ("PATH", "HOME", "LANG", "LC_ALL", "TZ")
"""What a command gets of the environment under an enabled block."""

_DESCRIPTORS = "/proc/self/fd"
_HAS_DESCRIPTORS = Path(_DESCRIPTORS).is_dir()


class PolicySandbox(Sandbox):
    """Holds tools, attachments and webhooks to a :class:`PolicyBlock`.

    The checks guard against mistakes. They see a command as it is written, not what an allowed program then does.
    """

    block_model = PolicyBlock

    def __init__(self, block: BaseModel, base: Path) -> None:
        """``block`` is a :class:`PolicyBlock`; its directories are resolved now."""
        super().__init__(block, base)
        self._block = _policy(block)
        self._paths = PathRules(self._block, base)
        self._secret_variables: frozenset[str] | None = None

    @classmethod
    def combine(cls, parent: BaseModel, child: BaseModel) -> PolicyBlock:
        """The block of a child workflow under its parent's; see :func:`treadle_sandbox.block.combined`.

        :raises SandboxError: either is a block of another sandbox.
        """
        return combined(_policy(parent), _policy(child))

    # --- checks -------------------------------------------------------------------------------------------

    def check_path(self, path: str, *, write: bool) -> Path:
        """The real path, if it may be read or written.

        :raises SandboxError: it may not.
        """
        return self._paths.file(path, write=write)

    def check_command(self, command: str, *, cwd: str) -> None:
        """Return if the command line may run there.

        :raises SandboxError: it may not.
        """
        if self._block.enabled:
            self._checked(command, cwd)

    async def check_url(self, url: str, *, purpose: Purpose) -> None:
        """Return if the URL may be reached; its host is looked up where internal addresses may not.

        :raises ToolError: it is no http or https URL.
        :raises SandboxError: it may not be reached.
        """
        from treadle_sandbox.network import NetworkRules

        rules = NetworkRules(self._block, purpose)
        parsed = rules.parsed(url)
        rules.check_url(parsed)
        # An attachment that is only checked is the model provider's to fetch, by its own name servers.
        await rules.check_host(parsed, unknown=purpose == "attachment")
        await trio.lowlevel.checkpoint()

    # --- files --------------------------------------------------------------------------------------------

    async def read(self, path: str, *, max_bytes: int | None = None) -> bytes:
        """The file's bytes, read in a thread. A read that blocks, as of a pipe, is left behind when cancelled."""
        place = self.check_path(path, write=False)
        read = partial(read_file, place, max_bytes, only_files=self._block.enabled)
        return await trio.to_thread.run_sync(read, abandon_on_cancel=True)

    async def write(self, path: str, data: bytes) -> Path:
        """Replace or make the file and the directories above it, in a thread; see ``files.replace_file``."""
        place = self.check_path(path, write=True)
        most = self._block.max_write_bytes
        if self._block.enabled and most is not None and len(data) > most:
            raise SandboxError(
                f"the sandbox does not allow '{path}' to be written: its {len(data)} bytes are more than "
                f"max_write_bytes ({most})"
            )
        await trio.to_thread.run_sync(partial(replace_file, place, data, only_files=self._block.enabled))
        return place

    # --- commands -----------------------------------------------------------------------------------------

    async def run(
        self,
        command: str,
        *,
        cwd: str = ".",
        timeout: float | None = None,
        max_bytes: int | None = None,
    ) -> CommandResult:
        """Run a command line to its end: by ``sh -c`` while the block is disabled, else its words without a shell.

        :param max_bytes: most output; without it the block's ``max_output_bytes``.
        """
        checked = self._checked(command, cwd) if self._block.enabled else self._for_the_shell(command, cwd)
        if checked.program is None:
            # As a shell has it: a program that is not there is a result, not an error.
            return CommandResult(returncode=127, stdout=b"", stderr=f"{checked.words[0]}: not found\n".encode())
        environment = await self._environment()
        with ExitStack() as opened:
            try:
                descriptor = opened.enter_context(open_directory(checked.cwd))
            except OSError as error:
                cause = "is not a directory" if isinstance(error, NotADirectoryError | FileNotFoundError) else None
                raise ToolError(
                    f"cwd '{cwd}' {cause or f'cannot be entered: {error.strerror}'} (it stands for {checked.cwd})",
                    transient=False,
                ) from error
            try:
                return await run_command(
                    checked.words,
                    program=checked.program,
                    cwd=checked.cwd,
                    # By its descriptor, so that it is the directory that was checked.
                    at=f"{_DESCRIPTORS}/{descriptor}" if _HAS_DESCRIPTORS else checked.cwd,
                    environment=environment,
                    seconds=timeout,
                    max_bytes=self._block.max_output_bytes if max_bytes is None else max_bytes,
                )
            except OutputTooLongError as error:
                if max_bytes is not None:
                    raise
                raise OutputTooLongError(
                    f"the command wrote more than sandbox.max_output_bytes ({self._block.max_output_bytes}) and was "
                    "ended",
                    hint="set config.sandbox.max_output_bytes higher, or to none",
                    transient=False,
                ) from error

    def _checked(self, command: str, cwd: str) -> CheckedCommand:
        return checked_command(command, cwd=cwd, block=self._block, paths=self._paths, environment=os.environ)

    def _for_the_shell(self, command: str, cwd: str) -> CheckedCommand:
        return CheckedCommand(("sh", "-c", command), Path("sh"), self._paths.directory(cwd))

    async def _environment(self) -> Mapping[str, str]:
        """What a command sees: never the variables that the deployment reads keys from."""
        if self._secret_variables is None:
            # In a thread, as it may import the plugins of providers to ask them.
            self._secret_variables = await trio.to_thread.run_sync(self._block.secret_variables)
        names = _ENVIRONMENT if self._block.enabled else tuple(os.environ)
        return {name: os.environ[name] for name in names if name in os.environ and name not in self._secret_variables}

    # --- HTTP ---------------------------------------------------------------------------------------------

    def http(self, purpose: Purpose) -> AbstractAsyncContextManager[HttpClient]:
        """A client for requests of that purpose; see :class:`treadle_sandbox.network.NetworkRules`.

        Proxies of the environment are used. A host that is reached through one is looked up by the proxy once more.
        """
        return self._http(purpose)

    @asynccontextmanager
    async def _http(self, purpose: Purpose) -> AsyncIterator[HttpClient]:
        from treadle_sandbox.http import open_policy_client
        from treadle_sandbox.network import NetworkRules

        async with open_policy_client(NetworkRules(self._block, purpose), self._block.max_body_bytes) as client:
            yield client


def _policy(block: BaseModel) -> PolicyBlock:
    if not isinstance(block, PolicyBlock):
        raise SandboxError(
            f"the sandbox 'policy' cannot hold tools to the block of another one ({type(block).__name__})"
        )
    return block
