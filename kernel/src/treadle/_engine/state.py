"""The state of a run: who wrote what, and what each step sees of it.

A step sees the initial state and the writes of its ancestors, as of its start. Nothing is copied for that:
every write is kept as a version with its writer, and a view is the set of writers that are visible, as one
integer with a bit for each step. Reading a key finds the newest visible version; in a chain of steps that
is the newest version there is.

Writers are numbered so that a step comes after its ancestors, and otherwise in the order of the document. Writes
of parallel steps to different paths under one key are merged where both are visible; of writes to the same path,
or to paths that do not go together, that of the later number is seen. So a state depends on the document and on
what the steps made, and never on which of them was quicker.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field
from operator import attrgetter
from typing import Any

from treadle._dataclasses import dataclass
from treadle._engine.sending import clean, clean_text
from treadle._language import MISSING, StatePath, assign, look_up
from treadle._language.values import declared_fields
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
    elif declared_fields(value) is None:
        raise StateError(
            f"{place}: a value of type {type(value).__name__} cannot be kept in the state",
            hint="give JSON values (text, numbers, booleans, null, lists, mappings) or a pydantic model",
        )


def _copied(value: Any) -> Any:
    """A checked value with its mappings and lists anew and clean text; a pydantic instance is its owner's."""
    if isinstance(value, Mapping):
        return {clean_text(key): _copied(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_copied(item) for item in value]
    return clean_text(value) if isinstance(value, str) else value


_DROPPED: Any = object()
_VALUES_KEPT = 64
"""How many of a key's latest versions keep the key's whole value. One for each would grow with the square of the
number of writes; the others are put together again where one is asked for, as by a branch long at rest."""


@dataclass(slots=True)
class _Version:
    """One write: ``leaf`` at ``path``. ``value`` is the whole key's value with the write in it; ``covers`` are the
    writers it has in it."""

    writer: int
    path: StatePath
    leaf: Any
    value: Any
    covers: int


@dataclass(slots=True)
class _Key:
    """All versions of one key, ``initial`` and those written, in the order of their writers.

    ``merged`` is the value last put together, as those see it who see ``merged_for``: readers of a join ask again
    and again.
    """

    initial: Any
    writers: int = 0
    versions: list[_Version] = field(default_factory=list)
    merged_for: int = 0
    merged: Any = None

    def append(self, version: _Version) -> None:
        """Keep one more."""
        self.writers |= 1 << version.writer
        versions = self.versions
        if versions and versions[-1].writer > version.writer:
            versions.insert(bisect_right(versions, version.writer, key=attrgetter("writer")), version)
        else:
            versions.append(version)
        if len(versions) > _VALUES_KEPT:
            versions[-_VALUES_KEPT - 1].value = _DROPPED
            if version.writer < versions[-_VALUES_KEPT].writer:
                version.value = _DROPPED

    def read(self, visible: int) -> Any:
        """The value as one sees it who sees those writers, at least one of whom wrote."""
        newest = next(version for version in reversed(self.versions) if visible >> version.writer & 1)
        if len(newest.path.parts) == 1:
            return newest.leaf
        if newest.covers == visible and newest.value is not _DROPPED:
            return newest.value
        if self.merged_for != visible:
            self.merged = self._merge(self.versions, visible)
            self.merged_for = visible
        return self.merged

    def _merge(self, versions: Iterable[_Version], visible: int) -> Any:
        value = self.initial
        for position, version in enumerate(versions):
            if not visible >> version.writer & 1:
                continue
            if len(version.path.parts) == 1:
                value = version.leaf
                continue
            try:
                value = assign(value, version.path, version.leaf)
            except StateError:
                value = self._force(value, position)
        return value

    def _force(self, value: Any, position: int) -> Any:
        """A write made to another value than its writer saw, through which its path does not lead: a parallel step
        put a scalar, or a shorter list, in its way. What its writer saw goes there: the later write wins, and no
        reader fails for it."""
        version = self.versions[position]
        seen = version.value
        if seen is _DROPPED:
            seen = self._merge(self.versions[: position + 1], version.covers)
        for length in range(len(version.path.parts) - 1, 1, -1):
            parts = version.path.parts[:length]
            try:
                return assign(value, StatePath(parts), look_up(seen, parts[1:]))
            except StateError:
                continue
        return seen


class RunState:
    """All versions of all keys.

    :param initial: what it begins with.
    :param outer: the state that it begins over: what is in neither ``initial`` nor written is read there. It stands
        still, and nothing of it is copied.
    :param defaults: what is read where ``outer`` has nothing either.
    """

    def __init__(
        self, initial: Mapping[str, Any], outer: StateView | None = None, defaults: Mapping[str, Any] | None = None
    ) -> None:
        # The run's own: whoever changes a result, or what was given, reaches no other run.
        self._outer = outer
        self.initial: Mapping[str, Any] = _own(initial)
        self._defaults: Mapping[str, Any] = _own(defaults) if defaults else {}
        if self._defaults:
            # Of several states over each other, the outermost that has a key is the one that has it for all.
            outside = () if outer is None else frozenset(outer)
            self._defaults = {name: value for name, value in self._defaults.items() if name not in outside}
        self._keys: dict[str, _Key] = {}

    @property
    def own(self) -> Mapping[str, Any]:
        """What it begins with, but for what is only read in another state."""
        return {**self._defaults, **self.initial}

    def prepare(self, writer: int, sees: int, writes: Iterable[tuple[StatePath, Any]]) -> Callable[[], None]:
        """Check what step ``writer``, which sees ``sees``, writes, and give the function that writes it.

        In two parts, so that a step's writes are made together or not at all. A later one sees the earlier ones.

        :raises StateError: a path cannot be written, or the state cannot hold a value.
        """
        values: dict[str, Any] = {}
        versions: list[_Version] = []
        for path, leaf in writes:
            if type(leaf) not in _SCALARS:
                check_value(leaf, f"state.{path}")
            leaf = clean(leaf)
            root, value = path.root, leaf
            if len(path.parts) > 1:
                value = assign(values[root] if root in values else self.read(root, sees), path, leaf)
            values[root] = value
            key = self._keys.get(root)
            covers = (key.writers & sees if key else 0) | 1 << writer
            versions.append(_Version(writer, path, leaf, value, covers))

        def make() -> None:
            for version in versions:
                root = version.path.root
                key = self._keys.get(root)
                if key is None:
                    first = self.initial.get(root, MISSING) if self._outer is None else self.read(root, 0)
                    key = self._keys[root] = _Key(first)
                key.append(version)

        return make

    def read(self, root: str, sees: int) -> Any:
        """The value of a top-level key as one sees it who sees those writers, or MISSING."""
        state = self
        while True:  # states may begin over each other any number of times
            key = state._keys.get(root)
            visible = key.writers & sees if key is not None else 0
            if key is not None and visible:
                return key.read(visible)
            for values in (state.initial, state._defaults):
                if root in values:
                    return values[root]
            if state._outer is None:
                return MISSING
            state, sees = state._outer.place

    def names(self, sees: int, *, only_own: bool = False) -> Iterator[str]:
        """The top-level keys as one sees them: the initial ones, then those written, in the order of their writers.

        Those of the state that this one begins over come first, or with ``only_own`` not at all.
        """
        if self._outer is None or only_own:
            return self._names(sees)
        states: list[tuple[RunState, int]] = [(self, sees)]
        while (outer := states[-1][0]._outer) is not None:
            states.append(outer.place)
        return iter(dict.fromkeys(name for state, seen in reversed(states) for name in state._names(seen)))

    def _names(self, sees: int) -> Iterator[str]:
        initial = {**self._defaults, **self.initial} if self._defaults else self.initial
        yield from initial
        written = (
            (_lowest_bit(key.writers & sees), name)
            for name, key in self._keys.items()
            if name not in initial and key.writers & sees
        )
        yield from (name for _, name in sorted(written))


def _own(values: Mapping[str, Any]) -> dict[str, Any]:
    """Checked values of a state, as nobody else has them."""
    for key, value in values.items():
        if not isinstance(key, str):
            raise StateError(f"state: a key must be text, not {type(key).__name__} ({key!r})")
        check_value(value, f"state.{key}")
    return {key: _copied(value) for key, value in values.items()}


def _lowest_bit(bits: int) -> int:
    return (bits & -bits).bit_length()


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

    @property
    def place(self) -> tuple[RunState, int]:
        """The state, and the writers that are seen."""
        return self._state, self._sees

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and (name == "steps" or self._state.read(name, self._sees) is not MISSING)

    def __iter__(self) -> Iterator[str]:
        return self._state.names(self._sees)

    def __len__(self) -> int:
        return sum(1 for _ in self)
