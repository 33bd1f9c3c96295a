"""A conversation as it is kept: read from what stands in the state or a file, and written back."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import NoneType
from typing import Any

from treadle import (
    AssistantMessage,
    Message,
    StateError,
    SystemMessage,
    TextPart,
    ToolCallPart,
    ToolMessage,
    ToolResultPart,
    UserMessage,
    close_match,
)
from treadle.contracts.memory import Group, grouped

__all__ = ["Entry", "Kept", "written"]

_KEYS = ("messages", "token_budget", "trim_policy", "summary")
_ALIKE = 0.8
_CALL_FORM = "a call is {id: ..., name: ..., arguments: {...}}"


@dataclass(frozen=True, slots=True)
class Entry:
    """A group of messages, and how it is written."""

    group: Group
    written: tuple[Mapping[str, Any], ...]

    @classmethod
    def of(cls, message: SystemMessage | UserMessage | AssistantMessage) -> Entry:
        """A new message, of text alone."""
        return cls((message,), (written(message),))


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What is kept of a conversation. ``others`` are keys of the writer's own, which stay as they are."""

    entries: tuple[Entry, ...] = ()
    token_budget: int | None = None
    trim_policy: str | None = None
    summary: str | None = None
    others: Mapping[str, Any] | None = None

    @classmethod
    def read(cls, value: Any, where: str) -> Kept:
        """A mapping, a plain list of messages, or nothing at all (None).

        :param where: what to call it in errors, such as ``state.chat``.
        :raises StateError: it is no conversation, with the message or key that is wrong.
        """
        if value is None:
            return cls()
        if isinstance(value, Sequence) and not isinstance(value, str | bytes):
            return cls(entries=_entries(value, where))
        if not isinstance(value, Mapping):
            raise StateError(
                f"{where} is no conversation but {_kind(value)}",
                hint="it is a list of messages, or a mapping with messages, token_budget, trim_policy and summary",
            )
        for key in value:
            if key not in _KEYS and (meant := close_match(str(key), _KEYS, alike=_ALIKE)):
                raise StateError(f"{where}: unknown key '{key}' of a conversation", hint=f"did you mean '{meant}'?")
        messages = value.get("messages")
        if messages is not None and (not isinstance(messages, Sequence) or isinstance(messages, str | bytes)):
            raise StateError(f"{where}.messages must be a list of messages, not {_kind(messages)}")
        return cls(
            entries=_entries(messages or (), f"{where}.messages"),
            token_budget=_budget(value.get("token_budget"), where),
            trim_policy=_text(value.get("trim_policy"), f"{where}.trim_policy"),
            summary=_text(value.get("summary"), f"{where}.summary") or None,
            others={key: each for key, each in value.items() if key not in _KEYS},
        )

    @property
    def groups(self) -> tuple[Group, ...]:
        """Its messages."""
        return tuple(entry.group for entry in self.entries)

    def value(self) -> dict[str, Any]:
        """As it is written: a mapping, with the keys that say something."""
        said = {key: getattr(self, key) for key in _KEYS[1:] if getattr(self, key) is not None}
        messages = [dict(each) for entry in self.entries for each in entry.written]
        return {"messages": messages, **said, **(self.others or {})}

    def with_settings_of(self, other: Kept) -> Kept:
        """The same, with the budget and policy that the other has."""
        return replace(
            self,
            token_budget=other.token_budget or self.token_budget,
            trim_policy=other.trim_policy or self.trim_policy,
        )


def written(message: SystemMessage | UserMessage | AssistantMessage) -> Mapping[str, Any]:
    """A message as it is written: its role, text and speaker."""
    name = None if isinstance(message, SystemMessage) else message.name
    return {"role": message.role, "content": message.text, **({"name": name} if name else {})}


def _entries(messages: Sequence[Any], where: str) -> tuple[Entry, ...]:
    read: list[Message] = []
    written_as: list[tuple[Mapping[str, Any], ...]] = []
    for number, value in enumerate(messages):
        message = _message(value, f"{where}[{number}]", read)
        if isinstance(message, ToolMessage) and read and isinstance(read[-1], ToolMessage):
            read[-1] = replace(read[-1], results=(*read[-1].results, *message.results))
            written_as[-1] += (value,)
        else:
            read.append(message)
            written_as.append((value,))
    read = [_in_order_of_calls(each, read[n - 1]) if n else each for n, each in enumerate(read)]
    entries = []
    try:
        groups = grouped(read)
    except StateError as error:
        raise StateError(f"{where}: {error.message}") from None
    place = 0
    for group in groups:
        entries.append(Entry(group, tuple(each for n in range(place, place + len(group)) for each in written_as[n])))
        place += len(group)
    return tuple(entries)


