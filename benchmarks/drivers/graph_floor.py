"""The floor of a graph: the least that a runner on trio can do for steps that wait for each other.

usage: graph_floor.py chain|fan-out N. Each step is a task of one nursery, started when the last that it waits for has
written its value. A fan-out is held to the same limit as Treadle's: a task is at work only within a capacity limiter.
A chain needs none, and has none.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Awaitable, Callable, Sequence

import trio
from shapes import LIMIT, SHAPES, Graph

Work = Callable[[Sequence[int]], Awaitable[int]]


async def run(waits_for: Graph, work: Work, limiter: trio.CapacityLimiter | None) -> dict[str, int]:
    """Run every step once its dependencies are done; give what each made."""
    made: dict[str, int] = {}
    missing = {step: len(earlier) for step, earlier in waits_for.items()}
    later: dict[str, list[str]] = {step: [] for step in waits_for}
    for step, earlier in waits_for.items():
        for one in earlier:
            later[one].append(step)

    async def task(step: str, nursery: trio.Nursery) -> None:
        if limiter is None:
            made[step] = await work([made[one] for one in waits_for[step]])
        else:
            async with limiter:
                made[step] = await work([made[one] for one in waits_for[step]])
        for after in later[step]:
            missing[after] -= 1
            if not missing[after]:
                nursery.start_soon(task, after, nursery)

    async with trio.open_nursery() as nursery:
        for step, count in missing.items():
            if not count:
                nursery.start_soon(task, step, nursery)
    return made


async def noop(_inputs: Sequence[int]) -> int:
    return 1


async def main(shape: str, count: int) -> None:
    graph = SHAPES[shape](count)
    limiter = trio.CapacityLimiter(LIMIT) if shape == "fan-out" else None
    await run(graph, noop, limiter)  # warm-up
    start = time.perf_counter()
    made = await run(graph, noop, limiter)
    seconds = time.perf_counter() - start
    assert len(made) == count
    print(json.dumps({"seconds": seconds, "n": count}))


trio.run(main, sys.argv[1], int(sys.argv[2]))
