"""One streamed reply. usage: stream.py floor|sdk|treadle URL chunks|stamps COUNT

floor    httpx2 on trio, its lines read by hand
sdk      the OpenAI SDK as its manual has it, on asyncio
treadle  a workflow of one step `llm_call` with `stream: true`, by the provider `openai`

``chunks``: how long the whole reply takes. ``stamps``: how long, on average, a piece of text takes from the server's
writing it to whoever reads the stream (for treadle: the events of the run).
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

MODEL = "gpt-4o-mini"
BODY = {"model": MODEL, "stream": True, "messages": [{"role": "user", "content": "hi"}]}


class Taken:
    """What a reader has received, and how late."""

    def __init__(self, stamped: bool) -> None:
        self.stamped = stamped
        self.text: list[str] = []
        self.late = 0.0
        self.started = time.perf_counter()

    def take(self, text: str) -> None:
        if self.stamped:
            now = time.monotonic()
            self.late += sum(now - float(stamp) for stamp in text.split())
        self.text.append(text)

    def seconds(self, count: int) -> float:
        total = time.perf_counter() - self.started
        pieces = "".join(self.text).split()
        assert len(pieces) == count, len(pieces)
        return self.late if self.stamped else total


def floor(url: str, count: int, stamped: bool) -> float:
    import httpx2
    import trio

    async def main() -> float:
        seconds = 0.0
        async with httpx2.AsyncClient(timeout=60, trust_env=False) as http:
            for _ in range(2):  # the first one warms up
                taken = Taken(stamped)
                async with http.stream("POST", f"{url}/chat/completions", json=BODY) as reply:
                    async for line in reply.aiter_lines():
                        if line.startswith("data: ") and line != "data: [DONE]":
                            text = json.loads(line[6:])["choices"][0]["delta"].get("content")
                            if text:
                                taken.take(text)
                seconds = taken.seconds(count)
        return seconds

    seconds: float = trio.run(main)
    return seconds


def sdk(url: str, count: int, stamped: bool) -> float:
    import asyncio

    from openai import AsyncOpenAI

    async def main() -> float:
        client = AsyncOpenAI(api_key="k", base_url=url, max_retries=0, timeout=60)
        seconds = 0.0
        for _ in range(2):
            taken = Taken(stamped)
            stream: Any = await client.chat.completions.create(**BODY)  # type: ignore[call-overload]
            async for each in stream:
                if each.choices and each.choices[0].delta.content:
                    taken.take(each.choices[0].delta.content)
            seconds = taken.seconds(count)
        return seconds

    return asyncio.run(main())


def treadle(url: str, count: int, stamped: bool) -> float:
    import trio

    import treadle
    from treadle.contracts.events import TextEmitted

    os.environ |= {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": url, "OPENAI_API": "completions"}
    text = f"""
name: stream
config: {{provider: openai, model: {MODEL}, stream: true}}
steps:
  - {{id: s, type: llm_call, prompt: hi, output: v}}
"""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "stream.yaml")
        path.write_text(text, encoding="utf-8")
        work = treadle.load_workflow(path)

    async def main() -> float:
        seconds = 0.0
        async with treadle.open() as session:
            for _ in range(2):
                taken = Taken(stamped)
                async with session.stream(work) as run:
                    async for event in run:
                        if isinstance(event, TextEmitted):
                            taken.take(event.text)
                assert run.result.status == "success", run.result.error
                seconds = taken.seconds(count)
        return seconds

    seconds: float = trio.run(main)
    return seconds


if __name__ == "__main__":
    who, address, kind, number = sys.argv[1:]
    run: Callable[[str, int, bool], float] = {"floor": floor, "sdk": sdk, "treadle": treadle}[who]
    print(json.dumps({"seconds": run(address, int(number), kind == "stamps"), "n": int(number)}))
