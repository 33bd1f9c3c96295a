"""A loop of tool calls. usage: tool_loop.py floor|sdk|treadle|thread|agent openai|ollama URL COUNT

Every reply but the last asks for one tool; so COUNT iterations are COUNT + 1 model calls, each with all of the history.

floor    httpx2 on trio, the loop written by hand: no schema is checked, nothing is counted
sdk      the OpenAI SDK as its manual has it, on asyncio (openai only)
treadle  a workflow of one step `llm_call` with a tool, by the provider; the tool is `async`, as the others' tools are
thread   the same with a plain function as its tool, which runs in a thread
agent    treadle_agent.Agent with the `async` tool
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

MODEL = "gpt-4o-mini"
clock = time.perf_counter
PARAMETERS = {"type": "object", "properties": {"i": {"type": "integer"}}, "required": ["i"]}
TOOLS = [{"type": "function", "function": {"name": "step", "description": "Go on", "parameters": PARAMETERS}}]
FIRST = {"role": "user", "content": "hi"}


def step(i: int) -> str:
    """What the tool does."""
    return f"done {i}"


def floor(kind: str, url: str, count: int) -> float:
    import httpx2
    import trio

    path = "/v1/chat/completions" if kind == "openai" else "/api/chat"

    async def loop(http: Any, base: str, count: int) -> None:
        messages: list[dict[str, Any]] = [FIRST]
        done = 0
        while True:
            body = {"model": MODEL, "messages": messages, "tools": TOOLS, "stream": False}
            reply = (await http.post(base + path, json=body)).json()
            said = reply["choices"][0]["message"] if kind == "openai" else reply["message"]
            calls = said.get("tool_calls")
            if not calls:
                assert (said["content"], done) == ("done", count)
                return
            messages.append(said)
            for call in calls:
                given = call["function"]["arguments"]
                result = step(**(json.loads(given) if kind == "openai" else given))
                named = {"tool_call_id": call["id"]} if kind == "openai" else {"tool_name": "step"}
                messages.append({"role": "tool", **named, "content": result})
                done += 1

    async def main() -> float:
        async with httpx2.AsyncClient(timeout=60, trust_env=False) as http:
            seconds = 0.0
            for _ in range(2):  # the first one warms up
                start = clock()
                await loop(http, f"{url}/tools-{count}", count)
                seconds = clock() - start
        return seconds

    seconds: float = trio.run(main)
    return seconds


def sdk(kind: str, url: str, count: int) -> float:
    import asyncio

    from openai import AsyncOpenAI

    assert kind == "openai"

    async def loop(client: Any) -> None:
        messages: list[Any] = [FIRST]
        done = 0
        while True:
            reply = await client.chat.completions.create(model=MODEL, messages=messages, tools=TOOLS)
            said = reply.choices[0].message
            if not said.tool_calls:
                assert (said.content, done) == ("done", count)
                return
            messages.append(said)
            for call in said.tool_calls:
                result = step(**json.loads(call.function.arguments))
                messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
                done += 1

    async def main() -> float:
        seconds = 0.0
        async with AsyncOpenAI(api_key="k", base_url=f"{url}/tools-{count}/v1", max_retries=0, timeout=60) as client:
            for _ in range(2):
                start = clock()
                await loop(client)
                seconds = clock() - start
        return seconds

    return asyncio.run(main())


def own_tool(*, plain: bool) -> tuple[Any, list[int]]:
    """The tool, and the numbers that it has been called with."""
    from treadle import tool

    called: list[int] = []

    def blocking(i: int) -> str:
        called.append(i)
        return f"done {i}"

    async def quick(i: int) -> str:
        return blocking(i)

    return tool(name="step", description="Go on", effect="pure")(blocking if plain else quick), called


def serve_at(url: str, count: int) -> None:
    """Lead the providers to the server."""
    base = f"{url}/tools-{count}"
    os.environ |= {
        "OPENAI_API_KEY": "sk-benchmark-0123456789",
        "OPENAI_BASE_URL": f"{base}/v1",
        "OLLAMA_BASE_URL": base,
    }


def treadle(kind: str, url: str, count: int, *, plain: bool = False) -> float:
    import trio

    import treadle

    step, called = own_tool(plain=plain)

    def workflow() -> treadle.Workflow:
        text = f"""
name: tools
config: {{provider: {kind}, model: {MODEL}}}
steps:
  - id: s
    type: llm_call
    prompt: hi
    tools: [{{name: step, description: Go on}}]
    max_tool_iterations: {count + 1}
    output: v
"""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "tools.yaml")
            path.write_text(text, encoding="utf-8")
            return treadle.load_workflow(path)

    serve_at(url, count)
    work = workflow()

    async def main() -> float:
        seconds = 0.0
        async with treadle.open(tools=[step]) as session:
            for _ in range(2):  # the first one warms up
                called.clear()
                start = clock()
                result = await session.run(work)
                seconds = clock() - start
                assert result.status == "success", result.error
                assert (result.final_state, len(called)) == ({"v": "done"}, count)
        return seconds

    seconds: float = trio.run(main)
    return seconds


def thread(kind: str, url: str, count: int) -> float:
    return treadle(kind, url, count, plain=True)


def agent(kind: str, url: str, count: int) -> float:
    import trio

    import treadle
    from treadle_agent import Agent

    step, called = own_tool(plain=False)
    definition = {"name": "bench", "model": MODEL, "tools": ["step"], "loop_policy": {"max_iterations": count + 1}}
    serve_at(url, count)

    async def main() -> float:
        seconds = 0.0
        async with treadle.open() as session:
            one = Agent(definition, gateway=session, tool_registry=[step], provider=kind)
            for _ in range(2):  # the first one warms up
                called.clear()
                start = clock()
                result = await one.invoke("hi")
                seconds = clock() - start
                assert (result.reply, len(called)) == ("done", count)
        return seconds

    seconds: float = trio.run(main)
    return seconds


if __name__ == "__main__":
    who, api, address, number = sys.argv[1:]
    run = {"floor": floor, "sdk": sdk, "treadle": treadle, "thread": thread, "agent": agent}[who]
    print(json.dumps({"seconds": run(api, address, int(number)), "n": int(number)}))
