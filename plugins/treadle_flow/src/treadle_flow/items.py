"""What a ``foreach`` goes over: a path, an expression, or a list or mapping that is written out."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BeforeValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

from treadle import (
    ArgumentTree,
    Expression,
    ExpressionError,
    StateError,
    StatePath,
    StepContext,
    StepError,
    TemplateError,
)
from treadle.fields import MISSING, compile_arguments, look_up

__all__ = ["Item", "Items", "items_of"]

_PLAIN_KEY = re.compile(r"[\w-]+")


def _read(written: object) -> object:
    if isinstance(written, str):
        if written.strip()[:1] == "{":
            raise PydanticCustomError(
                "items", "a template makes text; write a path, such as state.documents, or an expression"
            )
        try:
            if written.startswith("state."):
                return StatePath.parse_state(written)
        except StateError:
            pass  # it may be more than a path
        try:
            return Expression.compile(written)
        except ExpressionError as error:
            raise PydanticCustomError("expression", str(error)) from error
    if isinstance(written, list | tuple | Mapping):
        try:
            return compile_arguments(written)
        except TemplateError as error:
            raise PydanticCustomError("arguments", str(error)) from error
    if isinstance(written, StatePath | Expression | ArgumentTree):
        return written
    raise PydanticCustomError("items", "must be a list, a mapping, or text such as state.documents")


Items = Annotated[
    StatePath | Expression | ArgumentTree,
    BeforeValidator(_read),
    WithJsonSchema(
        {
            "anyOf": [{"type": "string"}, {"type": "array"}, {"type": "object"}],
            "$comment": "A path or an expression, such as state.documents, or the list or mapping itself",
        }
    ),
]


@dataclass(frozen=True, slots=True)
class Item:
    """One item. ``run`` is the key of its child run; ``key`` that of the mapping, or its index."""

    run: str
    index: int
    key: Any
    value: Any


def items_of(ctx: StepContext, items: StatePath | Expression | ArgumentTree) -> tuple[list[Item], bool]:
    """The items in their order, and whether they are those of a mapping.

    :raises StepError: it is neither a list nor a mapping.
    """
    found: Any
    if isinstance(items, ArgumentTree):
        found, shown = ctx.render_arguments(items), "the value"
    elif isinstance(items, Expression):
        found, shown = ctx.evaluate(items), items.source
    else:
        found, shown = look_up(ctx.state, items.parts), f"state.{items}"
    if isinstance(found, Mapping):
        plain = all(_PLAIN_KEY.fullmatch(key) for key in found)
        pairs = enumerate(found.items())
        return [Item(key if plain else str(index), index, key, value) for index, (key, value) in pairs], True
    if isinstance(found, list | tuple):
        return [Item(str(index), index, index, value) for index, value in enumerate(found)], False
    message = f"items: {shown} is {_kind_of(found)}, not a list or a mapping"
    raise StepError(message, hint="give foreach what it can go over")


def _kind_of(value: Any) -> str:
    if value is None:
        return "null"
    return "missing" if value is MISSING else _KINDS.get(type(value), "a model")


_KINDS = {str: "text", bool: "a boolean", int: "a number", float: "a number"}
