"""What an expression may do with data: the functions, the methods, and the bounds of their results.

An expression has no loops and no variables, so that its cost is bounded by its length and its data,
except where one operation makes something much larger than what it was given. Those check first.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from treadle._dataclasses import dataclass
from treadle._language.paths import MISSING, Part, look_up
from treadle._language.values import excerpt, kind_of

__all__ = ["FUNCTIONS", "METHODS", "TYPES", "Step", "add", "call_method", "follow", "is_same", "is_within"]

Step = Part | slice
"""One step from a value into it."""

_LARGEST_RESULT = 10_000_000


@dataclass(frozen=True, slots=True)
class Function:
    """A function, and how many arguments it takes (``most`` None: any number)."""

    call: Callable[..., Any]
    least: int = 1
    most: int | None = 1


@dataclass(frozen=True, slots=True)
class Method:
    """The types that have a method, and how many arguments it takes."""

    owners: tuple[type, ...]
    least: int = 0
    most: int = 0


def _whole_number(value: Any, *base: Any) -> int:
    try:
        return int(value, *base)
    except ValueError:
        raise ValueError(f"{excerpt(str(value))} is no whole number") from None


def _number(value: Any) -> float:
    try:
        return float(value)
    except ValueError:
        raise ValueError(f"{excerpt(str(value))} is no number") from None


FUNCTIONS: Mapping[str, Function] = {
    "len": Function(len),
    "str": Function(str),
    "int": Function(_whole_number, most=2),
    "float": Function(_number),
    "bool": Function(bool),
    "abs": Function(abs),
    "min": Function(min, most=None),
    "max": Function(max, most=None),
}

TYPES: Mapping[str, type] = {
    "str": str,
    "int": int,
    "float": float,
    "bool": bool,
    "list": list,
    "dict": dict,
    "tuple": tuple,
}

_TEXT = (str,)
_COUNTABLE = (str, list, tuple)
_KEYED = (Mapping,)

METHODS: Mapping[str, Method] = {
    **dict.fromkeys(("strip", "lstrip", "rstrip"), Method(_TEXT, most=1)),
    **dict.fromkeys(("lower", "upper", "title", "capitalize", "casefold"), Method(_TEXT)),
    **dict.fromkeys(("startswith", "endswith"), Method(_TEXT, least=1, most=3)),
    **dict.fromkeys(("removeprefix", "removesuffix"), Method(_TEXT, least=1, most=1)),
    **dict.fromkeys(("split", "rsplit"), Method(_TEXT, most=2)),
    "splitlines": Method(_TEXT, most=1),
    "replace": Method(_TEXT, least=2, most=3),
    **dict.fromkeys(("find", "rfind"), Method(_TEXT, least=1, most=3)),
    **dict.fromkeys(("count", "index"), Method(_COUNTABLE, least=1, most=3)),
    **dict.fromkeys(("isdigit", "isalpha", "isalnum", "isnumeric", "isspace"), Method(_TEXT)),
    **dict.fromkeys(("isupper", "islower"), Method(_TEXT)),
    "join": Method(_TEXT, least=1, most=1),
    "get": Method(_KEYED, least=1, most=2),
    **dict.fromkeys(("keys", "values", "items"), Method(_KEYED)),
}


def follow(value: Any, steps: Iterable[Step]) -> Any:
    """Like ``look_up``, but an index also reads a character of text, and a slice a part of a list."""
    for step in steps:
        if isinstance(step, slice):
            value = value[step] if isinstance(value, (str, list, tuple)) else MISSING
        elif isinstance(step, int) and isinstance(value, str):
            value = value[step] if -len(value) <= step < len(value) else MISSING
        else:
            value = look_up(value, (step,))
    return value


def call_method(value: Any, name: str, arguments: list[Any]) -> Any:
    """Call an allowed method of data. Raises ValueError if this kind of value does not have it."""
    if not isinstance(value, METHODS[name].owners):
        raise ValueError(f"{kind_of(value)} has no method {name}()")
    if check := _SIZE_CHECKS.get(name):
        check(value, *arguments)
    result = getattr(value, name)(*arguments)  # one of METHODS, on a type that owns it
    # A view of a dictionary can neither be indexed nor written as JSON.
    return list(result) if name in {"keys", "values", "items"} else result


def add(left: Any, right: Any) -> Any:
    """``left + right``, unless that would be too large."""
    if isinstance(left, (str, list, tuple)) and isinstance(right, (str, list, tuple)):
        _check_size(len(left) + len(right))
    return operator.add(left, right)


def is_same(left: Any, right: Any) -> bool:
    """``is`` for data, which may have been copied since: the same type and equal."""
    return type(left) is type(right) and bool(left == right)


def is_within(left: Any, right: Any) -> bool:
    """``left in right``."""
    return left in right


def _check_replace(value: str, old: str, new: str, count: int = -1) -> None:
    times = value.count(old) if count < 0 else min(count, value.count(old))
    _check_size(len(value) + times * (len(new) - len(old)))


def _check_join(separator: str, parts: Any) -> None:
    if isinstance(parts, (str, list, tuple)):
        length = sum(len(part) for part in parts if isinstance(part, str))
        _check_size(length + len(separator) * max(len(parts) - 1, 0))


def _check_size(size: int) -> None:
    if size > _LARGEST_RESULT:
        raise ValueError(f"the result would have more than {_LARGEST_RESULT} characters or entries")


_SIZE_CHECKS: Mapping[str, Callable[..., None]] = {"replace": _check_replace, "join": _check_join}
