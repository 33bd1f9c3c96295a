"""The other end of :mod:`treadle._bridges.processes`: a program that makes one call and tells what came of it.

It is run as a file and imports the standard library only, so that a call which needs nothing else starts in
milliseconds. What goes to and fro is a length of eight bytes, big-endian, and as many bytes of pickle.

The call comes in on standard input, which stays open for as long as the caller lives: when it ends, so does this.
The answer goes out on what was standard output; what the function prints goes to standard error.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
import threading
import traceback
from typing import Any, BinaryIO, Literal, NamedTuple

__all__ = ["LENGTH", "Answer", "main"]

LENGTH = 8
"""Bytes of the length before each message."""


class Answer(NamedTuple):
    """What came of a call; as a plain tuple on its way, since this module has another name on the other side.

    :param kind: ``value``, ``error`` for one that the function raised, ``call`` where there is no such function
        here, or ``unpicklable`` where its value cannot be sent.
    :param pickled: the value or the exception; None where it cannot be sent.
    :param said: the exception as text, ``ValueError: no``.
    :param bases: names of the built-in exceptions that it is one of, the nearest first.
    :param trace: its traceback as text.
    """

    kind: Literal["value", "error", "call", "unpicklable"]
    pickled: bytes | None
    said: str = ""
    bases: tuple[str, ...] = ()
    trace: str = ""


def main() -> None:
    """Make the call that comes in, and end."""
    calls, answers = _own_channels()
    preparation, call = pickle.loads(_read(calls)), _read(calls)  # noqa: S301 - from whoever started us
    threading.Thread(target=_end_with_the_caller, args=(calls,), daemon=True).start()
    answer = _answer(preparation, call)
    message = pickle.dumps(tuple(answer), pickle.HIGHEST_PROTOCOL)
    answers.write(len(message).to_bytes(LENGTH, "big"))
    answers.write(message)
    answers.flush()
    # Threads that the function left would keep this process; the caller ends it anyway.
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    os._exit(0)


def _own_channels() -> tuple[BinaryIO, BinaryIO]:
    """Move both pipes to descriptors that no child inherits, and leave the standard ones for the function."""
    calls, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 0)
    try:
        os.dup2(2, 1)
    except OSError:  # started with standard error closed
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
    os.close(nowhere)
    return calls, answers


def _read(calls: BinaryIO) -> bytes:
    length = int.from_bytes(calls.read(LENGTH), "big")
    message = calls.read(length)
    if len(message) != length or not length:
        os._exit(1)  # the caller has ended, or has given the call up
    return message


def _end_with_the_caller(calls: BinaryIO) -> None:
    if not calls.read(1):
        if hasattr(os, "killpg"):
            os.killpg(0, signal.SIGKILL)  # what the function started as well
        os._exit(1)


def _answer(preparation: dict[str, Any] | None, call: bytes) -> Answer:
    try:
        if preparation is not None:
            import multiprocessing.process  # not above: every run imports this module, and few make such calls
            import multiprocessing.spawn

            # As multiprocessing does it: so a program that starts runs without `if __name__ == "__main__"` is told.
            process: Any = multiprocessing.process.current_process()
            process._inheriting = True
            try:
                sys.path[:] = preparation["sys_path"]  # its own start of a main module needs them
                multiprocessing.spawn.prepare(preparation)
            finally:
                del process._inheriting
        function, args = pickle.loads(call)  # noqa: S301
    except BaseException as error:
        return _of_error("call", error)
    try:
        value = function(*args)
    except BaseException as error:
        return _of_error("error", error)
    try:
        return Answer("value", pickle.dumps(value, pickle.HIGHEST_PROTOCOL))
    except Exception as error:
        return _of_error("unpicklable", error)


def _of_error(kind: Literal["error", "call", "unpicklable"], error: BaseException) -> Answer:
    pickled: bytes | None = None
    try:
        pickled = pickle.dumps(error, pickle.HIGHEST_PROTOCOL)
        pickle.loads(pickled)  # noqa: S301 - many exceptions go out and do not come back
    except Exception:
        pickled = None
    bases = tuple(each.__name__ for each in type(error).__mro__ if each.__module__ == "builtins")
    name, text = type(error).__name__, str(error)
    # Without the frame of this module, which is no part of the story.
    trace = "".join(
        traceback.format_exception(error.with_traceback(error.__traceback__ and error.__traceback__.tb_next))
    )
    return Answer(kind, pickled, f"{name}: {text}" if text else name, bases, trace)


if __name__ == "__main__":
    main()
