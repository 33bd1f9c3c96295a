"""A workflow that has been checked and can be run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from treadle.contracts.config import RunConfig
from treadle.contracts.results import json_value
from treadle.contracts.step import Step
from treadle.errors import ConfigurationError, Problem

if TYPE_CHECKING:
    from treadle._plugins import Host

__all__ = ["Workflow"]


@dataclass(frozen=True, kw_only=True)
class Workflow:
    """A checked workflow. Immutable: running it changes nothing in it.

    :param data: the document as it was written, as plain data.
    :param source: the file it came from, as it was named, or None.
    :param warnings: what may not work.
    """

    name: str
    version: str
    description: str
    config: RunConfig
    state: Mapping[str, Any]
    state_schema: Mapping[str, Any]
    steps: tuple[Step, ...]
    data: Mapping[str, Any] = field(repr=False)
    host: Host = field(repr=False, compare=False)
    source: str | None = None
    warnings: tuple[Problem, ...] = ()

    @cached_property
    def digest(self) -> str:
        """``sha256:`` and the hash of the document's data; the same for the same content in any layout."""
        canonical = json.dumps(json_value(self.data), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        return f"sha256:{hashlib.sha256(canonical.encode('utf-8', 'surrogatepass')).hexdigest()}"

    def with_config(self, **overrides: Any) -> Workflow:
        """The same workflow under another config; None leaves a value as it is.

        :raises ConfigurationError: an override is not a valid value.
        """
        changes = {name: value for name, value in overrides.items() if value is not None}
        if not changes:
            return self
        from pydantic import ValidationError

        model = type(self.config)
        try:
            config = model.model_validate({**self.config.model_dump(exclude_unset=True), **changes})
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            raise ConfigurationError(f"config.{'.'.join(map(str, first['loc']))}: {first['msg']}") from error
        return replace(self, config=config)
