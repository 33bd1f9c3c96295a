"""The floor of the chain: the least that a runner on trio can do for steps that wait for each other.

usage: chain_floor.py N. Each step is a task of one nursery, started when the step before it has written its value.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence

import trio

Work = Callable[[Sequence[int]], Awaitable[int]]


async def run(waits_for: Mapping[str, Sequence[str]], work: Work) -> dict[str, int]:
    """Run every step once its dependencies are done; give what each made."""
    made: dict[str, int] = {}
    missing = {step: len(earlier) for step, earlier in waits_for.items()}
    later: dict[str, list[str]] = {step: [] for step in waits_for}
    for step, earlier in waits_for.items():
        for one in earlier:
            later[one].append(step)

    async def task(step: str, nursery: trio.Nursery) -> None:
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


async def main(count: int) -> None:
    chain = {f"s{i}": [f"s{i - 1}"] if i else [] for i in range(count)}
    await run(chain, noop)  # warm-up
    start = time.perf_counter()
    made = await run(chain, noop)
    seconds = time.perf_counter() - start
    assert len(made) == count
    print(json.dumps({"seconds": seconds, "n": count}))


trio.run(main, int(sys.argv[1]))
