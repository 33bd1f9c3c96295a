"""A batch of runs of one model call each. usage: batch.py floor|treadle COUNT AT_ONCE WAIT_MS

floor    as many sleeps on trio, so many at a time
treadle  `treadle batch` in this process, provider mock, every run in the journal on disk
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from pathlib import Path

import trio

FLOW = """\
name: one
config: {provider: mock, latency_ms: %d}
state: {topic: none}
steps:
  - {id: ask, type: llm_call, prompt: "Write on {state.topic}", output: text}
"""


def floor(count: int, at_once: int, wait_ms: int) -> float:
    async def main() -> None:
        limit = trio.CapacityLimiter(at_once)

        async def one() -> None:
            async with limit:
                await trio.sleep(wait_ms / 1000)

        async with trio.open_nursery() as nursery:
            for _ in range(count):
                nursery.start_soon(one)

    started = time.perf_counter()
    trio.run(main)
    return time.perf_counter() - started


def treadle(count: int, at_once: int, wait_ms: int) -> float:
    from treadle_cli.main import treadle_command

    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        Path("flow.yaml").write_text(FLOW % wait_ms, encoding="utf-8")
        for name, lines in (("warm", 20), ("real", count)):
            items = (json.dumps({"topic": f"topic {number}"}) for number in range(lines))
            Path(f"{name}.jsonl").write_text("\n".join(items), encoding="utf-8")

        def run(name: str) -> float:
            options = [
                "--inputs",
                f"{name}.jsonl",
                "--output",
                f"{name}-out.jsonl",
                "--concurrency",
                str(at_once),
                "-q",
            ]
            started = time.perf_counter()
            treadle_command.main(["batch", "flow.yaml", *options], standalone_mode=False)
            return time.perf_counter() - started

        run("warm")
        seconds = run("real")
        results = Path("real-out.jsonl").read_text(encoding="utf-8").splitlines()
        assert len(results) == count
        assert all(json.loads(line)["status"] == "success" for line in results)
        os.chdir("/")
    return seconds


def main() -> None:
    who, count, at_once, wait_ms = sys.argv[1], *map(int, sys.argv[2:])
    seconds = (floor if who == "floor" else treadle)(count, at_once, wait_ms)
    print(json.dumps({"seconds": seconds, "n": count}))


if __name__ == "__main__":
    main()
