"""The smallest value that fits a JSON Schema, so that a mock can answer a request for structured output."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

__all__ = ["NoExampleError", "example_value"]


class NoExampleError(ValueError):
    """No value is known that fits the schema."""


def example_value(schema: Mapping[str, Any] | bool, *, text: str = "text") -> Any:
    """A small value that fits ``schema``; the same one every time.

    ====================================  ======================================================================
    the schema says                       the value is
    ====================================  ======================================================================
    ``const``, ``enum``, ``default``      the constant, the first of them, the default
    ``$ref`` (``#/...`` only)             what the schema it points to gives
    ``allOf``                             what all of them and the schema itself, taken together, give
    ``anyOf``, ``oneOf``                  what the first branch but ``null`` gives that ends
    ``type`` a list                       what its first type but ``null`` gives
    ``string``                            ``text``, cut to ``maxLength``, padded with ``x`` to ``minLength``;
                                          for the formats date, time, date-time, email, uri and uuid one of them
    ``integer``, ``number``               0, or the nearest number to it that the limits and ``multipleOf`` allow
    ``boolean``, ``null``                 false, null
    ``array``                             ``minItems`` items, told apart by a number where ``uniqueItems`` asks
    ``object``                            its required properties
    no type                               an object where it has properties, else ``text``
    ====================================  ======================================================================

    ``pattern``, ``not``, ``if``, ``contains`` and ``dependentRequired`` are not looked at, nor is whether a value
    for ``oneOf`` fits a second branch.

    :raises NoExampleError: nothing fits, the schema has no end, or it points outside itself.
    """
    return _Example(schema, text).of(schema, ())


_TEXTS = {
    "date": "2000-01-01",
    "time": "00:00:00Z",
    "date-time": "2000-01-01T00:00:00Z",
    "email": "someone@example.com",
    "uri": "https://example.com/",
    "uuid": "00000000-0000-4000-8000-000000000000",
}


class _Example:
    def __init__(self, root: Mapping[str, Any] | bool, text: str) -> None:
        self._root = root
        self._text = text
        self._makers: dict[str, Callable[[Mapping[str, Any], tuple[str, ...]], Any]] = {
            "string": self._string,
            "integer": self._integer,
            "number": self._number,
            "boolean": lambda schema, path: False,
            "null": lambda schema, path: None,
            "array": self._array,
            "object": self._object,
        }

    def of(self, schema: Mapping[str, Any] | bool, refs: tuple[str, ...]) -> Any:
        """The value; ``refs`` are the references being followed on the way here, to notice a circle."""
        if schema is True:
            return self._text
        if schema is False:
            raise NoExampleError("the schema allows no value")
        if "const" in schema:
            return schema["const"]
        if schema.get("enum"):
            return schema["enum"][0]
        if "default" in schema:
            return schema["default"]
        if "$ref" in schema:
            ref = schema["$ref"]
            if ref in refs:
                raise NoExampleError(f"{ref} needs itself and has no end")
            beside = {key: value for key, value in schema.items() if key != "$ref"}
            return self.of(_merged(self._find(ref), beside), (*refs, ref))
        if schema.get("allOf"):
            return self._all(schema, refs)
        for word in ("anyOf", "oneOf"):
            if schema.get(word):
                return self._first(schema, word, refs)
        return self._makers[self._type(schema)](schema, refs)

    def _all(self, schema: Mapping[str, Any], refs: tuple[str, ...]) -> Any:
        merged: Mapping[str, Any] | bool = {key: value for key, value in schema.items() if key != "allOf"}
        for part in schema["allOf"]:
            while isinstance(part, Mapping) and "$ref" in part:
                ref = part["$ref"]
                if ref in refs:
                    raise NoExampleError(f"{ref} needs itself and has no end")
                refs = (*refs, ref)
                part = _merged(self._find(ref), {key: value for key, value in part.items() if key != "$ref"})
            merged = _merged(merged, part)
        return self.of(merged, refs)

    def _first(self, schema: Mapping[str, Any], word: str, refs: tuple[str, ...]) -> Any:
        beside = {key: value for key, value in schema.items() if key != word}
        branches = sorted(schema[word], key=lambda branch: branch == {"type": "null"})
        problem: NoExampleError | None = None
        for branch in branches:
            try:
                return self.of(_merged(branch, beside), refs)
            except NoExampleError as error:
                problem = problem or error
        raise problem or NoExampleError(f"{word} has no branch")

    def _find(self, ref: str) -> Any:
        if not ref.startswith("#"):
            raise NoExampleError(f"{ref} is outside the schema")
        found: Any = self._root
        for part in ref[1:].split("/")[1:]:
            name = part.replace("~1", "/").replace("~0", "~")
            if isinstance(found, Mapping) and name in found:
                found = found[name]
            elif isinstance(found, Sequence) and name.isdigit() and int(name) < len(found):
                found = found[int(name)]
            else:
                raise NoExampleError(f"{ref} is not in the schema")
        return found

    def _type(self, schema: Mapping[str, Any]) -> str:
        kind = schema.get("type")
        if isinstance(kind, list | tuple):
            kind = next((name for name in kind if name != "null"), "null")
        if kind is None:
            kind = "object" if "properties" in schema or "required" in schema else "string"
        if kind not in self._makers:
            raise NoExampleError(f"{kind!r} is no type of JSON Schema")
        return str(kind)

    def _string(self, schema: Mapping[str, Any], refs: tuple[str, ...]) -> str:
        text = _TEXTS.get(schema.get("format", ""), self._text)
        shortest, longest = schema.get("minLength", 0), schema.get("maxLength")
        if longest is not None and longest < shortest:
            raise NoExampleError(f"no text has at least {shortest} and at most {longest} characters")
        return text[:longest].ljust(shortest, "x")

    def _integer(self, schema: Mapping[str, Any], refs: tuple[str, ...]) -> int:
        number = _nearest_to_zero(schema, whole=True)
        return int(number)

    def _number(self, schema: Mapping[str, Any], refs: tuple[str, ...]) -> int | float:
        number = _nearest_to_zero(schema, whole=False)
        return int(number) if number.denominator == 1 else float(number)

    def _array(self, schema: Mapping[str, Any], refs: tuple[str, ...]) -> list[Any]:
        count = schema.get("minItems", 0)
        if count > schema.get("maxItems", count):
            raise NoExampleError(f"no list has at least {count} and at most {schema['maxItems']} items")
        first = schema.get("prefixItems", [])
        rest = schema.get("items", True)
        items = [self.of(first[place] if place < len(first) else rest, refs) for place in range(count)]
        return _told_apart(items, rest) if schema.get("uniqueItems") else items

    def _object(self, schema: Mapping[str, Any], refs: tuple[str, ...]) -> dict[str, Any]:
        properties = schema.get("properties", {})
        other = schema.get("additionalProperties", True)
        return {name: self.of(properties.get(name, other), refs) for name in schema.get("required", ())}


def _merged(one: Mapping[str, Any] | bool, two: Mapping[str, Any] | bool) -> Mapping[str, Any] | bool:
    """A schema that asks for what both ask, as far as a small value shows it."""
    if isinstance(one, bool) or isinstance(two, bool):
        allowing = [side for side in (one, two) if side is not True]
        return False if False in allowing else allowing[0] if allowing else True
    merged = {**one, **two}
    for key in one.keys() & two.keys():
        merged[key] = _joined(key, one[key], two[key])
    return merged


def _joined(key: str, one: Any, two: Any) -> Any:
    if key in ("properties", "$defs"):
        return {**one, **two, **{name: _merged(one[name], two[name]) for name in one.keys() & two.keys()}}
    if key == "required":
        return list(dict.fromkeys([*one, *two]))
    if key in ("minimum", "exclusiveMinimum", "minLength", "minItems"):
        return max(one, two)
    if key in ("maximum", "exclusiveMaximum", "maxLength", "maxItems"):
        return min(one, two)
    if key == "enum":
        both = [value for value in one if value in two]
        if not both:
            raise NoExampleError("two enums at one place have nothing in common")
        return both
    if key in ("anyOf", "oneOf", "allOf") and one != two:
        raise NoExampleError(f"two {key} at one place are more than this looks into")
    return two


def _nearest_to_zero(schema: Mapping[str, Any], *, whole: bool) -> Fraction:
    """The number nearest to 0 within the limits, exactly; floats would miss a limit by their last bit."""
    step = Fraction(str(schema["multipleOf"])) if "multipleOf" in schema else None
    if whole:
        step = Fraction(1) if step is None else Fraction(step.numerator)
    lowest, above = _limit(schema, "minimum", "exclusiveMinimum", max)
    highest, below = _limit(schema, "maximum", "exclusiveMaximum", min)
    if lowest is not None and (lowest > 0 or (above and lowest == 0)):
        number = _beyond(lowest, step, strictly=above, room=highest)
    elif highest is not None and (highest < 0 or (below and highest == 0)):
        number = -_beyond(-highest, step, strictly=below, room=None if lowest is None else -lowest)
    else:
        number = Fraction(0)
    if (lowest is not None and (number < lowest or (above and number == lowest))) or (
        highest is not None and (number > highest or (below and number == highest))
    ):
        raise NoExampleError("no number is within the limits")
    return number


def _limit(
    schema: Mapping[str, Any], word: str, strict_word: str, tighter: Callable[[Fraction, Fraction], Fraction]
) -> tuple[Fraction | None, bool]:
    plain = None if schema.get(word) is None else Fraction(str(schema[word]))
    strict = None if schema.get(strict_word) is None else Fraction(str(schema[strict_word]))
    if plain is None or strict is None:
        return (plain, False) if strict is None else (strict, True)
    found = tighter(plain, strict)
    return found, found == strict


def _beyond(limit: Fraction, step: Fraction | None, *, strictly: bool, room: Fraction | None) -> Fraction:
    """The smallest number from a limit of at least 0 on, or strictly after it."""
    if step is not None:
        count = math.ceil(limit / step)
        return (count + 1) * step if strictly and count * step == limit else count * step
    if not strictly:
        return limit
    return limit + 1 if room is None or limit + 1 < room else (limit + room) / 2


def _told_apart(items: list[Any], schema: Any) -> list[Any]:
    """The items made different: from an enum each in turn, texts and numbers by their place."""
    if len(items) < 2:
        return items
    choices = schema.get("enum", []) if isinstance(schema, Mapping) else []
    if len(choices) >= len(items):
        return list(choices[: len(items)])
    if not choices and all(isinstance(item, str) for item in items):
        return [f"{item}{place or ''}" for place, item in enumerate(items)]
    if all(isinstance(item, int) and not isinstance(item, bool) for item in items):
        return [item + place for place, item in enumerate(items)]
    raise NoExampleError("no list of different items is known")
