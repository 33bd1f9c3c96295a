"""The state of a run: who wrote what, and what each step sees of it.

A step sees the initial state and the writes of its ancestors, as of its start. Nothing is copied for that:
every write is kept as a version with its writer, and a view is the set of writers that are visible, as one
integer with a bit for each step. Reading a key finds the newest visible version; in a chain of steps that
is the newest version there is.

Writes of parallel steps to different paths under one key are merged where both are visible; of writes to
the same path, the one committed last is seen.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from treadle._language import MISSING, StatePath, assign
from treadle.errors import StateError

__all__ = ["EVERYTHING", "RunState", "StateView", "check_value"]

EVERYTHING = -1
"""The view that sees every writer: all bits set."""

_SCALARS = frozenset({str, int, bool, type(None)})


def check_value(value: Any, place: str) -> None:
    """Refuse a value that the state cannot hold: it holds JSON values and pydantic instances.

    :raises StateError: naming the place and the type.
    """
    if type(value) in _SCALARS:
        return
    try:
        _check(value, place)
    except RecursionError:
        raise StateError(f"{place}: the value is nested too deeply, or contains itself") from None


def _check(value: Any, place: str) -> None:
    if type(value) in _SCALARS or isinstance(value, str | int):
        return
    if isinstance(value, float):
        if not math.isfinite(value):
            raise StateError(f"{place}: {value} is not a JSON number")
    elif isinstance(value, Mapping):
        for key, item in value.items():
            if not isinstance(key, str):
                raise StateError(f"{place}: a key must be text, not {type(key).__name__} ({key!r})")
            if type(item) not in _SCALARS:
                _check(item, f"{place}.{key}")
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            if type(item) not in _SCALARS:
                _check(item, f"{place}[{index}]")
    elif not hasattr(type(value), "__pydantic_fields__"):
        raise StateError(
            f"{place}: a value of type {type(value).__name__} cannot be kept in the state",
            hint="give JSON values (text, numbers, booleans, null, lists, mappings) or a pydantic model",
        )


@dataclass(slots=True)
class _Version:
    """One write. ``value`` is the whole key's value with the write in it; ``covers`` are the writers it has in it."""

    writer: int
    path: StatePath
    leaf: Any
    value: Any
    covers: int


@dataclass(slots=True)
class _Key:
    writers: int = 0
    versions: list[_Version] = field(default_factory=list)


class RunState:
    """All versions of all keys."""

    def __init__(self, initial: Mapping[str, Any]) -> None:
        for key, value in initial.items():
            check_value(value, f"state.{key}")
        self.initial = initial
        self._keys: dict[str, _Key] = {}

    def write(self, writer: int, sees: int, path: StatePath, value: Any) -> Callable[[], None]:
        """Check a write of step ``writer``, which sees ``sees``, and give the function that makes it.

        In two parts, so that a step's writes are made together or not at all.

        :raises StateError: the path cannot be written, or the state cannot hold the value.
        """
        check_value(value, f"state.{path}")
        root = path.root
        bit = 1 << writer
        if len(path.parts) == 1:
            whole, covers = value, 0
        else:
            whole = assign(self.read(root, sees | bit), path, value)
            covers = self._keys[root].writers & sees if root in self._keys else 0

        def make() -> None:
            key = self._keys.get(root)
            if key is None:
                key = self._keys[root] = _Key()
            key.writers |= bit
            key.versions.append(_Version(writer, path, value, whole, covers | bit))

        return make

    def read(self, root: str, sees: int) -> Any:
        """The value of a top-level key as one sees it who sees those writers, or MISSING."""
        key = self._keys.get(root)
        visible = key.writers & sees if key is not None else 0
        if key is None or not visible:
            return self.initial.get(root, MISSING)
        newest = next(version for version in reversed(key.versions) if visible >> version.writer & 1)
        if len(newest.path.parts) == 1 or newest.covers == visible:
            return newest.value
        return self._merge(key, visible, self.initial.get(root, MISSING))

    def _merge(self, key: _Key, visible: int, value: Any) -> Any:
        for version in key.versions:
            if visible >> version.writer & 1:
                whole = len(version.path.parts) == 1
                value = version.leaf if whole else assign(value, version.path, version.leaf)
        return value

    def names(self, sees: int) -> Iterator[str]:
        """The top-level keys as one sees them: the initial ones, then those written, in order of first write."""
        yield from self.initial
        for name, key in self._keys.items():
            if name not in self.initial and key.writers & sees:
                yield name


class StateView(Mapping[str, Any]):
    """The state as one step sees it. ``steps`` is there too, unless the workflow has a key of that name."""

    __slots__ = ("_sees", "_state", "_steps")

    def __init__(self, state: RunState, sees: int, steps: Mapping[str, Any]) -> None:
        self._state = state
        self._sees = sees
        self._steps = steps

    def __getitem__(self, name: str) -> Any:
        value = self._state.read(name, self._sees)
        if value is MISSING:
            if name == "steps":
                return self._steps
            raise KeyError(name)
        return value

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and (name == "steps" or self._state.read(name, self._sees) is not MISSING)

    def __iter__(self) -> Iterator[str]:
        return self._state.names(self._sees)

    def __len__(self) -> int:
        return sum(1 for _ in self)
