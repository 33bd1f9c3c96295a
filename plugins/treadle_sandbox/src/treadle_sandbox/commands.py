"""Programs, run in a process group of their own so that all they start can be ended with them."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from subprocess import DEVNULL, PIPE

import trio

from treadle import CommandResult, ToolError

__all__ = ["OutputTooLongError", "run_command"]

_LEFT_OPEN_SECONDS = 1.0
"""How long output is still awaited from what a command left running in the background."""

_END_SECONDS = 5.0
"""How long an ended process is waited for. SIGKILL cannot be refused, but a process stuck in the kernel stays."""

_SWEEPS = 5
"""How often descendants outside of the group are looked for: a killed one may just have started another."""

_TIMED_OUT = b"Command timed out"


async def run_command(
    words: Sequence[str],
    *,
    program: Path | str,
    cwd: Path,
    at: Path | str,
    environment: Mapping[str, str],
    seconds: float | None,
    max_bytes: int | None,
) -> CommandResult:
    """Run a program with an empty standard input.

    The call ends when the program has ended and its output has been read. A background process that keeps the
    output open after that (``sleep 60 & echo hi``) is given one second, and is then killed with the rest of the
    group: nobody is left to read what it writes. One that has redirected its output lives on, as it would in a
    terminal.

    On a time-out, on cancellation and where there is more output than ``max_bytes`` (standard output and error
    together), the whole process group is killed, and so are descendants that have left it (``setsid``) where the
    system tells of them (Linux); the program is waited for. A process that has left the group and lost its parent
    (a daemon) is beyond reach.

    :param words: its arguments, the name it is called by first.
    :param cwd: the directory it runs in, for messages.
    :param at: another name of that directory, by which it is entered.
    :param seconds: most it may take; past them the result has ``timed_out``, ``returncode`` -1, the text
        ``Command timed out`` as standard error and what was read of standard output.
    :raises ToolError: it cannot be started, or there is too much output.
    """
    if any("\0" in word for word in words):
        raise ToolError("the command holds a NUL character", transient=False)
    output = _Output(max_bytes)
    try:
        process = await trio.lowlevel.open_process(
            list(words),
            executable=program,
            stdin=DEVNULL,
            stdout=PIPE,
            stderr=PIPE,
            cwd=at,
            env=dict(environment),
            start_new_session=True,
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
            _kill_all(process)
        # Shielded: what is being cancelled still has to be ended, and a zombie would outlive the run.
        with trio.CancelScope(shield=True, deadline=trio.current_time() + _END_SECONDS):
            await process.wait()
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                with trio.CancelScope(shield=True):
                    await pipe.aclose()
    if output.is_too_long:
        raise OutputTooLongError(
            f"the command wrote more than the limit of {max_bytes} bytes and was ended", transient=False
        )
    if timed_out:
        return CommandResult(returncode=-1, stdout=bytes(output.stdout), stderr=_TIMED_OUT, timed_out=True)
    return CommandResult(
        returncode=-1 if process.returncode is None else process.returncode,
        stdout=bytes(output.stdout),
        stderr=bytes(output.stderr),
    )


class OutputTooLongError(ToolError):
    """A command wrote more than it may."""


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


def _kill_all(process: trio.Process) -> None:
    """Kill every process of the group, and descendants of the program outside of it.

    The group's id is the program's, and is not given away while one is alive.
    """
    # Before the group dies: then its children outside belong to nobody. New ones may appear while this looks.
    for _ in range(_SWEEPS):
        outside = _descendants(process.pid)
        if not outside:
            break
        for pid in outside:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
    with suppress(ProcessLookupError):  # all of them have ended by themselves
        os.killpg(process.pid, signal.SIGKILL)


def _descendants(pid: int) -> list[int]:
    """Living processes below this one that are not in its group; none where the system does not tell (``/proc``)."""
    children: dict[int, list[tuple[int, int]]] = {}
    try:
        entries = [name for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208 - thousands of names
    except OSError:
        return []
    for name in entries:
        try:
            text = Path("/proc", name, "stat").read_text(encoding="utf-8", errors="replace")
        except OSError:  # it has ended
            continue
        # proc_pid_stat(5): the name in brackets may hold anything, then come state, parent and group.
        state, parent, group = text.rpartition(")")[2].split()[:3]
        if state != "Z":
            children.setdefault(int(parent), []).append((int(name), int(group)))
    found, pending = [], [pid]
    while pending:
        for child, its_group in children.get(pending.pop(), ()):
            pending.append(child)
            if its_group != pid:
                found.append(child)
    return found
