"""Initial state from the command line: ``-s key=value`` and ``--state-file``."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from treadle import ConfigurationError
from treadle_cli.output import err

__all__ = [
    "Assignment",
    "initial_state",
    "parse_assignment",
    "parse_assignments",
    "parse_value",
    "read_state_file",
    "state_of",
]

_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_BRACKETS = ("{}", "[]", '""')


@dataclass(frozen=True, slots=True)
class Assignment:
    """One ``-s``. ``doubt`` says that the value looks like JSON and is not, so that it was taken as text."""

    path: tuple[str, ...]
    value: Any
    doubt: str | None = None


def parse_assignment(text: str) -> Assignment:
    """Read ``key=value``; the key may be dotted, to set a value inside a mapping.

    :raises ConfigurationError: there is no ``=``, or the key is not one.
    """
    key, separator, written = text.partition("=")
    if not separator:
        raise ConfigurationError(f"-s {text}: no value", hint="write it as key=value")
    path = tuple(key.removeprefix("state.").split("."))
    if not all(part and part == part.strip() and not set(part) & set("[]{}") for part in path):
        # The value is not repeated: it may be a secret.
        raise ConfigurationError(f"-s {key}=...: '{key}' is no key of a state", hint="write topic=... or user.name=...")
    value, doubt = parse_value(written)
    return Assignment(path, value, f"-s {key}: {doubt}" if doubt else None)


def parse_assignments(texts: Iterable[str], *, quiet: bool = False) -> list[Assignment]:
    """Read every ``-s``, and say on stderr what is doubtful in them.

    :raises ConfigurationError: one of them is none.
    """
    parsed = [parse_assignment(text) for text in texts]
    for assignment in () if quiet else parsed:
        if assignment.doubt:
            err().line(f"warning: {assignment.doubt}")
    return parsed


def state_of(texts: Iterable[str]) -> dict[str, Any]:
    """The state that every ``-s`` makes together, where there is none before."""
    return initial_state({}, {}, parse_assignments(texts))


def parse_value(text: str) -> tuple[Any, str | None]:
    """The value that a text stands for, and a doubt about it or None.

    What looks like a JSON list, object, number, quoted text, ``true``, ``false`` or ``null`` is decoded; everything
    else is the text itself, and so is what JSON cannot hold, such as ``007``, ``1e999`` and ``NaN``.
    """
    bare = text.strip()
    if bare in ("true", "false", "null"):
        return json.loads(bare), None
    if _NUMBER.fullmatch(bare):
        try:
            number = json.loads(bare)
        except ValueError:  # more digits than Python converts
            return text, None
        return (text if number in (float("inf"), float("-inf")) else number), None
    if len(bare) < 2 or bare[0] + bare[-1] not in _BRACKETS:
        return text, None
    try:
        return json.loads(bare, parse_constant=_refuse_constant), None
    except RecursionError:
        return text, "looks like JSON but is nested too deeply, and is taken as text"
    except ValueError as error:
        why = f"{error.msg} at character {error.pos + 1}" if isinstance(error, json.JSONDecodeError) else str(error)
        return text, f"looks like JSON but is not ({why}), and is taken as text"


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON number")


def read_state_file(file: str) -> dict[str, Any]:
    """The JSON object in a file, or on stdin where it is ``-``.

    :raises ConfigurationError: it cannot be read or is not a JSON object; with file, line and column.
    """
    name = "<stdin>" if file == "-" else file
    try:
        raw = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{name}: not UTF-8 text: {error.reason} at byte {error.start}") from error
    except OSError as error:
        raise ConfigurationError(f"{name}: cannot be read: {error.strerror or error}") from error
    try:
        state = json.loads(text, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        raise ConfigurationError(f"{name}:{error.lineno}:{error.colno}: not JSON: {error.msg}") from error
    except RecursionError as error:
        raise ConfigurationError(f"{name}: nested too deeply") from error
    except ValueError as error:
        raise ConfigurationError(f"{name}: not JSON: {error}") from error
    if not isinstance(state, dict):
        raise ConfigurationError(f"{name}: holds {_kind(state)}, not a JSON object of state keys")
    return state


def initial_state(
    document: Mapping[str, Any], given: Mapping[str, Any], assignments: Iterable[Assignment]
) -> dict[str, Any]:
    """The top-level keys to set: those of the file, then each assignment, the last winning.

    An assignment to a dotted key changes that one entry of a mapping of the file, or else of the document.

    :raises ConfigurationError: a dotted key leads through something that is no mapping.
    """
    state = dict(given)
    for assignment in assignments:
        root, *rest = assignment.path
        if not rest:
            state[root] = assignment.value
            continue
        before = state[root] if root in state else document.get(root)
        state[root] = _assigned(before, assignment.path, 1, assignment.value)
    return state


def _assigned(before: Any, path: tuple[str, ...], depth: int, value: Any) -> Any:
    if depth == len(path):
        return value
    if before is None:
        before = {}
    if not isinstance(before, Mapping):
        raise ConfigurationError(
            f"-s {'.'.join(path)}: '{'.'.join(path[:depth])}' holds {_kind(before)}, not a mapping",
            hint=f"set it whole, as {'.'.join(path[:depth])}={{...}}",
        )
    return {**before, path[depth]: _assigned(before.get(path[depth]), path, depth + 1, value)}


def _kind(value: object) -> str:
    names = {bool: "a boolean", int: "a number", float: "a number", str: "a text", list: "a list", tuple: "a list"}
    return "null" if value is None else names.get(type(value), f"a {type(value).__name__}")
