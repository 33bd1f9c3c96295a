"""Ten thousand runs in one process: nothing grows but the journal's file."""

from __future__ import annotations

import gc
import os
import threading
from pathlib import Path

import pytest
import trio

import treadle
from treadle_journal_sqlite import SqliteJournal

pytestmark = [
    pytest.mark.soak,
    pytest.mark.skipif(not Path("/proc/self/statm").is_file(), reason="memory is read from /proc"),
]

RUNS = 10_000
WARM = 1_000
FLOW = {
    "name": "soak",
    "config": {"provider": "mock", "budget_usd": 1},
    "state": {"topic": "looms", "items": [1, 2, 3]},
    "steps": [
        {"id": "ask", "type": "llm_call", "prompt": "Write on {topic}", "output": "text"},
        {
            "id": "which",
            "type": "router",
            "depends_on": ["ask"],
            "conditions": [{"expression": "len(state.text) > 3", "target": "each"}],
            "default": "short",
        },
        {
            "id": "each",
            "type": "foreach",
            "depends_on": ["which"],
            "items": "state.items",
            "step": {"type": "llm_call", "prompt": "{item}"},
            "output": "lines",
        },
        {"id": "short", "type": "llm_call", "depends_on": ["which"], "prompt": "short"},
    ],
}


def memory() -> int:
    """Bytes that the process has in memory, after what nobody holds has been let go."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_memory_descriptors_threads_and_objects_do_not_grow(tmp_path: Path) -> None:
    async def main() -> None:
        async with treadle.open(journal=SqliteJournal(tmp_path / "journal.db")) as session:
            workflow = treadle.build_workflow(FLOW, host=session.host)

            async def some(count: int) -> None:
                async def one(share: int) -> None:
                    for _ in range(share):
                        result = await session.run(workflow)
                        assert result.status == "success", result.error
                        assert result.step_results["short"].status == "skipped"

                async with trio.open_nursery() as nursery:
                    for _ in range(10):
                        nursery.start_soon(one, count // 10)

            await some(WARM)
            before, objects, files, threads = memory(), len(gc.get_objects()), descriptors(), threading.active_count()
            await some(RUNS - WARM)
            assert memory() - before < 0.1 * before
            assert len(gc.get_objects()) - objects < 0.02 * objects
            assert (descriptors(), threading.active_count()) == (files, threads)

    trio.run(main)
