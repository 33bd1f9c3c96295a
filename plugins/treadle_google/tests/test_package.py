"""What a deployment may set, what the plugin relies on in the SDK, and how light it stays without it."""

from __future__ import annotations

import inspect
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any, get_type_hints

import httpx2
import pytest
from google.genai import errors
from pydantic import ValidationError

from treadle.contracts.provider import FromEnv
from treadle.contracts.secrets import SecretRef
from treadle.errors import PluginError, ProviderError
from treadle.messages import ModelRequest
from treadle_google import plugin, provider, sdk
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


@pytest.mark.parametrize("wrong", [{"api_key": "AIza-as-itself"}, {"timeout": 0}, {"unheard": 1}, {"base_url": "x"}])
def test_other_mistakes_are_refused_and_a_key_given_as_itself_is_not_repeated(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError) as caught:
        GoogleSettings(**wrong)
    assert "AIza-as-itself" not in str(caught.value)


def test_the_defaults_and_the_environment() -> None:
    hints = get_type_hints(GoogleSettings, include_extras=True)
    marks = {
        name: mark.variable
        for name, hint in hints.items()
        for mark in getattr(hint, "__metadata__", ())
        if isinstance(mark, FromEnv)
    }
    assert marks == {"base_url": "GOOGLE_BASE_URL"}
    assert GoogleSettings().api_key == SecretRef("env:GOOGLE_API_KEY")


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


def test_the_offers_are_those_of_the_package() -> None:
    pyproject = Path(__file__).parents[1] / "pyproject.toml"
    declared = tomllib.loads(pyproject.read_text(encoding="utf-8"))["tool"]["treadle"]["offers"]["provider"]
    offers = plugin.treadle_providers()
    assert list(offers) == declared
    assert offers["google"].load() is provider.GoogleProvider
    assert offers["google"].default_model == "gemini-2.5-flash"


@pytest.mark.parametrize(
    ("statement", "absent"),
    [
        ("import treadle_google.plugin", ("google.genai", "httpx2", "pydantic", "trio", "treadle_google.provider")),
        ("import treadle_google.provider", ("google.genai", "httpx2", "trio")),
        (
            (
                "from treadle_google.provider import GoogleProvider, GoogleSettings\n"
                "from treadle.messages import ModelRequest\n"
                "list(GoogleProvider('google', GoogleSettings()).check(ModelRequest(model='m', messages=())))"
            ),
            ("google.genai", "httpx2", "trio"),
        ),
    ],
    ids=["plugin", "provider", "checked"],
)
def test_nothing_heavy_is_imported_before_it_is_used(statement: str, absent: tuple[str, ...]) -> None:
    code = f"{statement}\nimport sys\nprint(*(name for name in {absent!r} if name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


async def test_an_sdk_that_cannot_be_imported_is_told_with_its_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_API_KEY", "AIza-test-0123456789")
    monkeypatch.setitem(sys.modules, "treadle_google.sdk", None)
    async with GoogleProvider("google", GoogleSettings()) as opened:
        with pytest.raises(PluginError) as caught:
            async with opened.exchange(ModelRequest(model="m", messages=())):
                raise AssertionError("it has no SDK")
    assert str(caught.value).startswith("provider 'google' cannot load the Google SDK: ")
    assert str(caught.value).endswith("; pip install --upgrade treadle-google")
