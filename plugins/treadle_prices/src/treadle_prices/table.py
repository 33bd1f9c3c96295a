"""Prices of one's own: the block ``prices:`` of ``treadle.yaml``, and the file that it may name."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import Any, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, ValidationError, ValidationInfo, model_validator

from treadle import DocumentError, Problem
from treadle_prices.price import Price

__all__ = ["PriceTable"]

_DATE = re.compile(r"[-@](\d{4}-\d\d-\d\d|\d{8}|\d{6}|\d{4}|\d{3}|latest)$")
"""How vendors date a model: ``-2024-07-18``, ``-20250929``, ``@20250929``, ``-0613``, ``-001``, ``-latest``."""

_WILD = re.compile(r"[*?]|\[[^]]*]")


class PriceTable(BaseModel):
    """Prices by model. A key is a model's name, exact or with ``*`` and ``?``, and with ``provider/`` before it where
    it is meant for one provider of this deployment only."""

    model_config = ConfigDict(extra="allow", frozen=True)
    __pydantic_extra__: dict[str, Price] = Field(init=False)

    file: str | None = Field(
        default=None, description="a YAML file with further prices; a path from the folder of treadle.yaml"
    )

    _prices: dict[str, Price] = PrivateAttr(default_factory=dict)

    @model_validator(mode="after")
    def _with_file(self, info: ValidationInfo) -> Self:
        folder = (info.context or {}).get("folder", Path())
        own = dict(self.__pydantic_extra__)
        self._prices = own if self.file is None else {**_read(Path(folder) / self.file), **own}
        return self

    def find(self, provider: str, model: str) -> Price | None:
        """The price of a model; of a dated one that is not named, the price of the model without its date.

        An exact name comes before a pattern, and of several patterns the one with the most letters of its own.
        """
        return _find(self, provider, model) or (
            _find(self, provider, undated) if (undated := _DATE.sub("", model)) != model else None
        )

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other


@lru_cache(maxsize=1024)
def _find(table: PriceTable, provider: str, model: str) -> Price | None:
    prices = table._prices
    for name in (f"{provider}/{model}", model):
        if name in prices:
            return prices[name]
    fitting = [key for key in prices if fnmatchcase(model, key) or fnmatchcase(f"{provider}/{model}", key)]
    return prices[max(fitting, key=lambda key: len(_WILD.sub("", key)))] if fitting else None


class _File(BaseModel):
    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Price] = Field(init=False)


def _read(file: Path) -> dict[str, Price]:
    """The prices of a file.

    :raises DocumentError: it cannot be read, or is not what it should be; with every place.
    """
    try:
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as error:
        message = getattr(error, "strerror", None) or str(error)
        raise DocumentError([Problem(message=message.lower(), code="unreadable", file=str(file))]) from error
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        data = {} if root is None else yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        raise DocumentError([_problem(file, error.problem or "it is not YAML", mark, "yaml-syntax")]) from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise DocumentError([_problem(file, str(error).partition("\n")[0], None, "yaml-syntax")]) from error
    problems = list(_twice(file, root))
    read = _File()
    if not isinstance(data, Mapping):
        problems.append(_problem(file, "prices are a mapping, by model", root, "wrong-type"))
        data = {}
    try:
        read = _File.model_validate({str(key): value for key, value in data.items()})
    except ValidationError as error:
        for details in error.errors(include_url=False):
            loc = details["loc"]
            message = details["msg"].removeprefix("Value error, ")
            message = "unknown field" if details["type"] == "extra_forbidden" else message[:1].lower() + message[1:]
            code = "unknown-field" if details["type"] == "extra_forbidden" else "bad-value"
            problems.append(_problem(file, message, _place(root, loc), code, ".".join(map(str, loc))))
    if problems:
        raise DocumentError(problems)
    return dict(read.__pydantic_extra__)


def _twice(file: Path, root: Any) -> Iterator[Problem]:
    for mapping in (root, *(value for _, value in root.value)) if isinstance(root, yaml.MappingNode) else ():
        seen: set[str] = set()
        for key, _ in mapping.value if isinstance(mapping, yaml.MappingNode) else ():
            if key.value in seen:
                yield _problem(file, f"'{key.value}' stands here twice", key, "duplicate-key", str(key.value))
            seen.add(str(key.value))


def _place(root: Any, loc: tuple[int | str, ...]) -> Any:
    node = root
    for part in loc:
        below = node.value if isinstance(node, yaml.MappingNode) else ()
        found = next((pair for pair in below if str(pair[0].value) == str(part)), None)
        if found is None:
            break
        node = found[1]
    return node


def _problem(file: Path, message: str, place: Any, code: str, path: str = "") -> Problem:
    mark = getattr(place, "start_mark", place)
    line, column = (None, None) if mark is None else (mark.line + 1, mark.column + 1)
    return Problem(message=message, code=code, path=path, file=str(file), line=line, column=column)
