"""What providers' compilers of JSON Schemas have in common: references put in place, parts merged, words for the rest.

Nothing here changes the schema that it is given. Which places of a schema hold schemas, ``treadle.schemas`` knows.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from treadle.schemas import MAPS_OF_SCHEMAS, inside, pointed_at, with_inside

__all__ = ["SchemaRefused", "described", "inlined", "merged"]

_MOST_SCHEMAS = 3000
_DEFINITIONS = ("$defs", "definitions")


class SchemaRefused(ValueError):
    """The schema cannot be said; the message begins with the path."""


def merged(*parts: Any) -> dict[str, Any]:
    """One schema of those that hold together, as in ``allOf``. Where two differ in a keyword, the first one's is kept:
    so it may take more than they do together, and whoever asked checks against the original.
    """
    made: dict[str, Any] = {}
    for key, value in ((key, value) for part in parts if isinstance(part, Mapping) for key, value in part.items()):
        mine = made.get(key)
        if key in MAPS_OF_SCHEMAS and isinstance(mine, Mapping) and isinstance(value, Mapping):
            made[key] = {**value, **mine}
        elif key == "required" and isinstance(mine, list | tuple):
            made[key] = [*mine, *(name for name in value if name not in mine)]
        else:
            made.setdefault(key, value)
    return made


def described(schema: Mapping[str, Any], unsaid: Mapping[str, Any]) -> dict[str, Any]:
    """The schema with the keywords that a dialect lacks put into its description, for the model to read."""
    text = schema.get("description")
    words = [text] if isinstance(text, str) and text else []
    if unsaid:
        words.append(json.dumps(unsaid, ensure_ascii=False, default=str))
    return {**schema, "description": "\n\n".join(words)} if words else dict(schema)


def inlined(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema with what it refers to in its place.

    What leads back to itself stays behind its reference, in ``$defs``; nothing else stands beside such a reference.

    :raises SchemaRefused: a reference leads nowhere, out of the schema or only to itself; or too much comes of it.
    """
    return _Inlining(schema).whole()


class _Inlining:
    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._count = 0
        self._reached: dict[str, set[str]] = {}
        self._names: dict[str, str] = {}
        self._kept: dict[str, Any] = {}

    def whole(self) -> dict[str, Any]:
        made: dict[str, Any] = self._written(self._root, "", at_root=True)
        return {**made, "$defs": self._kept} if self._kept else made

    def _written(self, schema: Any, path: str, *, at_root: bool = False) -> Any:
        self._count += 1
        if self._count > _MOST_SCHEMAS:
            raise SchemaRefused(f"{path}: without references it has more than {_MOST_SCHEMAS} schemas")
        if not isinstance(schema, Mapping):
            return schema
        followed: list[str] = []
        while isinstance(reference := schema.get("$ref"), str):
            target = pointed_at(self._root, reference)
            if not isinstance(target, Mapping | bool) or reference in followed:
                what = "leads back to itself" if reference in followed else "leads nowhere in this schema"
                raise SchemaRefused(f"{path}.$ref: {reference!r} {what}".lstrip("."))
            if not at_root and (reference == "#" or reference in self._references(reference)):
                return {"$ref": self._behind(reference, path)}
            followed.append(reference)
            schema = merged({key: value for key, value in schema.items() if key != "$ref"}, target)
        plain = {key: value for key, value in schema.items() if key not in _DEFINITIONS}
        return with_inside(plain, lambda each, place: self._written(each, f"{path}.{place}".lstrip(".")))

    def _behind(self, reference: str, path: str) -> str:
        """The reference to a schema that is kept."""
        if reference not in self._names:
            end = re.sub(r"[^A-Za-z0-9_.-]", "_", reference.rpartition("/")[2]) or "schema"
            taken = self._names.values()
            name = next(each for each in (end, *(f"{end}_{n}" for n in range(2, 9999))) if each not in taken)
            self._names[reference] = name
            target = pointed_at(self._root, reference)
            self._kept[name] = self._written(target, path, at_root=True)
        return f"#/$defs/{self._names[reference]}"

    def _references(self, reference: str) -> set[str]:
        """Every reference that can be met on the way into what one leads to."""
        known = self._reached.get(reference)
        if known is None:
            known = self._reached[reference] = set()
            pending = [pointed_at(self._root, reference)]
            while pending:
                each = pending.pop()
                if isinstance(each, Mapping) and isinstance(found := each.get("$ref"), str) and found not in known:
                    known.add(found)
                    pending.append(pointed_at(self._root, found))
                pending.extend(one for place, one in inside(each) if not place.startswith(_DEFINITIONS))
        return known
