"""What a deployment may set, and what is refused."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from treadle_anthropic.provider import AnthropicProvider
from treadle_anthropic.settings import AnthropicSettings


@pytest.mark.parametrize(
    ("given", "root"),
    [
        ("http://localhost:8000/", "http://localhost:8000"),
        (" https://example.com/anthropic ", "https://example.com/anthropic"),
        ("https://api.anthropic.com/v1", "https://api.anthropic.com"),
        ("https://example.com/anthropic/v1/", "https://example.com/anthropic"),
    ],
)
def test_a_base_url_is_what_stands_before_the_version(given: str, root: str) -> None:
    assert AnthropicSettings(base_url=given).base_url == root


def test_what_is_no_beta_is_refused() -> None:
    with pytest.raises(ValidationError, match="'a,b' is not the name of a beta; one is like files-api-2025-04-14"):
        AnthropicSettings(betas=("a,b",))


@pytest.mark.parametrize(
    ("model", "supported"), [("claude-sonnet-4-5", True), ("Claude-X", True), ("gpt-4o", False), ("gemini-2", False)]
)
def test_claude_is_known_by_its_name(model: str, supported: bool) -> None:
    assert AnthropicProvider("anthropic", AnthropicSettings()).supports_model(model) is supported
    official = AnthropicSettings(base_url="https://api.anthropic.com/v1")
    assert AnthropicProvider("anthropic", official).supports_model(model) is supported


def test_another_server_may_have_any_model() -> None:
    assert AnthropicProvider("anthropic", AnthropicSettings(base_url="http://proxy")).supports_model("MiniMax-M2")
