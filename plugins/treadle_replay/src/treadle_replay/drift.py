"""What of a request has changed since it was recorded, in words.

Requests are compared in the form of :func:`treadle_replay.request_hash.hashed_content`. Where a recorded text holds
``<REDACTED>``, anything may stand.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any

__all__ = ["REDACTED", "changes", "fits", "is_of_a_tool"]

REDACTED = "<REDACTED>"
_AROUND = 20
_SHOWN = 60
_MOST = 4
_NAMES = {"output": "the schema of the reply", "tool_choice": "the choice of tools", "max_tokens": "max_tokens"}
_MISSING: Any = object()


def fits(recorded: Any, now: Any) -> bool:
    """Whether a value is what was recorded."""
    if isinstance(recorded, str) and isinstance(now, str):
        return recorded == now or (REDACTED in recorded and _fits_around(recorded.split(REDACTED), now))
    if isinstance(recorded, Mapping) and isinstance(now, Mapping):
        return recorded.keys() == now.keys() and all(fits(recorded[key], now[key]) for key in recorded)
    if isinstance(recorded, list | tuple) and isinstance(now, list | tuple):
        return len(recorded) == len(now) and all(map(fits, recorded, now))
    return bool(recorded == now)


def _fits_around(pieces: Sequence[str], text: str) -> bool:
    """Whether the pieces are in the text in that order, the first at its beginning and the last at its end."""
    first, *middle, last = pieces
    if len(text) < len(first) + len(last) or not text.startswith(first) or not text.endswith(last):
        return False
    at, end = len(first), len(text) - len(last)
    for piece in middle:
        found = text.find(piece, at, end)
        if found < 0:
            return False
        at = found + len(piece)
    return True


def changes(recorded: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Each field that is not as it was recorded, with the piece of it that differs: ``model: 'a' -> 'b'``."""
    found = list(_changes(recorded, now))
    return found if len(found) <= _MOST else [*found[:_MOST], f"and {len(found) - _MOST} more"]


def is_of_a_tool(recorded: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Whether results of tools are all that has changed."""
    before, after = recorded.get("messages", []), now.get("messages", [])
    different = [now for then, now in zip(before, after, strict=False) if not fits(then, now)]
    others = all(fits(recorded.get(key), now.get(key)) for key in recorded.keys() | now.keys() if key != "messages")
    return others and len(before) == len(after) and all(each.get("role") == "tool" for each in different)


def _changes(recorded: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    if ("inputs" in recorded) != ("inputs" in now):
        kinds = {True: "embeddings", False: "a reply"}
        yield f"{kinds['inputs' in recorded]} was asked for, and {kinds['inputs' in now]} is"
        return
    for name in ("model", "temperature", "max_tokens", "dimensions"):
        yield from _changed(name, recorded.get(name), now.get(name))
    yield from _messages(recorded.get("messages", []), now.get("messages", []))
    for at, (before, after) in enumerate(
        zip_longest(recorded.get("inputs", []), now.get("inputs", []), fillvalue=_MISSING), start=1
    ):
        yield from _changed(f"input {at}", before, after)
    before, after = recorded.get("extra", {}), now.get("extra", {})
    for name in sorted(before.keys() | after.keys()):
        if name == "tools":
            yield from _tools(before.get(name, []), after.get(name, []))
        else:
            yield from _changed(_NAMES.get(name, name), before.get(name), after.get(name))


def _messages(recorded: Sequence[Any], now: Sequence[Any]) -> Iterator[str]:
    asked = max((at for at, each in enumerate(now) if each.get("role") == "user"), default=-1)
    if len(recorded) != len(now):
        yield f"{_messages_of(len(recorded))} then, {len(now)} now"
    for at, (before, after) in enumerate(zip(recorded, now, strict=False)):
        role = after.get("role")
        name = f"message {at + 1} ({'result of a tool' if role == 'tool' else role})"
        if role == "system":
            name = f"the system prompt (message {at + 1})"
        elif at == asked:
            name = f"the prompt (message {at + 1})"
        if before.get("role") != role:
            yield f"{name}: role {before.get('role')!r} -> {role!r}"
        elif not fits(before, after):
            rest_of_before, rest = _rest(before), _rest(after)
            if fits(rest_of_before, rest):
                yield f"{name}: {_piece(before.get('content'), after.get('content'))}"
            else:
                yield f"{name}: {_piece(before, after)}"


def _messages_of(count: int) -> str:
    return f"{count} message" if count == 1 else f"{count} messages"


def _rest(message: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in message.items() if key != "content"}


def _tools(recorded: Sequence[Any], now: Sequence[Any]) -> Iterator[str]:
    before, after = ({each["name"]: each for each in tools} for tools in (recorded, now))
    told = [f"'{name}' is new" for name in after if name not in before]
    told += [f"'{name}' is gone" for name in before if name not in after]
    for name in (name for name in after if name in before):
        if _is_stand_in(after[name]) and not _is_stand_in(before[name]):
            told.append(f"'{name}' is not registered now (treadle replay takes tools of your own with --tools FILE)")
            continue
        for key in sorted(before[name].keys() | after[name].keys()):
            told += _changed(f"{key} of '{name}'", before[name].get(key), after[name].get(key))
    if not told and not fits(list(recorded), list(now)):
        told = ["their order"]
    yield from (f"the tools: {each}" for each in told)


def _is_stand_in(tool: Mapping[str, Any]) -> bool:
    """Whether a model is told of it by its name alone: so it is of a tool that nobody has here."""
    return not tool.get("description") and not (tool.get("parameters") or {}).get("properties")


def _changed(name: str, before: Any, after: Any) -> Iterator[str]:
    if before is _MISSING:
        yield f"{name} is new: {_short(_text(after))}"
    elif after is _MISSING:
        yield f"{name} is gone: {_short(_text(before))}"
    elif not fits(before, after):
        yield f"{name}: {_piece(before, after)}"


def _piece(before: Any, after: Any) -> str:
    """The part in which two values differ, with a little of what stands around it."""
    one, two = _text(before), _text(after)
    start = max(0, _alike(one, two) - _AROUND)
    shortest = min(len(one), len(two)) - start
    tail = min(_alike(one[::-1], two[::-1]), shortest)
    tail = max(0, tail - _AROUND)
    parts = [
        f"{'…' if start else ''}{_short(text[start : len(text) - tail])}{'…' if tail else ''}" for text in (one, two)
    ]
    quoted = [each if isinstance(value, int | float | None) else repr(each) for each, value in
              zip(parts, (before, after), strict=True)]  # fmt: skip
    return " -> ".join(quoted)


def _alike(one: str, two: str) -> int:
    """How many characters two texts have in common from their beginning."""
    return next((at for at, (a, b) in enumerate(zip(one, two, strict=False)) if a != b), min(len(one), len(two)))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True)


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN + 2 * _AROUND else f"{text[: _SHOWN + 2 * _AROUND]}…"
