"""Which files may be read and written: by the real path, links and ``..`` followed."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from treadle import SandboxError, ToolError
from treadle_sandbox.block import PolicyBlock

__all__ = ["PathRules", "resolved"]

_LONGEST = 4096
"""Of a path, in characters: the systems' own limit (PATH_MAX). Resolving takes a look at the disk for each part."""


def resolved(path: str, base: Path) -> Path:
    """The absolute path, symbolic links and ``..`` followed; what does not exist yet is taken as written.

    :raises ToolError: the text cannot be a path.
    """
    if len(path) > _LONGEST:
        raise ToolError(f"a path of {len(path)} characters is too long; the most is {_LONGEST}", transient=False)
    try:
        # realpath, as Path.resolve raises RuntimeError for a circle of links before Python 3.13.
        return Path(os.path.realpath(base / path))
    except ValueError as error:
        raise ToolError(f"{path!r} cannot be a path: {error}", transient=False) from error


class PathRules:
    """A block's directories, resolved when this is made: a link that is changed later moves none of them.

    :ivar open: whether nothing is checked.
    """

    def __init__(self, block: PolicyBlock, base: Path) -> None:
        self.open = not block.enabled
        self._base = base
        both = self._roots(block.allowed_paths)
        self._readable = (*both, *self._roots(block.readable_paths))
        self._writable = (*both, *self._roots(block.writable_paths))

    def file(self, path: str, *, write: bool) -> Path:
        """The real path of a file, or of a directory to run in.

        :raises SandboxError: it is outside of what may be read, or written.
        """
        place = resolved(path, self._base)
        if not self.open and not _is_in(place, self._writable if write else self._readable):
            what, lists = ("written", "writable_paths") if write else ("read", "readable_paths")
            raise SandboxError(
                f"the sandbox does not allow '{path}' to be {what}: it stands for {place}, which is in none of "
                f"allowed_paths and {lists}"
            )
        return place

    def directory(self, cwd: str) -> Path:
        """The real path of a directory that a command is to run in.

        :raises SandboxError: it is outside of what may be read.
        """
        place = resolved(cwd, self._base)
        if not self.open and not _is_in(place, self._readable):
            raise SandboxError(
                f"the sandbox does not allow commands in '{cwd}': it stands for {place}, which is in none of "
                "allowed_paths and readable_paths"
            )
        return place

    def argument(self, path: str, cwd: Path) -> Path | None:
        """The real path that an argument of a command stands for, if it is outside of all the lists."""
        place = resolved(path, cwd)
        return None if _is_in(place, self._readable) or _is_in(place, self._writable) else place

    def _roots(self, paths: Iterable[str]) -> tuple[Path, ...]:
        return tuple(resolved(path, self._base) for path in paths)


def _is_in(place: Path, roots: Iterable[Path]) -> bool:
    return any(place.is_relative_to(root) for root in roots)
