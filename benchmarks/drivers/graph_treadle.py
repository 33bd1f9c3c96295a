"""A graph in Treadle: what the engine costs for each step, with the document loaded and a session open.

usage: graph_treadle.py chain|fan-out N. Needs the plugin bench_noop (noop_plugin.py), which run.py registers.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path

import trio
from shapes import LIMIT, SHAPES, Graph

import treadle


def document(graph: Graph) -> str:
    """A workflow of steps that each write a value of their own."""
    lines = ["name: graph", "steps:"]
    for number, (step, earlier) in enumerate(graph.items()):
        after = f", depends_on: [{', '.join(earlier)}]" if earlier else ""
        lines.append(f"  - {{id: {step}, type: bench_noop, output: v{number}{after}}}")
    return "\n".join(lines) + "\n"


def load(graph: Graph) -> tuple[treadle.Workflow, float]:
    """The workflow, and the seconds it took to load."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "graph.yaml")
        path.write_text(document(graph), encoding="utf-8")
        start = time.perf_counter()
        workflow = treadle.load_workflow(path)
        return workflow, time.perf_counter() - start


async def main(shape: str, count: int) -> None:
    workflow, load_seconds = load(SHAPES[shape](count))
    assert workflow.config.max_concurrent_steps == LIMIT
    async with treadle.open() as session:
        await session.run(workflow)  # warm-up
        start = time.perf_counter()
        result = await session.run(workflow)
        seconds = time.perf_counter() - start
    assert result.status == "success", result.error
    assert result.final_state == {f"v{i}": 1 for i in range(count)}
    print(json.dumps({"seconds": seconds, "n": count, "load_seconds": load_seconds}))


trio.run(main, sys.argv[1], int(sys.argv[2]))
