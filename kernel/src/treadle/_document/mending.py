"""Going on after a mistake: the rest of a block is checked as if the mistake were not there."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from treadle.errors import TreadleError

__all__ = ["mended"]

ModelT = TypeVar("ModelT", bound=BaseModel)

_PASSES = 3
_HARMLESS = {"template": "", "expression": "True", "arguments": {}, "missing": "", "string_pattern_mismatch": "x"}


def mended(model: type[ModelT], data: Mapping[str, Any], error: ValidationError) -> ModelT | None:
    """The model of the data without what is wrong with it, or None where too much is.

    Never run and never kept: it only serves to find the other mistakes of the block, such as a name that does not
    exist, in the same pass.
    """
    own = copy.deepcopy(dict(data))
    for _ in range(_PASSES):
        for details in error.errors(include_url=False, include_input=False):
            _mend(own, details["loc"], details["type"])
        try:
            return model.model_validate(own)
        except ValidationError as again:
            error = again
        except TreadleError:
            return None
    return None


def _mend(data: Any, loc: tuple[str | int, ...], kind: str) -> None:
    *way, last = loc or ("",)
    for part in way:
        in_list = isinstance(data, list) and isinstance(part, int) and part < len(data)
        if in_list or (isinstance(data, dict) and part in data):  # else it is a tag of pydantic's, not in the data
            data = data[part]
    if kind in _HARMLESS and isinstance(data, dict):
        data[last] = copy.copy(_HARMLESS[kind])
    elif isinstance(data, dict):
        data.pop(last, None)
    elif isinstance(data, list) and isinstance(last, int) and last < len(data):
        data[last] = ""
