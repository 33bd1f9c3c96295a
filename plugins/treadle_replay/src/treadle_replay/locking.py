"""A file held by one process at a time, as the operating system sees to it. A process that dies lets go of it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from treadle_replay.errors import RecordingError

__all__ = ["held", "take"]

_PAUSE = 0.02


def take(path: Path) -> int | None:
    """The file, made if need be, opened and held; None where another process holds it. ``os.close`` lets go of it.

    :raises OSError: it cannot be opened, or this file system knows no locks.
    """
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        if _try_lock(handle) and _is_there(handle, path):
            return handle
    except BaseException:
        os.close(handle)
        raise
    os.close(handle)
    return None


@contextmanager
def held(path: Path, *, what: Path, seconds: float) -> Iterator[None]:
    """Hold the file while the context lasts. Blocks until it can be had.

    :param what: the file that it stands for, for messages.
    :raises RecordingError: it could not be had in so many seconds, or at all.
    """
    deadline = time.monotonic() + seconds
    try:
        while (handle := take(path)) is None:
            if time.monotonic() >= deadline:
                raise RecordingError(
                    f"{what}: another process has held its lock ({path.name}) for {seconds:g} s",
                    hint="end that one, or record into another file",
                )
            time.sleep(_PAUSE)
    except OSError as error:
        raise RecordingError(f"{what}: cannot be locked by {path.name}: {error.strerror or error}") from error
    try:
        yield
    finally:
        os.close(handle)


def _is_there(handle: int, path: Path) -> bool:
    """Whether the file has not been deleted by whoever held it before."""
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False


def _try_lock(handle: int) -> bool:
    try:
        import fcntl
    except ImportError:
        return _try_lock_on_windows(handle)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _try_lock_on_windows(handle: int) -> bool:
    import msvcrt  # the module and its functions are there on Windows only

    try:
        msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined,unused-ignore]
    except PermissionError:
        return False
    return True
