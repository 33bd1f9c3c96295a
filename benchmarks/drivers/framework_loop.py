"""The loop of tool_loop.py in other frameworks, as their manuals have it. usage: framework_loop.py NAME URL COUNT

NAME is langgraph, pydantic-ai or openai-agents; each on asyncio, on the provider for OpenAI, with an `async` tool.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
import warnings
from collections.abc import Awaitable, Callable
from typing import Any

MODEL = "gpt-4o-mini"
called: list[int] = []


async def step(i: int) -> str:
    """Go on"""
    called.append(i)
    return f"done {i}"


def langgraph(base: str, count: int) -> Callable[[], Awaitable[str]]:
    from langchain_core.tools import tool
    from langchain_openai import ChatOpenAI
    from langgraph.prebuilt import create_react_agent

    model: Any = ChatOpenAI(model=MODEL, api_key="k", base_url=base, max_retries=0)
    one = create_react_agent(model, [tool(step)])

    async def turn() -> str:
        done = await one.ainvoke({"messages": [("user", "hi")]}, {"recursion_limit": 2 * count + 10})
        return str(done["messages"][-1].content)

    return turn


def pydantic_ai(base: str, count: int) -> Callable[[], Awaitable[str]]:
    from pydantic_ai import Agent
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider
    from pydantic_ai.usage import UsageLimits

    one = Agent(OpenAIChatModel(MODEL, provider=OpenAIProvider(api_key="k", base_url=base)), tools=[step])

    async def turn() -> str:
        return str((await one.run("hi", usage_limits=UsageLimits(request_limit=None))).output)

    return turn


def openai_agents(base: str, count: int) -> Callable[[], Awaitable[str]]:
    from agents import Agent, OpenAIChatCompletionsModel, Runner, function_tool, set_tracing_disabled
    from openai import AsyncOpenAI

    set_tracing_disabled(True)
    model = OpenAIChatCompletionsModel(MODEL, AsyncOpenAI(api_key="k", base_url=base))
    one = Agent(name="bench", tools=[function_tool(step)], model=model)

    async def turn() -> str:
        return str((await Runner.run(one, "hi", max_turns=count + 5)).final_output)

    return turn


async def main(name: str, url: str, count: int) -> None:
    make = {"langgraph": langgraph, "pydantic-ai": pydantic_ai, "openai-agents": openai_agents}[name]
    turn, seconds = make(f"{url}/tools-{count}/v1", count), 0.0
    for _ in range(2):  # the first one warms up
        called.clear()
        start = time.perf_counter()
        reply = await turn()
        seconds = time.perf_counter() - start
        assert (reply, len(called)) == ("done", count)
    print(json.dumps({"seconds": seconds, "n": count}))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
