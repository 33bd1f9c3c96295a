"""What a deployment may set, and what is refused."""

from __future__ import annotations

import pytest

from treadle_openai.provider import GenericOpenAIProvider, OpenAIProvider
from treadle_openai.settings import GenericOpenAISettings, OpenAISettings, api_base


@pytest.mark.parametrize(
    ("given", "base"),
    [
        ("http://localhost:8000", "http://localhost:8000/v1"),
        ("http://localhost:8000/", "http://localhost:8000/v1"),
        (" https://example.com ", "https://example.com/v1"),
        ("https://example.com/v1", "https://example.com/v1"),
        ("https://example.com/v1/", "https://example.com/v1"),
        ("https://openrouter.ai/api/v1", "https://openrouter.ai/api/v1"),
        ("https://example.com/custom", "https://example.com/custom"),
    ],
)
def test_v1_is_added_to_a_bare_host_only(given: str, base: str) -> None:
    assert api_base(given) == base
    assert OpenAISettings(base_url=given).base_url == base


@pytest.mark.parametrize(
    ("model", "supported"),
    [("gpt-4o", True), ("o3-mini", True), ("text-embedding-3-small", True), ("ft:gpt-4o:x", True), ("claude-x", False)],
)
def test_openai_knows_its_models_by_their_names(model: str, supported: bool) -> None:
    assert OpenAIProvider("openai", OpenAISettings()).supports_model(model) is supported


def test_another_server_may_have_any_model() -> None:
    assert OpenAIProvider("openai", OpenAISettings(base_url="http://proxy")).supports_model("claude-x")
    assert GenericOpenAIProvider("x", GenericOpenAISettings(base_url="http://x")).supports_model("anything")
