"""The chain in Treadle: what the engine costs for each step, with the document loaded and a session open.

usage: chain_treadle.py N. Needs the plugin bench_noop (noop_plugin.py), which run.py registers.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path

import trio

import treadle


def document(count: int) -> str:
    """A workflow of steps that each wait for the one before and write a value of their own."""
    lines = ["name: chain", "steps:"]
    for i in range(count):
        after = f", depends_on: [s{i - 1}]" if i else ""
        lines.append(f"  - {{id: s{i}, type: bench_noop, output: v{i}{after}}}")
    return "\n".join(lines) + "\n"


def load(count: int) -> tuple[treadle.Workflow, float]:
    """The workflow, and the seconds it took to load."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "chain.yaml")
        path.write_text(document(count), encoding="utf-8")
        start = time.perf_counter()
        workflow = treadle.load_workflow(path)
        return workflow, time.perf_counter() - start


async def main(count: int) -> None:
    workflow, load_seconds = load(count)
    async with treadle.open() as session:
        await session.run(workflow)  # warm-up
        start = time.perf_counter()
        result = await session.run(workflow)
        seconds = time.perf_counter() - start
    assert result.status == "success", result.error
    assert result.final_state == {f"v{i}": 1 for i in range(count)}
    print(json.dumps({"seconds": seconds, "n": count, "load_seconds": load_seconds}))


trio.run(main, int(sys.argv[1]))
