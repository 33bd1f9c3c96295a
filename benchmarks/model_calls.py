"""Rows that call a model: many calls at once, loops of tools, a long stream, and how soon its text is passed on.

The model is drivers/model_server.py, a process of its own that serves every row. See README.md beside it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

__all__ = ["FRAMEWORKS", "rows", "server"]

DRIVERS = Path(__file__).resolve().parent / "drivers"
AT_ONCE = 500
WAIT_MS = 100
CALLS = (500, 2000)
ITERATIONS = (50, 400)
CHUNKS = 20_000
STAMPS = 200
FRAMEWORKS = [
    "langgraph==1.2.24",
    "langchain-openai==1.7.4",
    "pydantic-ai-slim[openai]==2.68.0",
    "openai-agents==0.24.0",
]


@contextmanager
def server() -> Iterator[str]:
    """Run the model server, on another core than what is measured where there is one. Gives its URL."""
    process = subprocess.Popen([sys.executable, str(DRIVERS / "model_server.py")], stdout=subprocess.PIPE, text=True)
    try:
        if hasattr(os, "sched_setaffinity") and len(cores := sorted(os.sched_getaffinity(0))) > 1:
            os.sched_setaffinity(process.pid, {cores[0]})
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
    finally:
        process.kill()
        process.communicate()


def rows(row: Callable[..., Any], url: str, frameworks: str | None = None) -> list[Any]:
    """The rows, each made by ``row(workload, label, argv, floor, ...)``.

    :param frameworks: the interpreter of an environment that has :data:`FRAMEWORKS`; their rows are left out without.
    """
    made = []
    for count in CALLS:
        workload = f"{count} calls"
        for who, label, floor in _rows("floor: trio sockets"):
            argv = _argv("calls.py", who, f"{url}/wait-{WAIT_MS}/v1", str(count), str(AT_ONCE))
            made.append(row(workload, label, argv, floor, reports=True, each="call"))
    for api in ("openai", "ollama"):
        for count in ITERATIONS:
            workload, base = f"{count} tool calls, {api}", "floor: httpx2"
            others = [("thread", "treadle, in a thread", base), ("agent", "treadle Agent", base)]
            for who, label, floor in (*_rows(base), *others):
                if (api, who) != ("ollama", "sdk"):
                    argv = _argv("tool_loop.py", who, api, url, str(count))
                    made.append(row(workload, label, argv, floor, reports=True, each="iteration"))
    if frameworks:
        workload = f"{ITERATIONS[0]} tool calls, openai"
        for name in ("langgraph", "pydantic-ai", "openai-agents"):
            argv = (frameworks, *_argv("framework_loop.py", name, url, str(ITERATIONS[0]))[1:])
            made.append(row(workload, name, argv, "floor: httpx2", reports=True, each="iteration"))
    for kind, count, workload, each in (
        ("chunks", CHUNKS, "stream", "chunk"),
        ("stamps", STAMPS, "passing on", "piece"),
    ):
        for who, label, floor in _rows("floor: httpx2"):
            argv = _argv("stream.py", who, f"{url}/{kind}-{count}/v1", kind, str(count))
            made.append(row(workload, label, argv, floor, reports=True, each=each))
    return made


def _rows(floor: str) -> Iterator[tuple[str, str, str | None]]:
    yield "floor", floor, None
    yield "sdk", "openai SDK", floor
    yield "treadle", "treadle", floor


def _argv(driver: str, *arguments: str) -> tuple[str, ...]:
    return (sys.executable, str(DRIVERS / driver), *arguments)
