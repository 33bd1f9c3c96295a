"""Marks for Anthropic's prompt cache, set where ``provider_options`` ask for them.

``prompt_cache: true``, or ``{ttl: 5m|1h, on: [tools, system, messages]}``. Each place takes one of the four marks
that a request may have. https://platform.claude.com/docs/en/build-with-claude/prompt-caching
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["OPTION", "cache_problems", "set_marks"]

OPTION = "prompt_cache"

_PLACES = ("tools", "system", "messages")
_LIFETIMES = ("5m", "1h")
_MARKABLE = ("text", "image", "document", "tool_use", "tool_result")


def cache_problems(option: Any) -> Iterator[str]:
    """What is wrong with the option."""
    if isinstance(option, bool):
        return
    if not isinstance(option, Mapping):
        yield f"{OPTION} is true, false, or a mapping of ttl and on"
        return
    for name in sorted(set(option) - {"ttl", "on"}):
        yield f"{OPTION} has no '{name}'; there are ttl, on"
    if option.get("ttl", "5m") not in _LIFETIMES:
        yield f"{OPTION}: ttl is 5m or 1h"
    places = option.get("on", _PLACES)
    if not isinstance(places, list | tuple) or not set(places) <= set(_PLACES):
        yield f"{OPTION}: on is a list of {', '.join(_PLACES)}"


def set_marks(body: dict[str, Any], option: Any) -> None:
    """Mark the end of the tools, of the system prompt and of the last message, as far as they are asked for."""
    if not option:
        return
    settings = option if isinstance(option, Mapping) else {}
    mark = {"type": "ephemeral"} | ({"ttl": settings["ttl"]} if "ttl" in settings else {})
    places = settings.get("on", _PLACES)
    if "tools" in places and body.get("tools"):
        body["tools"][-1]["cache_control"] = mark
    if "system" in places and body.get("system"):
        system = body["system"]
        body["system"] = [{"type": "text", "text": system}] if isinstance(system, str) else system
        body["system"][-1]["cache_control"] = mark
    last = body["messages"][-1]["content"][-1]
    if "messages" in places and last.get("type") in _MARKABLE:
        last["cache_control"] = mark
