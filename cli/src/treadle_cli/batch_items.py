"""The input of ``treadle batch``: one JSON object a line, each the state of a run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from treadle import ConfigurationError, DocumentError, Problem

__all__ = ["Item", "read_items"]


@dataclass(frozen=True, slots=True)
class Item:
    """One line.

    :param line: its number, from 1.
    :param key: what the line calls itself, or None.
    :param digest: of what it says, whatever its layout, so that a changed line is noticed.
    """

    line: int
    key: str | None
    state: Mapping[str, Any]
    digest: str


def read_items(file: str, key_field: str) -> list[Item]:
    """Every line of a JSONL file that is not empty.

    :param key_field: the field by which a line may name itself.
    :raises ConfigurationError: the file cannot be read or has no line.
    :raises DocumentError: lines are wrong, each with its place.
    """
    try:
        text = Path(file).read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{file}: not UTF-8 text: {error.reason} at byte {error.start}") from error
    except OSError as error:
        raise ConfigurationError(f"{file}: cannot be read: {error.strerror or error}") from error
    items: list[Item] = []
    problems: list[Problem] = []
    named: dict[str, int] = {}
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        found = _item(file, number, line, key_field)
        if isinstance(found, Problem):
            problems.append(found)
            continue
        if found.key is not None and named.setdefault(found.key, number) != number:
            message = f"the {key_field} '{found.key}' is taken by line {named[found.key]}"
            problems.append(_problem(file, number, line.find("{"), message, "duplicate-id"))
        items.append(found)
    if problems:
        raise DocumentError(problems)
    if not items:
        raise ConfigurationError(f"{file}: has no line", hint="write one JSON object a line, the state of a run")
    return items


def _item(file: str, number: int, line: str, key_field: str) -> Item | Problem:
    try:
        value = json.loads(line, object_pairs_hook=_without_duplicates, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        return _problem(file, number, error.pos, f"not JSON: {error.msg}")
    except RecursionError:
        return _problem(file, number, 0, "nested too deeply")
    except ValueError as error:
        return _problem(file, number, 0, f"not JSON: {error}")
    start = len(line) - len(line.lstrip())
    if not isinstance(value, dict):
        return _problem(file, number, start, "a line is one JSON object, the state of a run", "wrong-type")
    key = value.get(key_field)
    if key is not None and (isinstance(key, bool) or not isinstance(key, str | int)):
        return _problem(file, number, start, f"its {key_field} must be a text or a whole number", "wrong-type")
    canonical = json.dumps(value, sort_keys=True, separators=(",", ":"))
    digest = hashlib.sha256(canonical.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return Item(number, None if key is None else str(key), value, digest)


def _problem(file: str, line: int, offset: int, message: str, code: str = "bad-value") -> Problem:
    return Problem(message=message, code=code, file=file, line=line, column=max(0, offset) + 1)


def _without_duplicates(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    names = [name for name, _ in pairs]
    for name in _repeated(names):
        raise ValueError(f"'{name}' stands there twice")
    return dict(pairs)


def _repeated(names: Sequence[str]) -> Iterator[str]:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            yield name
        seen.add(name)


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON number")