def _message(value: Any, where: str, before: Sequence[Message]) -> Message:
    if not isinstance(value, Mapping):
        raise StateError(f"{where} must be a message {{role: ..., content: ...}}, not {_kind(value)}")
    role = value.get("role")
    calls = value.get("tool_calls") or ()
    if role not in ("system", "user", "assistant", "tool"):
        said = "has no role" if role is None else f"has the role {role!r}"
        raise StateError(f"{where} {said}", hint="a role is system, user, assistant or tool")
    if calls and role != "assistant":
        raise StateError(f"{where}: only an assistant has tool_calls")
    content = value.get("content")
    if not isinstance(content, str) and not (content is None and calls):
        said = "is missing" if content is None else f"must be text, not {_kind(content)}"
        raise StateError(f"{where}.content {said}")
    name = _text(value.get("name"), f"{where}.name")
    if role == "system":
        return SystemMessage(text=content or "")
    if role == "user":
        return UserMessage.of(content or "", name=name)
    if role == "tool":
        return _result(value.get("tool_call_id"), content or "", where, before)
    texts = () if content is None or (calls and not content) else (TextPart(text=content),)
    if not isinstance(calls, Sequence) or isinstance(calls, str):
        raise StateError(f"{where}.tool_calls must be a list, not {_kind(calls)}", hint=_CALL_FORM)
    made = (_call(each, f"{where}.tool_calls[{number}]") for number, each in enumerate(calls))
    return AssistantMessage(parts=(*texts, *made), name=name)


def _call(value: Any, where: str) -> ToolCallPart:
    if not isinstance(value, Mapping):
        raise StateError(f"{where} must be a mapping, not {_kind(value)}", hint=_CALL_FORM)
    call, name, arguments = value.get("id"), value.get("name"), value.get("arguments", {})
    if not isinstance(call, str) or not call or not isinstance(name, str) or not name:
        raise StateError(f"{where} needs an id and the name of a tool", hint=_CALL_FORM)
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except ValueError:
            raise StateError(f"{where}.arguments is text that is not JSON", hint=_CALL_FORM) from None
    if not isinstance(arguments, Mapping):
        raise StateError(f"{where}.arguments must be a mapping, not {_kind(arguments)}", hint=_CALL_FORM)
    return ToolCallPart(call_id=call, tool_name=name, arguments=arguments)


def _result(call: Any, content: str, where: str, before: Sequence[Message]) -> ToolMessage:
    if not isinstance(call, str) or not call:
        raise StateError(f"{where} needs the tool_call_id of the call that it is a result of")
    caller = next((each for each in reversed(before) if isinstance(each, AssistantMessage)), None)
    calls = caller.tool_calls if caller is not None else ()
    name = next((each.tool_name for each in calls if each.call_id == call), "")
    return ToolMessage(results=(ToolResultPart(call_id=call, tool_name=name, content=content),))


def _in_order_of_calls(message: Message, before: Message) -> Message:
    """Results in the order of the calls, where each has its call."""
    if not isinstance(message, ToolMessage) or not isinstance(before, AssistantMessage):
        return message
    order = {each.call_id: number for number, each in enumerate(before.tool_calls)}
    if any(each.call_id not in order for each in message.results):
        return message
    return replace(message, results=tuple(sorted(message.results, key=lambda each: order[each.call_id])))


def _budget(value: Any, where: str) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise StateError(f"{where}.token_budget must be a whole number above 0, not {value!r}")
    return value


def _text(value: Any, where: str) -> str | None:
    if value is None or isinstance(value, str):
        return value
    raise StateError(f"{where} must be text, not {_kind(value)}")


def _kind(value: Any) -> str:
    if isinstance(value, Mapping):
        return "a mapping"
    kinds = {bool: "true or false", int: "a number", float: "a number", str: "text", list: "a list", NoneType: "null"}
    return kinds.get(type(value), type(value).__name__)
