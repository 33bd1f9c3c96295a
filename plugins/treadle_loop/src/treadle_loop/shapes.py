"""The shape that a reply must have: how it is said to a model, and how the value is read out of what comes back."""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

from treadle import OutputError, OutputSchema
from treadle.schemas import inside
from treadle_loop.fitting import fitted, validator_for, what_is_wrong
from treadle_loop.replies import json_values

__all__ = ["AnyObject", "SchemaShape", "Shape", "TypeShape", "check_parameters", "check_schema"]

_MOST_SHOWN = 800


class Shape(ABC):
    """What a reply must hold. A provider is given ``output``; what it cannot hold a reply to is checked here."""

    output: OutputSchema

    @abstractmethod
    def value_of(self, value: Any) -> Any:
        """The value as it goes into the state, from JSON data.

        :raises OutputError: it does not have the shape; the message says where.
        """

    def read(self, text: str) -> Any:
        """The value in a reply's text: of all the JSON in it, the first that has the shape.

        :raises OutputError: there is none; the message is about the likeliest candidate.
        """
        complaint = None
        for candidate in json_values(text):
            try:
                return self.value_of(candidate)
            except OutputError as error:
                complaint = complaint or error
        if complaint is not None:
            raise complaint
        shown = text.strip()[:200]
        raise OutputError(f"there is no JSON in the reply: {shown!r}" if shown else "the reply is empty")

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The shape as a tool's parameters."""
        return self.output.schema if self.output.schema is not None else {"type": "object"}


class SchemaShape(Shape):
    """An inline JSON Schema (draft 2020-12). The value is plain data; defaults of the schema are filled in."""

    def __init__(
        self, schema: Mapping[str, Any], *, name: str, strict: bool = True, description: str | None = None
    ) -> None:
        self.output = OutputSchema(name=name, schema=schema, strict=strict, description=description)
        self._schema = schema

    @cached_property
    def _validator(self) -> Any:
        return validator_for(self._schema)

    def value_of(self, value: Any) -> Any:
        """The value with defaults filled in, and without nulls that stand for what is not there."""
        if not self._validator.is_valid(value):
            mended = fitted(value, self._schema)
            if not self._validator.is_valid(mended):
                raise _misshapen(what_is_wrong(self._validator, value))
            value = mended
        full = fitted(value, self._schema, defaults=True)
        return full if self._validator.is_valid(full) else value  # a default may itself break the schema


class TypeShape(Shape):
    """A type: a pydantic model, a dataclass, whatever pydantic can read. The value is an instance of it.

    :raises TypeError: pydantic cannot read it (a ``PydanticUserError`` of its own kinds too).
    """

    def __init__(self, kind: Any, *, name: str | None = None, strict: bool = True, description: str | None = None):
        from pydantic import TypeAdapter

        self._adapter: TypeAdapter[Any] = TypeAdapter(kind)
        self._schema = self._adapter.json_schema()
        name = name or re.sub(r"\W+", "_", getattr(kind, "__name__", "reply"), flags=re.ASCII)
        self.output = OutputSchema(name=name, schema=self._schema, strict=strict, description=description)

    def value_of(self, value: Any) -> Any:
        """An instance. Read as JSON: a text may be a date, a list a tuple."""
        from pydantic import ValidationError

        try:
            return self._validated(value)
        except ValidationError as error:
            try:
                return self._validated(fitted(value, self._schema))
            except ValidationError:
                raise _misshapen(_complaints(error)) from None

    def _validated(self, value: Any) -> Any:
        return self._adapter.validate_json(json.dumps(value, ensure_ascii=True))


class AnyObject(Shape):
    """Any JSON object."""

    def __init__(self, *, name: str) -> None:
        self.output = OutputSchema(name=name, schema=None)

    def value_of(self, value: Any) -> Any:
        """The object."""
        if not isinstance(value, Mapping):
            raise _misshapen("it is not a JSON object")
        return value


def _misshapen(what: str) -> OutputError:
    return OutputError(f"the reply does not have the shape asked for: {what}")


def _complaints(error: Any) -> str:
    lines = []
    for each in error.errors(include_url=False, include_input=False, include_context=False):
        place = ".".join(map(str, each["loc"]))
        lines.append(f"{place}: {each['msg']}" if place else each["msg"])
    text = "; ".join(lines)
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."


def check_parameters(schema: Mapping[str, Any]) -> None:
    """Refuse what cannot be the parameters of a tool.

    :raises ValueError: it is no JSON Schema, saying where and why; or its root is not an object.
    """
    _check_is_schema(schema)
    if schema.get("type", "object") != "object":
        raise ValueError("the parameters of a tool are a JSON Schema of type object")


def _check_is_schema(schema: Mapping[str, Any]) -> None:
    from jsonschema import Draft202012Validator, SchemaError

    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        place = ".".join(str(part) for part in error.absolute_path)
        raise ValueError(f"not a JSON Schema: {place + ': ' if place else ''}{error.message}") from error


def check_schema(schema: Mapping[str, Any]) -> None:
    """Refuse what is no JSON Schema, or allows what cannot be held to.

    :raises ValueError: saying where in the schema, and why.
    """
    _check_is_schema(schema)
    for place in _open_objects(schema):
        raise ValueError(f"{place}: additionalProperties: true cannot be held to; name the properties")


def _open_objects(schema: Mapping[str, Any]) -> Iterator[str]:
    """Where ``additionalProperties: true`` stands as a keyword, not as the name of a property."""
    pending: list[tuple[str, Any]] = [("schema", schema)]
    while pending:
        place, each = pending.pop()
        if isinstance(each, Mapping) and each.get("additionalProperties") is True:
            yield place
        pending.extend((f"{place}.{where}", one) for where, one in inside(each))
