"""Command lines, run in a process group of their own so that all they start can be ended with them."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from subprocess import DEVNULL, PIPE

import trio

from treadle import CommandResult, ToolError

__all__ = ["run_command"]

_LEFT_OPEN_SECONDS = 1.0
"""How long output is still awaited from what a command left running in the background."""

_END_SECONDS = 5.0
"""How long an ended process is waited for. SIGKILL cannot be refused, but a process stuck in the kernel stays."""

_TIMED_OUT = b"Command timed out"


async def run_command(command: str, *, cwd: Path, seconds: float | None, max_bytes: int | None) -> CommandResult:
    """Run ``sh -c command`` with this process's environment and an empty standard input.

    The call ends when the shell has ended and its output has been read. A background process that keeps the
    output open after that (``sleep 60 & echo hi``) is given one second, and is then killed with the rest of the
    group: nobody is left to read what it writes. One that has redirected its output lives on, as it would in a
    terminal.

    On a time-out, on cancellation and where there is more output than ``max_bytes`` (standard output and error
    together), the whole process group is killed and the shell is waited for. A process that has left the group
    (``setsid``) is beyond reach.

    :param seconds: most it may take; past them the result has ``timed_out``, ``returncode`` -1, the text
        ``Command timed out`` as standard error and what was read of standard output.
    :raises ToolError: there is no such directory, no shell, or too much output.
    """
    if "\0" in command:
        raise ToolError("the command holds a NUL character", transient=False)
    output = _Output(max_bytes)
    try:
        process = await trio.lowlevel.open_process(
            ["sh", "-c", command], stdin=DEVNULL, stdout=PIPE, stderr=PIPE, cwd=cwd, start_new_session=True
        )
    except OSError as error:
        cause = error.strerror or str(error)
        raise ToolError(f"the command cannot be started in {cwd}: {cause}", transient=False) from error
    all_read = False
    try:
        with trio.move_on_after(float("inf") if seconds is None else seconds):
            all_read = await _follow(process, output)
    finally:
        # Asked before it is killed: a shell that ended in time did not time out, whatever it left behind.
        timed_out = process.returncode is None
        if not all_read:
            _kill_group(process)
        # Shielded: what is being cancelled still has to be ended, and a zombie would outlive the run.
        with trio.CancelScope(shield=True, deadline=trio.current_time() + _END_SECONDS):
            await process.wait()
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                with trio.CancelScope(shield=True):
                    await pipe.aclose()
    if output.is_too_long:
        raise ToolError(f"the command wrote more than the limit of {max_bytes} bytes and was ended", transient=False)
    if timed_out:
        return CommandResult(returncode=-1, stdout=bytes(output.stdout), stderr=_TIMED_OUT, timed_out=True)
    return CommandResult(
        returncode=-1 if process.returncode is None else process.returncode,
        stdout=bytes(output.stdout),
        stderr=bytes(output.stderr),
    )


class _Output:
    """What a command has written so far."""

    def __init__(self, max_bytes: int | None) -> None:
        self.stdout = bytearray()
        self.stderr = bytearray()
        self._max_bytes = max_bytes

    @property
    def is_too_long(self) -> bool:
        return self._max_bytes is not None and len(self.stdout) + len(self.stderr) > self._max_bytes

    async def collect(self, pipe: trio.abc.ReceiveStream, into: bytearray, scope: trio.CancelScope) -> None:
        """Read to the end, or cancel ``scope`` where the limit is passed."""
        while data := await pipe.receive_some():
            into += data
            if self.is_too_long:
                scope.cancel()
                return


async def _follow(process: trio.Process, output: _Output) -> bool:
    """Read until the shell has ended; tell whether that was all and nothing is left to be killed."""
    if process.stdout is None or process.stderr is None:
        raise AssertionError("both are pipes")
    async with trio.open_nursery() as nursery:
        scope = nursery.cancel_scope
        nursery.start_soon(output.collect, process.stdout, output.stdout, scope)
        nursery.start_soon(output.collect, process.stderr, output.stderr, scope)
        await process.wait()
        scope.deadline = trio.current_time() + _LEFT_OPEN_SECONDS
    return not scope.cancelled_caught


def _kill_group(process: trio.Process) -> None:
    """Kill every process of the group. The group's id is the shell's, and is not given away while one is alive."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return  # all of them have ended by themselves
