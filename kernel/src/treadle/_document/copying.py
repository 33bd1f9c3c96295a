"""A copy of plain data that nobody else holds, refused where YAML could not have said it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from treadle._document.problems import Path, Reporter, shown
from treadle._document.reading import MAX_DEPTH
from treadle._language.values import declared_fields
from treadle.errors import DocumentError

__all__ = ["copied"]


def copied(value: Any, report: Reporter, path: Path = ()) -> Any:
    """A copy of the mappings and lists in ``value``; the rest is shared, as it cannot change or, where it is a
    pydantic instance, belongs to the caller.

    Notes a key that is not text and a value of a foreign type.

    :raises DocumentError: it is nested deeper than the reader allows, or contains itself.
    """
    if value is None or isinstance(value, str | int | float):
        return value
    if len(path) > MAX_DEPTH:
        report.add(path[:1], "too-deep", f"nested more than {MAX_DEPTH} levels deep")
        raise DocumentError(report.problems)  # going on could take for ever
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                report.add(path, "bad-key", f"a key must be text, and {shown(key)} is not")
        return {str(key): copied(item, report, (*path, str(key))) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [copied(item, report, (*path, index)) for index, item in enumerate(value)]
    if declared_fields(value) is None:
        kind = type(value).__name__
        report.add(path, "wrong-type", f"a document holds JSON values and pydantic instances, not {kind}")
    return value
