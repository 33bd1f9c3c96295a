"""Fills the table of docs/providers.md from what the providers declare.

usage: provider_page.py [--check]

The prose is written by hand. What stands between `<!-- table: NAME -->` and `<!-- end -->` is made here, of the
features that each provider declares. With --check nothing is written, and the exit code is 1 where the page is not what
would be written.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping

from generated import main
from reference.markdown import table
from treadle.contracts.provider import Features, Provider
from treadle_anthropic.provider import AnthropicProvider
from treadle_google.provider import GoogleProvider
from treadle_local.provider import LocalProvider
from treadle_ollama.provider import OllamaProvider
from treadle_openai.dialects import RESPONSES
from treadle_openai.provider import GenericOpenAIProvider, OpenAIProvider
from treadle_replay.provider import MockProvider
from workspace import ROOT

PAGE = ROOT / "docs" / "providers.md"
_BLOCK = re.compile(r"<!-- table: capabilities -->\n.*?<!-- end -->", re.DOTALL)

PROVIDERS: Mapping[str, type[Provider]] = {
    "openai": OpenAIProvider,
    "generic_openai": GenericOpenAIProvider,
    "anthropic": AnthropicProvider,
    "google": GoogleProvider,
    "ollama": OllamaProvider,
    "local": LocalProvider,
    "mock": MockProvider,
}
FEATURES: Mapping[str, Features] = {
    "openai": OpenAIProvider.features,
    "openai, Responses": RESPONSES.features,
    **{name: kind.features for name, kind in PROVIDERS.items() if name != "openai"},
}


def _flag(name: str) -> Callable[[Features], bool]:
    return lambda features: bool(getattr(features, name))


def _holds(name: str, item: str) -> Callable[[Features], bool]:
    return lambda features: item in getattr(features, name)


CAPABILITIES: Mapping[str, Callable[[Features], bool]] = {
    "streamed replies": _flag("streaming"),
    "tools": _flag("tools"),
    "`tool_choice`": _flag("tool_choice"),
    "replies held to a JSON Schema": _flag("output_schemas"),
    "replies held to a JSON object": _flag("json_objects"),
    "reasoning": _flag("reasoning"),
    "embeddings": _flag("embeddings"),
    "images": _holds("media", "image"),
    "images by URL": _holds("media_by_url", "image"),
    "PDF": _holds("media", "pdf"),
    "PDF by URL": _holds("media_by_url", "pdf"),
    "audio": _holds("media", "audio"),
    "hosted web search": _holds("hosted_tools", "web_search"),
}


def capabilities() -> str:
    """What each provider declares."""
    rows = ([name, *("yes" if has(each) else "-" for each in FEATURES.values())] for name, has in CAPABILITIES.items())
    return table(["", *(name if "," in name else f"`{name}`" for name in FEATURES)], rows)


def render() -> str:
    """The text of the page."""
    return _BLOCK.sub(
        lambda _: f"<!-- table: capabilities -->\n{capabilities()}\n<!-- end -->", PAGE.read_text(encoding="utf-8")
    )


if __name__ == "__main__":
    sys.exit(main({PAGE: render()}, description="Fill the table of the providers' page."))
