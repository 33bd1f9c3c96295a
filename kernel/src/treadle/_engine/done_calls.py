"""What ``once`` tools have done in earlier attempts of a step, so that a new attempt does not do it again."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from treadle.contracts.step import DoneCall
from treadle.contracts.tool import canonical_arguments

__all__ = ["DoneCalls"]


class DoneCalls:
    """The successful ``once`` calls of one step, over its attempts. Each answers at most one call of an attempt."""

    __slots__ = ("_all", "_unclaimed")

    def __init__(self) -> None:
        self._all: tuple[DoneCall, ...] = ()
        self._unclaimed: tuple[DoneCall, ...] = ()

    def begin_attempt(self) -> None:
        """What was done before may be claimed again."""
        self._unclaimed = self._all

    def unclaimed(self, tool_name: str) -> tuple[DoneCall, ...]:
        """What earlier attempts did with a tool and this one has not asked for."""
        return tuple(each for each in self._unclaimed if each.tool_name == tool_name)

    def has(self, tool_name: str, arguments: Mapping[str, Any]) -> bool:
        """Whether there is a like call to claim."""
        asked = canonical_arguments(arguments) if self._unclaimed else ""
        return any(
            each.tool_name == tool_name and canonical_arguments(each.arguments) == asked for each in self._unclaimed
        )

    def claim(self, tool_name: str, arguments: Mapping[str, Any]) -> DoneCall | None:
        """The first like call of an earlier attempt, which is then used."""
        if not self._unclaimed:
            return None
        asked = canonical_arguments(arguments)
        for each in self._unclaimed:
            if each.tool_name == tool_name and canonical_arguments(each.arguments) == asked:
                self._unclaimed = tuple(other for other in self._unclaimed if other is not each)
                return each
        return None

    def add(self, tool_name: str, arguments: Mapping[str, Any], result: Any) -> None:
        """Keep a call that succeeded; what it was given and gave is copied."""
        done = DoneCall(tool_name, copy.deepcopy(arguments), copy.deepcopy(result))
        self._all = (*self._all, done)
