"""Functions that block, called in a process of their own that can be killed."""

from __future__ import annotations

import builtins
import os
import pickle
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from subprocess import PIPE
from typing import Any, TypeVar, TypeVarTuple

import trio

from treadle._bridges.worker import LENGTH, Answer
from treadle.errors import StepError

__all__ = ["call_in_process", "name_of"]

R = TypeVar("R")
Ts = TypeVarTuple("Ts")

_WORKER = Path(__file__).with_name("worker.py")

_CHUNK = 1 << 16
"""As much as a pipe holds. What is asked for is allocated, whatever comes."""

_END_SECONDS = 5.0
"""How long a killed process is waited for. One that is stuck in the kernel stays."""


def name_of(function: Callable[..., Any]) -> str:
    """What a function is called in messages."""
    name: str = getattr(function, "__name__", type(function).__name__)
    return name


async def call_in_process(
    function: Callable[[*Ts], R], *args: *Ts, is_fault: Callable[[type[BaseException]], bool] = lambda _: False
) -> R:
    """Call a function in a process of its own, and give what it gives or raise what it raises.

    However this ends, the process has then ended, and so has all that it started and that stayed in its group.

    :param is_fault: of a built-in class of errors, whether the next call would meet it again.
    :raises StepError: the call or its value cannot be sent, or the process ended without an answer.
    """
    name = name_of(function)
    messages = _messages(name, function, args)
    # -P: neither the folder of the worker nor the working directory is where modules are looked for first.
    argv = [sys.executable, "-P", str(_WORKER)]
    async with _started(argv) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            for message in messages:
                await process.stdin.send_all(len(message).to_bytes(LENGTH, "big"))
                await process.stdin.send_all(message)
            sent = await _receive(process.stdout)
        except trio.BrokenResourceError:
            sent = None
    if sent is None:
        raise StepError(f"the process of function '{name}' {_end_of(process)} without an answer", transient=True)
    answer = Answer(*pickle.loads(sent))  # noqa: S301 - from a program of ours, as all that is read here
    if answer.kind == "value":
        return _loaded(name, answer)  # type: ignore[no-any-return]
    raise _error_of(name, answer, is_fault)


def _messages(name: str, function: Callable[..., Any], args: tuple[Any, ...]) -> tuple[bytes, bytes]:
    """What the worker is to know before it reads the call, and the call."""
    try:
        call = pickle.dumps((function, args), pickle.HIGHEST_PROTOCOL)
    except Exception as error:
        raise StepError(
            f"function '{name}' cannot be called in a process: {_text(error)}",
            hint="give it a function of a module, and arguments that can be pickled",
            transient=False,
        ) from error
    from multiprocessing.spawn import get_preparation_data  # only where there is such a call

    try:
        preparation: dict[str, Any] = get_preparation_data(name)
    except RuntimeError as error:
        raise StepError(
            f"function '{name}' cannot be called in a process by a program that one is importing",
            hint="begin runs under: if __name__ == '__main__':",
            transient=False,
        ) from error
    del preparation["authkey"]  # lets nobody in here, and refuses to be sent
    if b"__main__" not in call:
        for key in ("init_main_from_name", "init_main_from_path"):
            preparation.pop(key, None)  # a program is not run again for the sake of what it does not define
    return pickle.dumps(preparation), call


@asynccontextmanager
async def _started(argv: list[str]) -> AsyncIterator[trio.Process]:
    """A process in a group of its own, all of which has ended when the context is left."""
    process = await trio.lowlevel.open_process(argv, stdin=PIPE, stdout=PIPE, start_new_session=True)
    try:
        yield process
    finally:
        # Before it is waited for, as its number, and the group's, may then be another's.
        # PermissionError is how macOS says that only a zombie is left.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        # What is being cancelled still has to be ended, and a zombie would outlive the run.
        with trio.CancelScope(shield=True, deadline=trio.current_time() + _END_SECONDS):
            await process.wait()
        with trio.CancelScope(shield=True):
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    await pipe.aclose()


async def _receive(pipe: trio.abc.ReceiveStream) -> bytearray | None:
    """A whole message, or None where the pipe ends before."""
    length = await _receive_exactly(pipe, LENGTH)
    return None if length is None else await _receive_exactly(pipe, int.from_bytes(length, "big"))


async def _receive_exactly(pipe: trio.abc.ReceiveStream, count: int) -> bytearray | None:
    data = bytearray()
    while len(data) < count:
        more = await pipe.receive_some(min(count - len(data), _CHUNK))
        if not more:
            return None
        data += more
    return data


def _loaded(name: str, answer: Answer) -> Any:
    try:
        return pickle.loads(answer.pickled or b"")  # noqa: S301
    except Exception as error:
        raise StepError(
            f"what function '{name}' made in its process cannot be read here: {_text(error)}", transient=False
        ) from error


def _error_of(name: str, answer: Answer, is_fault: Callable[[type[BaseException]], bool]) -> BaseException:
    if answer.kind == "call":
        return StepError(
            f"function '{name}' cannot be called in a process: there, {answer.said}",
            hint="define it in a module that can be imported",
            transient=False,
        )
    if answer.kind == "unpicklable":
        return StepError(
            f"what function '{name}' made cannot be brought back from its process: {answer.said}", transient=False
        )
    if answer.pickled is not None and "Exception" in answer.bases:
        try:
            error: BaseException = pickle.loads(answer.pickled)  # noqa: S301
        except Exception:  # known there and not here
            answer = answer._replace(pickled=None)
        else:
            error.add_note(f"in the process of function '{name}':\n{answer.trace}")
            return error
    base = getattr(builtins, answer.bases[0])
    return StepError(f"function '{name}' raised {answer.said}", transient=not is_fault(base))


def _end_of(process: trio.Process) -> str:
    code = process.returncode
    if code is None or code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"


def _text(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
