"""What a deployment may set, and what is refused."""

from __future__ import annotations

from typing import Any, get_type_hints

import pytest
from pydantic import ValidationError

from treadle.contracts.provider import FromEnv
from treadle.contracts.secrets import SecretRef
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


@pytest.mark.parametrize("given", ["localhost:8000", "ftp://example.com", "https://", "", "example.com/v1"])
def test_what_is_no_http_address_is_refused(given: str) -> None:
    with pytest.raises(ValidationError, match="a base URL begins with http:// or https:// and a host"):
        GenericOpenAISettings(base_url=given)


@pytest.mark.parametrize(
    ("headers", "says"),
    [
        ({"X-A": "one\ntwo"}, "the value of header 'X-A' holds characters that a header cannot carry"),
        ({"X A": "x"}, "'X A' is not the name of an HTTP header"),
        ({"X-A": "é"}, "the value of header 'X-A' holds characters that a header cannot carry"),
    ],
)
def test_headers_that_cannot_be_sent_are_refused(headers: dict[str, str], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        OpenAISettings(headers=headers)


@pytest.mark.parametrize("wrong", [{"api_key": "sk-as-itself"}, {"timeout": 0}, {"unheard": 1}, {"timeout": "soon"}])
def test_other_mistakes_are_refused_and_a_key_given_as_itself_is_not_repeated(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError) as caught:
        OpenAISettings(**wrong)
    if "api_key" in wrong:
        messages = [each["msg"] for each in caught.value.errors()]
        assert any("a secret is given by reference" in each for each in messages)
        assert "sk-as-itself" not in str(caught.value)


def test_environment_variables_are_declared_for_the_kernel_to_read() -> None:
    def variables(settings: type) -> dict[str, str]:
        hints = get_type_hints(settings, include_extras=True)
        return {
            name: mark.variable
            for name, hint in hints.items()
            for mark in getattr(hint, "__metadata__", ())
            if isinstance(mark, FromEnv)
        }

    assert variables(OpenAISettings) == {
        "base_url": "OPENAI_BASE_URL",
        "organization": "OPENAI_ORG_ID",
        "project": "OPENAI_PROJECT_ID",
        "api": "OPENAI_API",
    }
    assert variables(GenericOpenAISettings) == {"base_url": "GENERIC_OPENAI_BASE_URL"}
    assert OpenAISettings().api_key == SecretRef("env:OPENAI_API_KEY")


@pytest.mark.parametrize(
    ("model", "supported"),
    [("gpt-4o", True), ("o3-mini", True), ("text-embedding-3-small", True), ("ft:gpt-4o:x", True), ("claude-x", False)],
)
def test_openai_knows_its_models_by_their_names(model: str, supported: bool) -> None:
    assert OpenAIProvider("openai", OpenAISettings()).supports_model(model) is supported


def test_another_server_may_have_any_model() -> None:
    assert OpenAIProvider("openai", OpenAISettings(base_url="http://proxy")).supports_model("claude-x")
    assert GenericOpenAIProvider("x", GenericOpenAISettings(base_url="http://x")).supports_model("anything")
