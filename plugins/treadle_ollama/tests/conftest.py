"""The wire server lives with the end-to-end tests, which use it too."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

_SHARED = str(Path(__file__).resolve().parents[3] / "tests")
if _SHARED not in sys.path:
    sys.path.append(_SHARED)

from wire.ollama_server import OllamaServer  # noqa: E402 - found through the path above


@pytest.fixture
async def server() -> AsyncIterator[OllamaServer]:
    """A server that speaks Ollama's API."""
    async with OllamaServer.open() as opened:
        yield opened


@pytest.fixture(autouse=True)
def _no_settings_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing that the machine's owner set reaches the tests."""
    for name in (
        "ALL_PROXY", "HTTPS_PROXY", "HTTP_PROXY", "all_proxy", "https_proxy", "http_proxy",
        "OLLAMA_BASE_URL", "OLLAMA_API_KEY", "OLLAMA_HOST",
    ):  # fmt: skip
        monkeypatch.delenv(name, raising=False)
