"""Files: read with a limit, replaced in one stroke. Everything here blocks and belongs in a thread."""

from __future__ import annotations

import errno
import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path

from treadle import ToolError

__all__ = ["read_file", "replace_file", "resolved"]


def resolved(path: str, base: Path) -> Path:
    """The absolute path, symbolic links and ``..`` followed; what does not exist yet is taken as written.

    :raises ToolError: the text cannot be a path.
    """
    try:
        # realpath, as Path.resolve raises RuntimeError for a circle of links before Python 3.13.
        return Path(os.path.realpath(base / path))
    except ValueError as error:
        raise ToolError(f"{path!r} cannot be a path: {error}", transient=False) from error


def read_file(path: Path, max_bytes: int | None) -> bytes:
    """The file's bytes.

    :raises OSError: as opening and reading do.
    :raises ToolError: it is larger than ``max_bytes``.
    """
    with path.open("rb") as file:
        if max_bytes is None:
            return file.read()
        data = file.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise ToolError(f"{path} is larger than the limit of {max_bytes} bytes", transient=False)
    return data


def replace_file(path: Path, data: bytes) -> None:
    """Write ``data`` to ``path``: readers see the old content or the new, never a part.

    Missing directories are made. An existing file keeps its permissions. A device is written to as it stands.

    :raises OSError: as making directories, writing and renaming do; the old content is then still there.
    :raises ToolError: what is there is neither a file nor a device.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        old_mode: int | None = path.stat().st_mode
    except FileNotFoundError:
        old_mode = None
    if old_mode is not None and not stat.S_ISREG(old_mode):
        if stat.S_ISDIR(old_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISCHR(old_mode):
            # Opening a pipe waits for its reader, and nothing could end that wait.
            raise ToolError(f"{path} is not a regular file", transient=False)
        path.write_bytes(data)
        return
    # In the same directory: a rename is atomic within one file system only (rename(2)).
    new = path.parent / f".treadle-{secrets.token_hex(8)}"
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o666)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            if old_mode is not None:
                os.fchmod(file.fileno(), stat.S_IMODE(old_mode))
        new.replace(path)
    except BaseException:
        with suppress(FileNotFoundError):
            new.unlink()
        raise
