"""What a deployment may set, what the plugin relies on in the SDK, and how light it stays without it."""

from __future__ import annotations

import inspect

import httpx2
import pytest
from google.genai import errors

from treadle.errors import ProviderError
from treadle_google import sdk
from treadle_google.provider import GoogleProvider
from treadle_google.settings import GoogleSettings, split_version


def test_every_exception_of_the_sdk_is_mapped() -> None:
    named = [value for value in vars(errors).values() if inspect.isclass(value) and issubclass(value, Exception)]
    found = {kind for kind in named if not issubclass(kind, Warning)}
    assert len(found) > 7
    assert found == set(sdk.HANDLING)


@pytest.mark.parametrize("kind", list(sdk.HANDLING))
def test_every_exception_of_the_sdk_becomes_one_of_ours(kind: type[Exception]) -> None:
    client = sdk.GeminiClient(
        httpx2.AsyncClient(), provider="google", base_url="http://x", api_version="v1", key="k" * 9, headers={}
    )
    error = kind(429, {"error": {"message": "no"}}) if issubclass(kind, errors.APIError) else kind("no " + "k" * 9)
    with pytest.raises(ProviderError) as caught, client._translated(sdk._Handover()):
        raise error
    assert "k" * 9 not in str(caught.value)


@pytest.mark.parametrize(
    ("given", "base", "version"),
    [
        ("https://generativelanguage.googleapis.com", "https://generativelanguage.googleapis.com", "v1beta"),
        ("https://generativelanguage.googleapis.com/v1beta/", "https://generativelanguage.googleapis.com", "v1beta"),
        ("https://gateway.example.com/google/v1alpha", "https://gateway.example.com/google", "v1alpha"),
        ("https://gateway.example.com/v2x", "https://gateway.example.com/v2x", "v1beta"),
    ],
)
def test_the_base_url_may_name_a_version(given: str, base: str, version: str) -> None:
    assert split_version(GoogleSettings(base_url=given).base_url) == (base, version)


@pytest.mark.parametrize(
    ("model", "supported"),
    [
        ("gemini-2.5-flash", True), ("models/gemini-3-pro", True), ("gemma-3-27b-it", True),
        ("gemini-embedding-001", True), ("text-embedding-004", True), ("tunedModels/mine", True), ("gpt-4o", False),
    ],
)  # fmt: skip
def test_google_knows_its_models_by_their_names(model: str, supported: bool) -> None:
    assert GoogleProvider("google", GoogleSettings()).supports_model(model) is supported
    assert GoogleProvider("google", GoogleSettings(base_url="http://gateway")).supports_model(model)
