"""Batches that are killed at any moment and taken up again, and long ones."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from treadle_journal_sqlite import SqliteJournal

pytestmark = pytest.mark.soak

FLOW = """\
name: ask
config: {provider: openai, model: m, max_retries: 0}
state: {topic: none}
steps:
  - {id: first, type: llm_call, prompt: "first of {state.topic}.", output: first}
  - {id: second, type: llm_call, depends_on: [first], prompt: "second of {state.topic}.", output: second}
"""
MOCK = """\
name: ask
config: {provider: mock}
state: {topic: none}
steps:
  - {id: ask, type: llm_call, prompt: "Write on {state.topic}", output: text}
"""
ITEMS = 3_000
AT_ONCE = 50


class Model:
    """Which prompts were answered, and how often."""

    def __init__(self) -> None:
        self.times: Counter[str] = Counter()
        self.lock = threading.Lock()


@contextmanager
def model_server() -> Iterator[tuple[str, Model]]:
    """A server that speaks Chat Completions; its address, and what it did."""
    model, chance = Model(), random.Random(7)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
            prompt = asked["messages"][-1]["content"]
            time.sleep(chance.uniform(0.005, 0.05))
            reply = {
                "id": "c",
                "object": "chat.completion",
                "created": 1,
                "model": "m",
                "choices": [
                    {"index": 0, "message": {"role": "assistant", "content": f"on {prompt}"}, "finish_reason": "stop"}
                ],
                "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
            }
            body = json.dumps(reply).encode()
            head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
            try:
                self.wfile.write(head.encode() + body)
            except OSError:
                self.close_connection = True  # who asked was killed
            with model.lock:
                model.times[prompt] += 1

        def log_message(self, *args: Any) -> None:
            """Nothing is printed."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 128

        def handle_error(self, request: Any, client_address: Any) -> None:
            """Connections of killed processes end in errors."""

    server = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1", model
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def begin(folder: Path, concurrency: int, **environment: str) -> subprocess.Popen[bytes]:
    files = ["--inputs", "items.jsonl", "--output", "results.jsonl", "--concurrency", str(concurrency)]
    kept = {name: value for name, value in os.environ.items() if "OPENAI" not in name and "TREADLE" not in name}
    return subprocess.Popen(
        [sys.executable, "-m", "treadle_cli", "batch", "flow.yaml", *files, "-q"], cwd=folder, env=kept | environment
    )


def write(folder: Path, flow: str, count: int) -> None:
    (folder / "flow.yaml").write_text(flow, encoding="utf-8")
    items = (json.dumps({"key": f"k{number}", "topic": f"topic {number}"}) for number in range(count))
    (folder / "items.jsonl").write_text("\n".join(items), encoding="utf-8")


def recorded(folder: Path) -> set[str]:
    """The prompts of calls whose end is in the journal."""
    journal = SqliteJournal(folder / ".treadle" / "journal.db")
    try:
        found = set()
        for (run_id,) in journal.store.rows("SELECT run_id FROM runs"):
            asked: dict[str, str] = {}
            for entry in journal.entries(run_id):
                if entry.kind == "model_call_started":
                    asked[entry.step] = entry.data["request"].messages[-1].text
                elif entry.kind == "model_call_finished":
                    found.add(asked[entry.step])
        return found
    finally:
        journal.close()


def told(folder: Path) -> set[str]:
    """The prompts of runs whose results stand in the output."""
    file = folder / "results.jsonl"
    lines = file.read_text(encoding="utf-8").split("\n")[:-1] if file.exists() else []
    topics = [json.loads(line)["line"] - 1 for line in lines]
    return {f"{which} of topic {topic}." for topic in topics for which in ("first", "second")}


def test_a_batch_that_is_killed_again_and_again_does_each_item_once_and_asks_nothing_twice(tmp_path: Path) -> None:
    write(tmp_path, FLOW, ITEMS)
    chance, kills, finished = random.Random(42), 0, dict[str, int]()
    with model_server() as (address, model):
        environment = {"OPENAI_BASE_URL": address, "OPENAI_API_KEY": "none"}
        while True:
            process = begin(tmp_path, AT_ONCE, **environment)
            try:
                process.wait(chance.uniform(0.8, 2.5))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            else:
                break
            kills += 1
            assert kills < 200, "it does not come to its end"
            if not (tmp_path / ".treadle" / "journal.db").exists():
                continue
            on_disk = recorded(tmp_path)
            with model.lock:
                before = dict(model.times)
            assert told(tmp_path) <= on_disk, "a result was told that is not recorded"
            assert all(before[prompt] == times for prompt, times in finished.items()), "a finished call was repeated"
            finished |= {prompt: before[prompt] for prompt in on_disk}
        assert process.returncode == 0
        assert all(model.times[prompt] == times for prompt, times in finished.items()), "a finished call was repeated"
        assert len(model.times) == 2 * ITEMS
        assert model.times.total() <= 2 * ITEMS + AT_ONCE * kills, "more is lost than was under way"
    assert kills > 5
    lines = (tmp_path / "results.jsonl").read_text(encoding="utf-8").splitlines()
    found = [json.loads(line) for line in lines]
    assert [(each["line"], each["key"], each["status"]) for each in found] == [
        (number + 1, f"k{number}", "success") for number in range(ITEMS)
    ]
    assert found[7]["output"] == {"first": "on first of topic 7.", "second": "on second of topic 7."}


def peak(folder: Path, count: int) -> int:
    """The most memory that a batch of so many items takes, in bytes."""
    folder.mkdir()
    write(folder, MOCK, count)
    process = begin(folder, 100)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    with (folder / "results.jsonl").open(encoding="utf-8") as results:
        assert sum(1 for _ in results) == count
    return usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def test_a_long_batch_takes_no_more_memory_than_a_short_one_but_for_its_items(tmp_path: Path) -> None:
    """What is kept of an item is its line, read and parsed: two kilobytes here. What is written is not kept."""
    short, long = peak(tmp_path / "short", 1_000), peak(tmp_path / "long", 11_000)
    assert long - short < 10_000 * 3_500
