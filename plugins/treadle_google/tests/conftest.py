"""The wire server lives with the end-to-end tests, which use it too."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

_SHARED = str(Path(__file__).resolve().parents[3] / "tests")
if _SHARED not in sys.path:
    sys.path.append(_SHARED)

from wire.google_server import GoogleServer  # noqa: E402 - found through the path above


@pytest.fixture
async def server() -> AsyncIterator[GoogleServer]:
    """A server that speaks the Gemini API."""
    async with GoogleServer.open() as opened:
        yield opened


@pytest.fixture(autouse=True)
def _no_settings_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing that the machine's owner set reaches the tests."""
    for name in (
        "ALL_PROXY", "HTTPS_PROXY", "HTTP_PROXY", "all_proxy", "https_proxy", "http_proxy",
        "GOOGLE_API_KEY", "GOOGLE_BASE_URL", "GEMINI_API_KEY", "GOOGLE_GEMINI_BASE_URL", "GOOGLE_GENAI_API_VERSION",
        "GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_GENAI_USE_ENTERPRISE", "GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_LOCATION",
    ):  # fmt: skip
        monkeypatch.delenv(name, raising=False)
