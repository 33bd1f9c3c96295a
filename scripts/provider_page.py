"""Fills the tables of docs/providers.md from what the providers declare.

usage: provider_page.py [--check]

The prose is written by hand. What stands between `<!-- table: NAME -->` and `<!-- end -->` is made here: capabilities
from each provider's declared features, settings from its settings model. With --check nothing is written, and the exit
code is 1 where the page is not what would be written.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from generated import main
from treadle.contracts.provider import Features, FromEnv, Provider, ProviderSettings
from treadle.contracts.secrets import SecretRef
from treadle_anthropic.provider import AnthropicProvider
from treadle_google.provider import GoogleProvider
from treadle_local.provider import LocalProvider
from treadle_ollama.provider import OllamaProvider
from treadle_openai.dialects import RESPONSES
from treadle_openai.provider import GenericOpenAIProvider, OpenAIProvider
from treadle_replay.provider import MockProvider
from workspace import ROOT

PAGE = ROOT / "docs" / "providers.md"

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


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows))


def capabilities() -> str:
    """What each provider declares."""
    rows = ([name, *("yes" if has(each) else "-" for each in FEATURES.values())] for name, has in CAPABILITIES.items())
    return _table(["", *(name if "," in name else f"`{name}`" for name in FEATURES)], rows)


def settings() -> str:
    """What a deployment may set of each provider."""
    rows: list[list[str]] = []
    for name, kind in PROVIDERS.items():
        for field_name, field in kind.settings_model.model_fields.items():
            if field_name in ProviderSettings.model_fields:
                continue
            variables = [f"`{each.variable}`" for each in field.metadata if isinstance(each, FromEnv)]
            default = field.get_default(call_default_factory=True)
            if isinstance(default, SecretRef):
                scheme, _, variable = default.reference.partition(":")
                variables += [f"`{variable}`"] if scheme == "env" else []
            rows.append(
                [f"`{name}`", f"`{field_name}`", _shown(default), ", ".join(variables), field.description or ""]
            )
    return _table(["provider", "setting", "default", "environment", "what it does"], rows)


def _shown(default: Any) -> str:
    if default is None or default == {} or default == ():
        return ""
    return f"`{default.reference if isinstance(default, SecretRef) else default}`"


def render() -> str:
    """The text of the page."""
    made = {"capabilities": capabilities(), "settings": settings()}
    return re.sub(
        r"<!-- table: (\w+) -->\n.*?<!-- end -->",
        lambda found: f"<!-- table: {found[1]} -->\n{made[found[1]]}\n<!-- end -->",
        PAGE.read_text(encoding="utf-8"),
        flags=re.DOTALL,
    )


if __name__ == "__main__":
    sys.exit(main({PAGE: render()}, description="Fill the tables of the providers' page."))
