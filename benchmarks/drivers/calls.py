"""Model calls at once. usage: calls.py floor|sdk|treadle URL COUNT AT_ONCE

floor    HTTP by hand on trio's sockets: a stack of open connections, the reply found by its content-length
sdk      the OpenAI SDK as its manual has it, on asyncio
treadle  a workflow of COUNT steps `llm_call`, by the provider `openai`
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

MODEL = "gpt-4o-mini"
LENGTH = re.compile(rb"content-length: (\d+)")


def floor(url: str, count: int, at_once: int) -> float:
    import trio

    parts = urlsplit(url)
    host, port = str(parts.hostname), int(parts.port or 80)
    head = f"POST {parts.path}/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: "
    open_streams: list[trio.SocketStream] = []
    texts: list[str] = []

    async def call(limit: trio.CapacityLimiter) -> None:
        async with limit:
            body = json.dumps({"model": MODEL, "messages": [{"role": "user", "content": "hi"}]})
            stream = open_streams.pop() if open_streams else await trio.open_tcp_stream(host, port)
            await stream.send_all(f"{head}{len(body)}\r\n\r\n{body}".encode())
            reply = b""
            while (end := reply.find(b"\r\n\r\n")) < 0:
                reply += await stream.receive_some(65536)
            length = end + 4 + int(LENGTH.search(reply)[1])  # type: ignore[index]
            while len(reply) < length:
                reply += await stream.receive_some(65536)
            open_streams.append(stream)
            texts.append(json.loads(reply[end + 4 : length])["choices"][0]["message"]["content"])

    async def main() -> float:
        limit = trio.CapacityLimiter(at_once)
        start = time.perf_counter()
        async with trio.open_nursery() as nursery:
            for _ in range(count):
                nursery.start_soon(call, limit)
        return time.perf_counter() - start

    seconds: float = trio.run(main)
    assert texts == ["done"] * count
    return seconds


def sdk(url: str, count: int, at_once: int) -> float:
    import asyncio

    from openai import AsyncOpenAI

    async def main() -> float:
        client = AsyncOpenAI(api_key="k", base_url=url, max_retries=0, timeout=60)
        limit = asyncio.Semaphore(at_once)

        async def call() -> Any:
            async with limit:
                reply = await client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": "hi"}])
                return reply.choices[0].message.content

        start = time.perf_counter()
        texts = await asyncio.gather(*(call() for _ in range(count)))
        seconds = time.perf_counter() - start
        assert texts == ["done"] * count
        return seconds

    return asyncio.run(main())


def treadle(url: str, count: int, at_once: int) -> float:
    import trio

    import treadle

    os.environ |= {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": url, "OPENAI_API": "completions"}

    def workflow(steps: int) -> treadle.Workflow:
        config = f"{{provider: openai, model: {MODEL}, max_concurrent_steps: {at_once}}}"
        lines = ["name: calls", f"config: {config}", "steps:"]
        lines += [f"  - {{id: s{i}, type: llm_call, prompt: hi, output: v{i}}}" for i in range(steps)]
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "calls.yaml")
            path.write_text("\n".join(lines) + "\n", encoding="utf-8")
            return treadle.load_workflow(path)

    async def main() -> float:
        warm_up, work = workflow(3), workflow(count)
        async with treadle.open() as session:
            await session.run(warm_up)
            start = time.perf_counter()
            result = await session.run(work)
            seconds = time.perf_counter() - start
        assert result.status == "success", result.error
        assert result.final_state == {f"v{i}": "done" for i in range(count)}
        return seconds

    seconds: float = trio.run(main)
    return seconds


if __name__ == "__main__":
    who, address, number, most = sys.argv[1:]
    run = {"floor": floor, "sdk": sdk, "treadle": treadle}[who]
    print(json.dumps({"seconds": run(address, int(number), int(most)), "n": int(number)}))
