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

__all__ = ["rows", "server"]

DRIVERS = Path(__file__).resolve().parent / "drivers"
AT_ONCE = 500
WAIT_MS = 100
CALLS = (500, 2000)
ITERATIONS = (50, 400)
CHUNKS = 20_000
STAMPS = 200


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


def rows(row: Callable[..., Any], url: str) -> list[Any]:
    """The rows, each made by ``row(workload, label, argv, floor, ...)``."""
    made = []
    for count in CALLS:
        workload = f"{count} calls"
        for who, label, floor in _rows("floor: trio sockets"):
            argv = _argv("calls.py", who, f"{url}/wait-{WAIT_MS}/v1", str(count), str(AT_ONCE))
            made.append(row(workload, label, argv, floor, reports=True, each="call"))
    for api in ("openai", "ollama"):
        for count in ITERATIONS:
            for who, label, floor in _rows("floor: httpx2"):
                if (api, who) != ("ollama", "sdk"):
                    argv = _argv("tool_loop.py", who, api, url, str(count))
                    workload = f"{count} tool calls, {api}"
                    made.append(row(workload, label, argv, floor, reports=True, each="iteration"))
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
