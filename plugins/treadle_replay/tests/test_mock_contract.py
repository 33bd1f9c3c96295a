"""The provider ``mock`` is held to the contract of providers."""

from __future__ import annotations

from treadle import EmbedRequest, ModelRequest, Usage, UserMessage
from treadle.testing import check_plugin, check_provider
from treadle_replay.provider import MockProvider
from treadle_replay.settings import MockSettings


async def test_the_plugin() -> None:
    await check_plugin("treadle_replay.plugin")


async def test_replies_without_usage_cost_nothing() -> None:
    await check_provider(
        lambda: MockProvider("mock", MockSettings(default_response="Hi, 世界.")),
        expect="Hi, 世界.",
        usage=Usage.ZERO,
        embed=EmbedRequest(model="m", inputs=("a", "b", "c")),
    )


async def test_a_scripted_reply() -> None:
    reply = {"content": "Hello there", "usage": {"prompt_tokens": 4, "completion_tokens": 2}}
    request = ModelRequest(model="m", messages=(UserMessage.of("Hi"),), key="greet")
    await check_provider(
        lambda: MockProvider("mine", MockSettings(responses={"greet": reply})), request, expect="Hello there"
    )
