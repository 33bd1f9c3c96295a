"""The wire server lives with the end-to-end tests, which use it too."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

_SHARED = str(Path(__file__).resolve().parents[3] / "tests")
if _SHARED not in sys.path:
    sys.path.append(_SHARED)

from wire.openai_server import OpenAIServer  # noqa: E402 - found through the path above


@pytest.fixture
async def server() -> AsyncIterator[OpenAIServer]:
    """A server that speaks Chat Completions."""
    async with OpenAIServer.open() as opened:
        yield opened


@pytest.fixture(autouse=True)
def _no_settings_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing that the machine's owner set reaches the tests."""
    for name in (
        "ALL_PROXY", "HTTPS_PROXY", "HTTP_PROXY", "all_proxy", "https_proxy", "http_proxy",
        "OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_ADMIN_KEY", "OPENAI_API",
        "OPENAI_CUSTOM_HEADERS", "GENERIC_OPENAI_API_KEY", "GENERIC_OPENAI_BASE_URL",
    ):  # fmt: skip
        monkeypatch.delenv(name, raising=False)
