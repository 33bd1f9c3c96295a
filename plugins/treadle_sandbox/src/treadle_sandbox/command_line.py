"""Command lines under an enabled block: read once into words, and just these words run, without a shell.

The rules are applied in the order of the sections below; the first that refuses is what is told.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from treadle import SandboxError, ToolError
from treadle_sandbox.block import PolicyBlock
from treadle_sandbox.paths import PathRules
from treadle_sandbox.programs import find_program, is_launcher

__all__ = ["CheckedCommand", "checked_command"]

_OPERATORS = ("|", ";", "&", "`", "<", ">", "$(", "\n", "\r", "\0")
_SHOWN = {"\n": "a line break", "\r": "a line break", "\0": "a NUL character", "`": "a backtick"}
_EXPANSIONS = ("$", "*", "?", "[")
_TILDE = re.compile(r"""(?:^|[\s=:"'])~""")
_FLAG = re.compile(r"-[^-]")

_LONGEST = 128 * 1024
"""Of a line, in characters: what Linux takes as one argument (execve(2)), so that no shell could have run it either."""

_SHORT = 64
_MOST_LOOKS = 20_000
"""At the disk, for the parts of all that may be a path: a line made to take long must not hold the run up."""


@dataclass(frozen=True, slots=True)
class CheckedCommand:
    """What runs.

    :param words: the program as it was written, and its arguments.
    :param program: the file that is executed; None where there is no such program.
    :param cwd: the real path of the directory it runs in.
    """

    words: tuple[str, ...]
    program: Path | None
    cwd: Path


def checked_command(
    command: str, *, cwd: str, block: PolicyBlock, paths: PathRules, environment: Mapping[str, str]
) -> CheckedCommand:
    """The command, if an enabled block allows it.

    :param environment: where ``PATH`` is read.
    :raises SandboxError: it does not, or the text cannot be read.
    """
    place = paths.directory(cwd)
    if len(command) > _LONGEST:
        raise SandboxError(f"the sandbox refuses a command of {len(command)} characters; the most is {_LONGEST}")
    _refuse_operators(command)
    _refuse_expansion(command)
    words = _words(command)
    program = _program(words[0], place, block, environment)
    if block.allowed_paths or block.readable_paths or block.writable_paths:
        _check_arguments(words[1:], place, paths)
    return CheckedCommand(words, program, place)


# --- the text ---------------------------------------------------------------------------------------------


def _refuse_operators(command: str) -> None:
    for sign in _OPERATORS:
        if sign in command:
            raise SandboxError(
                f"the sandbox refuses {_SHOWN.get(sign, repr(sign))} anywhere in a command, in quotes too: one call "
                "runs one program"
            )


def _refuse_expansion(command: str) -> None:
    found = next((repr(sign) for sign in _EXPANSIONS if sign in command), None)
    if found is None and _TILDE.search(command):
        found = "a '~' that begins a word"
    if found is None and any(map(_has_braces, command.split())):
        found = "a list in braces"
    if found is not None:
        raise SandboxError(
            f"the sandbox refuses {found} anywhere in a command, in quotes too: nothing is expanded, and what looks as "
            "if it were would mislead"
        )


def _has_braces(text: str) -> bool:
    inside = text[text.find("{") : text.rfind("}") + 1] if "{" in text else ""
    return "," in inside or ".." in inside


def _words(command: str) -> tuple[str, ...]:
    try:
        words = tuple(shlex.split(command))
    except ValueError as error:
        raise SandboxError(f"the sandbox cannot read the command: {str(error).lower()}") from error
    if not words:
        raise SandboxError("the sandbox found no program in the command")
    for word in words:
        # Quotes within a word can hide one from the look at the text.
        if word.startswith("~") or "=~" in word or ":~" in word:
            raise SandboxError("the sandbox refuses a '~' that begins a word anywhere in a command, in quotes too")
    return words


# --- the program ------------------------------------------------------------------------------------------


def _program(word: str, cwd: Path, block: PolicyBlock, environment: Mapping[str, str]) -> Path | None:
    name = word.rpartition("/")[2]
    if name not in block.allowed_commands:
        there = ", ".join(block.allowed_commands) or "nothing"
        raise SandboxError(f"the sandbox does not allow the program '{name or word}': allowed_commands has {there}")
    program = find_program(name, environment)
    if "/" in word and not (program is not None and _is_same(cwd / word, program)):
        found = f"'{name}' on PATH is {program}" if program else f"there is no '{name}' on PATH"
        raise SandboxError(f"the sandbox does not allow '{word}': {found}")
    if name not in block.danger_opt_in and is_launcher(name, program):
        raise SandboxError(
            f"the sandbox refuses '{name}', which can run anything else; if it is meant nevertheless, list it in "
            "danger_opt_in as well"
        )
    return program


def _is_same(first: Path, second: Path) -> bool:
    try:
        return first.samefile(second)
    except OSError:
        return False


# --- its arguments ----------------------------------------------------------------------------------------


def _check_arguments(words: Iterable[str], cwd: Path, paths: PathRules) -> None:
    looks = 0
    for word in words:
        for candidate in _candidates(word):
            looks += candidate.count("/") + len(cwd.parts) + len(candidate) // _SHORT
            if looks > _MOST_LOOKS:
                raise SandboxError(
                    "the sandbox refuses a command with so many and long arguments: it must see them all"
                )
            if _looks_like_a_path(candidate, cwd):
                _check_path(candidate, word, cwd, paths)


def _check_path(candidate: str, word: str, cwd: Path, paths: PathRules) -> None:
    shown = f"'{word}'" if candidate == word else f"'{candidate}' in '{word}'"
    try:
        outside = paths.argument(candidate, cwd)
    except ToolError as error:
        raise SandboxError(f"the sandbox does not allow the argument {shown[:200]}: {error.message}") from error
    if outside is not None:
        raise SandboxError(
            f"the sandbox does not allow the argument {shown}: as a path it stands for {outside}, which is in none of "
            "allowed_paths, readable_paths and writable_paths"
        )


def _candidates(word: str) -> Iterator[str]:
    """What of an argument a program may take for a path."""
    flag, equals, _ = word.partition("=")
    if not word.startswith("-"):
        yield word
    elif "/" in flag:
        yield word[word.index("/") :]  # -I/usr/include; of -finclude/list nobody knows where the path begins
    elif _FLAG.match(word):
        yield word[2:]  # -C.. and -flink
    if equals:
        for index, sign in enumerate(word):
            if sign == "=":
                yield word[index + 1 :]
    if word[:5].lower() == "file:":
        yield unquote(word[5:])
    for index, sign in enumerate(word):
        # host:/path, a,/path and @/path; but https://host is no path
        rest = word[index + 1 :]
        if sign in ":,@" and (rest.startswith("..") or (rest.startswith("/") and not rest.startswith("//"))):
            yield rest


def _looks_like_a_path(text: str, cwd: Path) -> bool:
    if text in (".", "..") or "/" in text:
        return True
    try:
        return bool(text) and os.path.islink(cwd / text)  # noqa: PTH114 - False, not an error, for a name too long
    except ValueError:
        return False
