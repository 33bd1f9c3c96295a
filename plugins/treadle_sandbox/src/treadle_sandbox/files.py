"""Files: opened without following a link, read with a limit, replaced in one stroke. All of it blocks.

A path that was checked may mean another file a moment later, where somebody puts a link into it meanwhile. So what
is opened here is the real path, directory by directory from the root on, each relative to the one before it and
none through a link (``openat(2)`` with ``O_NOFOLLOW``): the very file that was checked, or an error.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from treadle import SandboxError, ToolError

__all__ = ["open_directory", "read_file", "replace_file"]

_CLOSED = getattr(os, "O_CLOEXEC", 0)
_DIRECTORY = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | _CLOSED


@contextmanager
def open_directory(path: Path, *, make: bool = False) -> Iterator[int]:
    """The descriptor of a directory, given by its real path.

    :param make: make it, and those above it, where they are missing.
    :raises OSError: as opening and making directories do.
    :raises SandboxError: a link has taken the place of one of them.
    """
    descriptor = os.open(path.anchor or "/", _DIRECTORY)
    try:
        for name in path.parts[1:]:
            try:
                below = _opened(name, _DIRECTORY, descriptor, path)
            except FileNotFoundError:
                if not make:
                    raise
                with suppress(FileExistsError):
                    os.mkdir(name, dir_fd=descriptor)
                below = _opened(name, _DIRECTORY, descriptor, path)
            os.close(descriptor)
            descriptor = below
        yield descriptor
    finally:
        os.close(descriptor)


def read_file(path: Path, max_bytes: int | None, *, only_files: bool) -> bytes:
    """The file's bytes.

    :param path: the real path.
    :param only_files: refuse pipes, which may block for ever, and devices, which may never end.
    :raises OSError: as opening and reading do.
    :raises SandboxError: a link has taken the place of the file or of a directory above it, or it is no file.
    :raises ToolError: it is larger than ``max_bytes``.
    """
    flags = os.O_RDONLY | os.O_NOFOLLOW | _CLOSED | (os.O_NONBLOCK if only_files else 0)
    with open_directory(path.parent) as directory:
        descriptor = _opened(path.name or ".", flags, directory, path)
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):  # which fdopen refuses too, leaving it open
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if only_files and not stat.S_ISREG(mode):
            raise SandboxError(f"the sandbox allows regular files only, and {path} is none")
    except BaseException:
        os.close(descriptor)
        raise
    with os.fdopen(descriptor, "rb") as file:
        if max_bytes is None:
            return file.read()
        data = file.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise ToolError(f"{path} is larger than the limit of {max_bytes} bytes", transient=False)
    return data


def replace_file(path: Path, data: bytes, *, only_files: bool) -> None:
    """Write ``data`` to ``path``: readers see the old content or the new, never a part.

    Missing directories are made. An existing file keeps its permissions.

    :param path: the real path.
    :param only_files: refuse devices; without it one is written to as it stands.
    :raises OSError: as making directories, writing and renaming do; the old content is then still there.
    :raises SandboxError: a link has taken the place of the file or of a directory above it, or it is no file.
    :raises ToolError: what is there is neither a file nor a device.
    """
    with open_directory(path.parent, make=True) as directory:
        old_mode = _mode_of(path.name or ".", directory)
        if old_mode is not None and stat.S_ISLNK(old_mode):
            raise _swapped(path)
        if old_mode is not None and not stat.S_ISREG(old_mode):
            _write_to_special(path, old_mode, data, directory, only_files=only_files)
            return
        # In the same directory: a rename is atomic within one file system only (rename(2)).
        new = f".treadle-{secrets.token_hex(8)}"
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _CLOSED, 0o666, dir_fd=directory)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                if old_mode is not None:
                    os.fchmod(file.fileno(), stat.S_IMODE(old_mode))
            # A link that takes the old file's place now is replaced itself, not followed (rename(2)).
            os.replace(new, path.name, src_dir_fd=directory, dst_dir_fd=directory)
        except BaseException:
            with suppress(FileNotFoundError):
                os.unlink(new, dir_fd=directory)
            raise


def _write_to_special(path: Path, mode: int, data: bytes, directory: int, *, only_files: bool) -> None:
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if only_files:
        raise SandboxError(f"the sandbox allows regular files only, and {path} is none")
    if not stat.S_ISCHR(mode):
        # Opening a pipe waits for its reader, and nothing could end that wait.
        raise ToolError(f"{path} is not a regular file", transient=False)
    descriptor = _opened(path.name, os.O_WRONLY | os.O_NOFOLLOW | _CLOSED, directory, path)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)


def _opened(name: str, flags: int, directory: int, path: Path) -> int:
    try:
        return os.open(name, flags, dir_fd=directory)
    except OSError as error:
        # A link is ELOOP by O_NOFOLLOW, or ENOTDIR where O_DIRECTORY is asked for as well (open(2)).
        if error.errno in (errno.ELOOP, errno.ENOTDIR) and stat.S_ISLNK(_mode_of(name, directory) or 0):
            raise _swapped(path) from error
        raise


def _mode_of(name: str, directory: int) -> int | None:
    try:
        return os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return None


def _swapped(path: Path) -> SandboxError:
    return SandboxError(f"the sandbox refuses {path}: a link took the place of a part of it while it was opened")
