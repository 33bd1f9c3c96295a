"""What a deployment may set, what the package offers, and how light it stays."""

from __future__ import annotations

import pytest

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


def test_the_defaults() -> None:
    settings = OllamaSettings()
    assert settings.base_url == "http://localhost:11434"
    assert (settings.keep_alive, settings.default_model) == (None, None)


def test_any_name_of_a_model_may_be_had_and_costs_nothing() -> None:
    built = OllamaProvider("ollama", OllamaSettings())
    for model in ("llama3.2:1b", "hf.co/bartowski/Llama-3.2-1B-Instruct-GGUF:Q4_K_M", "me/mine"):
        assert built.supports_model(model)
        assert built.known_cost(model) == 0.0
