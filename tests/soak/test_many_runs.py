"""Ten thousand runs in one process: nothing grows but the journal's file."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

import treadle
from soak.growth import Growth, needs_proc
from treadle_journal_sqlite import SqliteJournal

pytestmark = [pytest.mark.soak, needs_proc]

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
            before = Growth()
            await some(RUNS - WARM)
            before.check()

    trio.run(main)
