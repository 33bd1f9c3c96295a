"""Conversations in files, so that one can go on in another run."""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from treadle import StateError

__all__ = ["FOLDER", "StoredFile"]

FOLDER = Path(".treadle") / "conversations"
"""Where the files are, from the directory in which the run was started."""

_NAME = re.compile(r"\w[\w.-]{0,99}", re.ASCII)


@dataclass(frozen=True, slots=True)
class StoredFile:
    """The file of one conversation: JSON, as the state has it.

    :param seen: its bytes when it was read, None where it was not there.
    :param value: what it holds, None where it is not there.
    """

    name: str
    path: Path
    seen: bytes | None
    value: Any

    @classmethod
    def read(cls, name: str) -> StoredFile:
        """The file of that name as it is now.

        :raises StateError: the name is none for a file, or the file cannot be read.
        """
        if not _NAME.fullmatch(name):
            raise StateError(
                f"{name!r} cannot be the name of a stored conversation",
                hint="1 to 100 letters, digits, '_', '-' and '.', the first no '-' or '.'",
            )
        path = FOLDER / f"{name}.json"
        seen = _bytes_of(path)
        try:
            return cls(name, path, seen, None if seen is None else json.loads(seen))
        except ValueError as error:
            raise StateError(f"{path} is not JSON: {error}", hint="mend it, or move it away to begin anew") from None

    def write(self, value: Mapping[str, Any]) -> None:
        """Put a conversation in place of what was read, wholly or not at all.

        :raises StateError: transient, where another run has gone on with it meanwhile: read it again. Permanent,
            where it cannot be written.
        """
        text = json.dumps(value, ensure_ascii=False, indent=2).encode("utf-8", "replace") + b"\n"
        try:
            FOLDER.mkdir(parents=True, exist_ok=True)
            with _locked(self.path.with_suffix(".lock")):
                if _bytes_of(self.path) != self.seen:
                    raise StateError(
                        f"the conversation in {self.path} was gone on with by another run meanwhile",
                        hint="try again; runs that talk at the same time need conversations of their own",
                        transient=True,
                    )
                _replace(self.path, text)
        except OSError as error:
            raise StateError(f"cannot write the conversation to {self.path}: {error.strerror or error}") from error


def _bytes_of(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StateError(f"cannot read the conversation in {path}: {error.strerror or error}") from error


def _replace(path: Path, text: bytes) -> None:
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem}-")  # readable by its owner alone
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Alone with the file, among processes; held for as long as a comparison and a write take."""
    with path.open("ab") as file:
        try:
            import fcntl
        except ImportError:  # no such locks on Windows: what another run wrote before is still noticed
            yield
            return
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
