"""Programs: found on ``PATH``, and known for running others."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

__all__ = ["find_program", "is_launcher"]

_LISTED = """
    sh bash zsh fish ksh dash env xargs find exec eval source . python python3 node perl ruby php lua awk nc ncat socat
    ssh
"""
_MORE = """
    ash csh tcsh rbash pwsh gawk mawk nawk pypy tclsh wish expect deno bun busybox toybox sudo doas su nohup timeout
    nice setsid stdbuf time parallel watch script chroot unshare nsenter systemd-run
"""
"""Of the same kinds: shells, interpreters, and what runs its own arguments."""

_LAUNCHERS = frozenset(f"{_LISTED} {_MORE}".split())

_SEVERAL = frozenset(("busybox", "toybox"))
"""Many programs in one file: which one runs is decided by the name it is called by, not by the file."""


def find_program(name: str, environment: Mapping[str, str]) -> Path | None:
    """The program that a shell would run for that name, from absolute directories of ``PATH`` only.

    An empty or relative directory there means the working directory, where a workflow may have written.
    """
    for directory in environment.get("PATH", os.defpath).split(os.pathsep):
        place = Path(directory, name)
        try:
            if place.is_absolute() and place.is_file() and os.access(place, os.X_OK):
                return place
        except (OSError, ValueError):
            continue
    return None


def is_launcher(name: str, program: Path | None) -> bool:
    """Whether it can run anything else: by its name with or without a version, or by the name of what it links to."""
    names = [name]
    if program is not None:
        target = Path(os.path.realpath(program)).name
        if target not in _SEVERAL:
            names.append(target)
    return any(each in _LAUNCHERS or _unversioned(each) in _LAUNCHERS for each in names)


def _unversioned(name: str) -> str:
    """``python3.12`` and ``perl5.36.0`` without their versions."""
    return name.rstrip("0123456789.").removesuffix("-")
