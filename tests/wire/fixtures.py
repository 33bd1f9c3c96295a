"""What every provider's tests begin with: nothing of the machine's, and a server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from wire.http_server import WireServer

__all__ = ["KEY", "clear_environment", "no_settings_of_the_machine", "server_of"]

KEY = "sk-test-0123456789abcdef"

VARIABLES = (
    "ALL_PROXY", "HTTPS_PROXY", "HTTP_PROXY", "all_proxy", "https_proxy", "http_proxy", "TREADLE_CONFIG",
    "OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_ADMIN_KEY", "OPENAI_API",
    "OPENAI_CUSTOM_HEADERS", "GENERIC_OPENAI_API_KEY", "GENERIC_OPENAI_BASE_URL",
    "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL", "ANTHROPIC_CUSTOM_HEADERS", "ANTHROPIC_PROFILE",
    "GOOGLE_API_KEY", "GOOGLE_BASE_URL", "GEMINI_API_KEY", "GOOGLE_GEMINI_BASE_URL", "GOOGLE_GENAI_API_VERSION",
    "GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_GENAI_USE_ENTERPRISE", "GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_LOCATION",
    "OLLAMA_BASE_URL", "OLLAMA_API_KEY", "OLLAMA_HOST",
)  # fmt: skip


def clear_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing that the machine's owner set reaches a test; ``env:TEST_KEY`` is a key."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TEST_KEY", KEY)


@pytest.fixture(autouse=True)
def no_settings_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of every test where a ``conftest.py`` imports this."""
    clear_environment(monkeypatch)


def server_of(kind: type[WireServer]) -> Callable[..., Any]:
    """The fixture ``server``: one of this kind for each test."""

    @pytest.fixture
    async def server() -> AsyncIterator[WireServer]:
        async with kind.open() as opened:
            yield opened

    return server
