"""Web search, which Anthropic runs itself.

https://platform.claude.com/docs/en/agents-and-tools/tool-use/web-search-tool
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from treadle.messages import HostedTool

__all__ = ["WEB_SEARCH", "ignored_options", "search_problems", "search_tool"]

WEB_SEARCH = "web_search"

_VERSION = "web_search_20250305"
_DOMAINS = ("allowed_domains", "blocked_domains")
_OTHERS = ("dynamic_filtering", "search_context_size")
"""What another vendor's search, or another version of this one, is tuned with."""


def search_problems(hosted: HostedTool) -> Iterator[str]:
    """What is wrong with the options of a web search."""
    given = hosted.options
    for name in sorted(set(given) - {*_DOMAINS, *_OTHERS, "max_uses", "user_location"}):
        known = "allowed_domains, blocked_domains, max_uses, user_location"
        yield f"{WEB_SEARCH} has no option '{name}'; there are {known}"
    for name in _DOMAINS:
        domains = given.get(name)
        if domains is None:
            continue
        if not isinstance(domains, list | tuple) or not all(isinstance(each, str) and each for each in domains):
            yield f"{WEB_SEARCH}: {name} is a list of domains"
        elif any("://" in each for each in domains):
            yield f"{WEB_SEARCH}: {name} takes domains without a scheme, such as example.com"
    if all(given.get(name) for name in _DOMAINS):
        yield f"{WEB_SEARCH} takes allowed_domains or blocked_domains, not both"
    uses = given.get("max_uses")
    if uses is not None and (not isinstance(uses, int) or isinstance(uses, bool) or uses < 1):
        yield f"{WEB_SEARCH}: max_uses is a whole number from 1"
    if not isinstance(given.get("user_location", {}), Mapping):
        yield f"{WEB_SEARCH}: user_location is a mapping of city, region, country, timezone"


def ignored_options(hosted: HostedTool) -> Iterator[str]:
    """The options that only tune, and are not known here. A limit on domains is never among them."""
    yield from sorted(name for name in _OTHERS if hosted.options.get(name) is not None)


def search_tool(hosted: HostedTool) -> dict[str, Any]:
    """The entry of ``tools``."""
    tool: dict[str, Any] = {"type": _VERSION, "name": WEB_SEARCH}
    for name in _DOMAINS:
        if domains := hosted.options.get(name):
            tool[name] = list(domains)
    if hosted.options.get("max_uses") is not None:
        tool["max_uses"] = hosted.options["max_uses"]
    if location := hosted.options.get("user_location"):
        tool["user_location"] = {"type": "approximate", **location}
    return tool
