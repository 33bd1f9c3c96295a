"""What a deployment may set, and what is refused."""

from __future__ import annotations

from typing import Any, get_type_hints

import pytest
from pydantic import ValidationError

from treadle.contracts.provider import FromEnv
from treadle.contracts.secrets import SecretRef
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


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"base_url": "localhost:8000"}, "a base URL begins with http:// or https:// and a host"),
        ({"headers": {"X-A": "one\ntwo"}}, "the value of header 'X-A' holds characters that a header cannot carry"),
        ({"headers": {"X A": "x"}}, "'X A' is not the name of an HTTP header"),
        ({"betas": ["a,b"]}, "'a,b' is not the name of a beta; one is like files-api-2025-04-14"),
        ({"timeout": 0}, "greater than 0"),
        ({"unheard": 1}, "Extra inputs are not permitted"),
        ({"api_key": "sk-ant-as-itself"}, "a secret is given by reference"),
    ],
)
def test_mistakes_are_refused_and_a_key_given_as_itself_is_not_repeated(wrong: dict[str, Any], says: str) -> None:
    with pytest.raises(ValidationError) as caught:
        AnthropicSettings(**wrong)
    assert says in str(caught.value)
    assert "sk-ant-as-itself" not in str(caught.value)


def test_environment_variables_are_declared_for_the_kernel_to_read() -> None:
    hints = get_type_hints(AnthropicSettings, include_extras=True)
    marks = {
        name: mark.variable
        for name, hint in hints.items()
        for mark in getattr(hint, "__metadata__", ())
        if isinstance(mark, FromEnv)
    }
    assert marks == {"base_url": "ANTHROPIC_BASE_URL"}
    assert AnthropicSettings().api_key == SecretRef("env:ANTHROPIC_API_KEY")


@pytest.mark.parametrize(
    ("model", "supported"), [("claude-sonnet-4-5", True), ("Claude-X", True), ("gpt-4o", False), ("gemini-2", False)]
)
def test_claude_is_known_by_its_name(model: str, supported: bool) -> None:
    assert AnthropicProvider("anthropic", AnthropicSettings()).supports_model(model) is supported
    official = AnthropicSettings(base_url="https://api.anthropic.com/v1")
    assert AnthropicProvider("anthropic", official).supports_model(model) is supported


def test_another_server_may_have_any_model() -> None:
    assert AnthropicProvider("anthropic", AnthropicSettings(base_url="http://proxy")).supports_model("MiniMax-M2")
