"""The plugin is held to what it declares; its provider is held to its contract in tests/providers."""

from __future__ import annotations

from treadle.testing import check_plugin


async def test_the_plugin() -> None:
    await check_plugin("treadle_ollama.plugin", offers={"provider": ["ollama"]})
