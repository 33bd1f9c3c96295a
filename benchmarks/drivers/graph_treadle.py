"""A graph in Treadle: what the engine costs for each step, with the document loaded and a session open.

`foreach` is one step over N items, each a step that does nothing in a child run of its own.

usage: graph_treadle.py chain|fan-out|foreach N. Needs the plugin bench_noop (noop_plugin.py), which run.py registers.
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


def foreach(count: int) -> str:
    """A workflow of one step over so many items."""
    items = "  - {id: each, type: foreach, items: state.items, step: {type: bench_noop}, output: made}"
    return f"name: graph\nstate: {{items: {list(range(count))}}}\nsteps:\n{items}\n"


def document(graph: Graph) -> str:
    """A workflow of steps that each write a value of their own."""
    lines = ["name: graph", "steps:"]
    for number, (step, earlier) in enumerate(graph.items()):
        after = f", depends_on: [{', '.join(earlier)}]" if earlier else ""
        lines.append(f"  - {{id: {step}, type: bench_noop, output: v{number}{after}}}")
    return "\n".join(lines) + "\n"


def load(text: str) -> tuple[treadle.Workflow, float]:
    """The workflow, and the seconds it took to load."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "graph.yaml")
        path.write_text(text, encoding="utf-8")
        start = time.perf_counter()
        workflow = treadle.load_workflow(path)
        return workflow, time.perf_counter() - start


async def main(shape: str, count: int) -> None:
    is_foreach = shape == "foreach"
    workflow, load_seconds = load(foreach(count) if is_foreach else document(SHAPES[shape](count)))
    assert workflow.config.max_concurrent_steps == LIMIT
    async with treadle.open() as session:
        await session.run(workflow)  # warm-up
        start = time.perf_counter()
        result = await session.run(workflow)
        seconds = time.perf_counter() - start
    assert result.status == "success", result.error
    made = {"items": list(range(count)), "made": [1] * count} if is_foreach else {f"v{i}": 1 for i in range(count)}
    assert result.final_state == made
    print(json.dumps({"seconds": seconds, "n": count, "load_seconds": load_seconds}))


trio.run(main, sys.argv[1], int(sys.argv[2]))
