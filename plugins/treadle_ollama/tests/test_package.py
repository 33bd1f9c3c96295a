"""What a deployment may set, what the package offers, and how light it stays."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any, get_type_hints

import pytest
from pydantic import ValidationError

from treadle.contracts.provider import FromEnv
from treadle.contracts.secrets import SecretRef
from treadle_ollama import plugin, provider
from treadle_ollama.provider import OllamaProvider
from treadle_ollama.settings import OllamaSettings


@pytest.mark.parametrize(
    ("given", "base"),
    [
        ("http://localhost:11434", "http://localhost:11434"),
        ("http://localhost:11434/", "http://localhost:11434"),
        ("http://localhost:11434/api", "http://localhost:11434"),
        ("http://localhost:11434/v1/", "http://localhost:11434"),
        (" https://ollama.example.com/behind ", "https://ollama.example.com/behind"),
    ],
)
def test_the_address_is_that_of_the_server(given: str, base: str) -> None:
    assert OllamaSettings(base_url=given).base_url == base


@pytest.mark.parametrize("given", ["localhost:11434", "ftp://example.com", "https://", ""])
def test_what_is_no_http_address_is_refused(given: str) -> None:
    with pytest.raises(ValidationError, match="a base URL begins with http:// or https:// and a host"):
        OllamaSettings(base_url=given)


@pytest.mark.parametrize(
    "wrong", [{"api_key": "key-as-itself"}, {"timeout": 0}, {"unheard": 1}, {"headers": {"X A": "x"}}]
)
def test_other_mistakes_are_refused_and_a_key_given_as_itself_is_not_repeated(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError) as caught:
        OllamaSettings(**wrong)
    assert "key-as-itself" not in str(caught.value)


def test_the_defaults_and_the_environment() -> None:
    hints = get_type_hints(OllamaSettings, include_extras=True)
    marks = {
        name: mark.variable
        for name, hint in hints.items()
        for mark in getattr(hint, "__metadata__", ())
        if isinstance(mark, FromEnv)
    }
    assert marks == {"base_url": "OLLAMA_BASE_URL"}
    settings = OllamaSettings()
    assert (settings.base_url, settings.api_key) == ("http://localhost:11434", SecretRef("env:OLLAMA_API_KEY"))
    assert (settings.keep_alive, settings.default_model) == (None, None)


def test_any_name_of_a_model_may_be_had_and_costs_nothing() -> None:
    built = OllamaProvider("ollama", OllamaSettings())
    for model in ("llama3.2:1b", "hf.co/bartowski/Llama-3.2-1B-Instruct-GGUF:Q4_K_M", "me/mine"):
        assert built.supports_model(model)
        assert built.known_cost(model) == 0.0


def test_the_offers_are_those_of_the_package() -> None:
    pyproject = Path(__file__).parents[1] / "pyproject.toml"
    declared = tomllib.loads(pyproject.read_text(encoding="utf-8"))["tool"]["treadle"]["offers"]["provider"]
    offers = plugin.treadle_providers()
    assert list(offers) == declared
    assert offers["ollama"].load() is provider.OllamaProvider


@pytest.mark.parametrize(
    ("statement", "absent"),
    [
        ("import treadle_ollama.plugin", ("httpx2", "pydantic", "trio", "treadle_ollama.provider")),
        ("import treadle_ollama.provider", ("httpx2", "trio")),
        (
            (
                "from treadle_ollama.provider import OllamaProvider, OllamaSettings; "
                "from treadle.messages import ModelRequest; "
                "list(OllamaProvider('ollama', OllamaSettings()).check(ModelRequest(model='m', messages=())))"
            ),
            ("httpx2", "trio"),
        ),
    ],
    ids=["plugin", "provider", "checked"],
)
def test_nothing_heavy_is_imported_before_it_is_used(statement: str, absent: tuple[str, ...]) -> None:
    code = f"{statement}\nimport sys\nprint(*(name for name in {absent!r} if name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
