"""Tool calls put together from the fragments of a stream, and read once they are whole; for every provider.

Servers disagree on how they cut calls up, so the rules are written down:

1. A call id that was seen before names its call, whatever the index says.
2. A new id never joins a call that has an id: it opens a call, even at an index in use. (A call that has been
   going on without an id may still receive its own.)
3. Without an id, the index names the call: the last one opened at that index. A new function name there, or a
   name after arguments that are already whole, opens another call.
4. Without id and index, the fragment belongs to the call that is open (the last one opened), or opens one by
   the rule for names above.
5. A fragment that belongs nowhere (an index nobody opened, and no name) goes to the call that was opened last.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from typing import Any

from treadle._dataclasses import dataclass
from treadle.messages import ToolCallDelta, ToolCallPart

__all__ = ["ToolCallAssembly", "tool_call_part", "with_unique_ids"]


@dataclass(slots=True)
class _Call:
    position: int
    call_id: str = ""
    name: str = ""
    fragments: list[str] = field(default_factory=list)
    provider_data: dict[str, Any] = field(default_factory=dict)

    @property
    def arguments(self) -> str:
        return "".join(self.fragments)

    def is_whole(self) -> bool:
        """Whether its arguments are a finished JSON object. Looked at only when a further name arrives."""
        try:
            return isinstance(json.loads(self.arguments), dict)
        except ValueError:
            return False


class ToolCallAssembly:
    """Takes the fragments of one reply, in order, and gives its calls."""

    def __init__(self) -> None:
        self._calls: list[_Call] = []
        self._by_id: dict[str, _Call] = {}
        self._by_index: dict[int, _Call] = {}

    def __bool__(self) -> bool:
        return bool(self._calls)

    def add(
        self,
        *,
        call_id: str | None = None,
        index: int | None = None,
        tool_name: str | None = None,
        arguments: str = "",
        provider_data: Mapping[str, Any] | None = None,
    ) -> ToolCallDelta:
        """Take a fragment and say which call it belongs to.

        :param arguments: the next piece of the call's JSON text.
        :param provider_data: what goes onto the call's part; a later fragment's wins, key by key.
        """
        call_id, name = call_id or "", tool_name or ""
        call = self._find(call_id, index, name) or self._open(index)
        if call_id and not call.call_id:
            call.call_id = call_id
            self._by_id[call_id] = call
        if name and not call.name:
            call.name = name
        if provider_data:
            call.provider_data.update(provider_data)
        call.fragments.append(arguments)
        return ToolCallDelta(
            index=call.position, call_id=call.call_id or None, tool_name=name or None, arguments=arguments
        )

    def parts(self) -> tuple[ToolCallPart, ...]:
        """The calls, in the order in which they were opened."""
        return with_unique_ids(
            tool_call_part(call.call_id, call.name, call.arguments, provider_data=call.provider_data)
            for call in self._calls
        )

    def _find(self, call_id: str, index: int | None, name: str) -> _Call | None:
        if call_id in self._by_id:
            return self._by_id[call_id]
        at_index = None if index is None else self._by_index.get(index)
        open_call = self._calls[-1] if self._calls else None
        named = at_index if index is not None else open_call
        if call_id:
            return named if named and not named.call_id and not (name and named.name) else None
        if named is None:
            return None if name else open_call
        if name and named.name and (name != named.name or named.is_whole()):
            return None
        return named

    def _open(self, index: int | None) -> _Call:
        call = _Call(len(self._calls))
        self._calls.append(call)
        if index is not None:
            self._by_index[index] = call
        return call


def tool_call_part(
    call_id: str, name: str, arguments: str, *, provider_data: Mapping[str, Any] | None = None
) -> ToolCallPart:
    """A whole call. Arguments that are no JSON object are kept as text, with the reason; an empty text is ``{}``."""
    problem: str | None = None
    parsed: Any = {}
    if arguments.strip():
        try:
            parsed = json.loads(arguments, parse_constant=_refuse)
        except (ValueError, RecursionError) as error:
            problem = f"the arguments are not JSON: {error}"
        else:
            if not isinstance(parsed, dict):
                problem = f"the arguments are not a JSON object but {_KINDS.get(type(parsed), 'something else')}"
    return ToolCallPart(
        call_id=call_id,
        tool_name=name,
        arguments=None if problem else parsed,
        raw_arguments=arguments,
        parse_error=problem,
        provider_data=provider_data or {},
    )


def with_unique_ids(calls: Iterable[ToolCallPart]) -> tuple[ToolCallPart, ...]:
    """The calls with no id empty and no two alike, as each result must find its own call."""
    found = list(calls)
    taken = {call.call_id for call in found if call.call_id}
    seen: set[str] = set()
    unique = []
    for call in found:
        call_id = call.call_id
        if not call_id or call_id in seen:
            # Random where there was none: some servers number the calls of every reply from 0.
            stem = call_id or f"call_{secrets.token_hex(12)}"
            call_id, n = stem, 2
            while call_id in taken:
                call_id, n = f"{stem}_{n}", n + 1
            taken.add(call_id)
            call = replace(call, call_id=call_id)
        seen.add(call_id)
        unique.append(call)
    return tuple(unique)


_KINDS: Mapping[type, str] = {
    list: "an array",
    str: "a string",
    int: "a number",
    float: "a number",
    bool: "a boolean",
    type(None): "null",
}


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not a JSON value")
