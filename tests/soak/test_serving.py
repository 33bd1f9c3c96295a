"""``treadle serve`` under strangers, under load, and killed again and again."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio

import treadle
from soak.growth import Growth, needs_proc
from treadle import Record
from treadle_approval.server import open_listeners, serve
from treadle_journal_sqlite import SqliteJournal

pytestmark = pytest.mark.soak

TOKEN = "a long token of this test"
FLOW = {
    "name": "gated",
    "config": {"provider": "mock", "latency_ms": 20},
    "steps": [
        {"id": "draft", "type": "llm_call", "prompt": "draft", "output": "draft"},
        {"id": "review", "type": "approval_gate", "depends_on": ["draft"], "output": "decision"},
        {"id": "second", "type": "approval_gate", "depends_on": ["draft"], "output": "other"},
        {
            "id": "send",
            "type": "llm_call",
            "depends_on": ["review", "second"],
            "prompt": "{decision}",
            "output": "sent",
        },
    ],
}
SAID = {"approve": "approved", "reject": "rejected"}
RUNS = 1_200
WARM = 500
"""The mock provider keeps its last thousand calls; a run makes two."""
AT_ONCE = 20


class Client:
    """Asks a server, politely and otherwise."""

    def __init__(self, port: int) -> None:
        self.port = port

    async def ask(self, method: str, target: str, body: Any = None, token: str = TOKEN) -> tuple[int, Any]:
        """Status and JSON of the answer; 0 where there is none."""
        content = b"" if body is None else json.dumps(body).encode()
        head = f"{method} {target} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(content)}\r\n"
        received = await self.send(f"{head}X-Treadle-Token: {token}\r\n\r\n".encode() + content)
        top, _, rest = received.partition(b"\r\n\r\n")
        return (int(top.split(b" ", 2)[1]), json.loads(rest)) if rest else (0, None)

    async def send(self, data: bytes) -> bytes:
        """Send bytes, and read until the server has closed the connection."""
        received = bytearray()
        with suppress(trio.BrokenResourceError, OSError):
            async with await trio.open_tcp_stream("127.0.0.1", self.port) as stream:
                await stream.send_all(data)
                async for piece in stream:
                    received += piece
        return bytes(received)

    async def leave(self, data: bytes) -> None:
        """Send the beginning of a request, and go."""
        with suppress(trio.BrokenResourceError, OSError):
            stream = await trio.open_tcp_stream("127.0.0.1", self.port)
            await stream.send_all(data)
            await trio.aclose_forcefully(stream)

    async def annoy(self) -> None:
        """What strangers do; all of it is refused."""
        assert (await self.ask("GET", "/pending", token="wrong"))[0] == 401
        assert (await self.ask("POST", "/answer", {"run_id": "../x", "gate": "g", "answer": "a"}))[0] == 400
        assert (await self.ask("POST", "/approve/none"))[0] == 404
        status, _ = await self.ask("POST", "/webhook", {"text": "x" * 100_000})
        assert status in (0, 413)  # it may have closed before all of it was sent
        assert b"400" in (await self.send(b"GET / HTTP/1.1\r\nbroken\r\n\r\n")).split(b"\r\n")[0]
        await self.leave(b"POST /answer HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Le")
        await self.leave(b"POST /answer HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100\r\n\r\n{")
        await self.leave(b"")


@asynccontextmanager
async def served(journal: Path) -> AsyncIterator[tuple[treadle.Session, Client]]:
    """A server in this process."""
    async with treadle.open(journal=SqliteJournal(journal)) as session:
        listeners = await open_listeners("127.0.0.1", 0)
        async with trio.open_nursery() as nursery:
            stop = await nursery.start(partial(serve, session, listeners, host="127.0.0.1", token=TOKEN))
            yield session, Client(listeners[0].socket.getsockname()[1])
            stop("the test is over")


@needs_proc
def test_neither_strangers_nor_runs_leave_anything_behind(tmp_path: Path) -> None:
    async def main() -> None:
        async with served(tmp_path / "journal.db") as (session, client):
            workflow = treadle.build_workflow(FLOW, host=session.host)

            async def one(number: int) -> None:
                run_id = f"r{number}"
                assert (await session.run(workflow, run_id=run_id)).status == "paused"
                gates = ["review", "second"]
                random.Random(number).shuffle(gates)
                for gate in gates:
                    assert (await client.ask("POST", f"/approve/{run_id}/{gate}"))[0] == 202
                    assert (await client.ask("POST", f"/reject/{run_id}/{gate}"))[0] == 409
                await client.annoy()
                if number % 20 == 0:
                    status, found = await client.ask("GET", "/pending")
                    assert status == 200
                    assert len(found["paused_runs"]) <= AT_ONCE
                with trio.fail_after(60):
                    while (result := Record(run_id, journal.entries(run_id)).result) is None or result.pending:  # noqa: ASYNC110
                        await trio.sleep(0.05)
                assert result.status == "success"
                assert result.final_state["decision"] == result.final_state["other"] == "approved"

            async def some(numbers: range) -> None:
                waiting = iter(numbers)

                async def worker() -> None:
                    for number in waiting:
                        await one(number)

                async with trio.open_nursery() as nursery:
                    for _ in range(AT_ONCE):
                        nursery.start_soon(worker)

            journal = session.journal
            await some(range(WARM))
            await trio.sleep(1.5)  # connections are read to their end
            tasks, before = trio.lowlevel.current_statistics().tasks_living, Growth()
            await some(range(WARM, RUNS))
            await trio.sleep(1.5)
            assert trio.lowlevel.current_statistics().tasks_living <= tasks
            before.check()

    trio.run(main)


def start_server(folder: Path) -> tuple[subprocess.Popen[str], int]:
    argv = [sys.executable, "-m", "treadle_cli", "serve", "--port", "0", "--token-file", "token"]
    process = subprocess.Popen(argv, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, encoding="utf-8")
    assert process.stdout is not None
    return process, int(process.stdout.readline().rpartition(":")[2])


def pause_runs(journal: Path, count: int) -> None:
    async def main() -> None:
        async with treadle.open(journal=SqliteJournal(journal)) as session, trio.open_nursery() as nursery:
            workflow = treadle.build_workflow(FLOW, host=session.host)
            for number in range(count):
                nursery.start_soon(partial(session.run, workflow, run_id=f"r{number}"))

    trio.run(main)


def test_a_server_that_is_killed_again_and_again_loses_no_answer_and_repeats_no_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file, count, chance = tmp_path / ".treadle" / "journal.db", 200, random.Random(11)
    (tmp_path / "token").write_text(TOKEN, encoding="utf-8")
    pause_runs(file, count)
    gates = [(f"r{run}", gate) for run in range(count) for gate in ("review", "second")]
    answers = {each: chance.choice(list(SAID)) for each in gates}
    accepted: set[tuple[str, str]] = set()
    finished: dict[str, int] = {}
    kills = 0

    async def answer(port: int) -> None:
        """Answer what has not been accepted, in any order, until the server is gone."""
        client, left = Client(port), [each for each in answers if each not in accepted]
        chance.shuffle(left)

        async def worker() -> None:
            while left:
                run_id, gate = left.pop()
                status, data = await client.ask("POST", f"/{answers[run_id, gate]}/{run_id}/{gate}")
                if status == 202 or (status == 409 and "has been answered" in data["error"]):
                    accepted.add((run_id, gate))
                await trio.sleep(0.02)

        async with trio.open_nursery() as nursery:
            for _ in range(8):
                nursery.start_soon(worker)

    async def again(port: int) -> None:
        """Runs that a server had gone on with when it was killed go on when they are answered so again."""
        for run_id, gate in answers:
            if run_id not in finished:
                await Client(port).ask("POST", f"/{answers[run_id, gate]}/{run_id}/{gate}")
        await trio.sleep(2)

    async def until_killed(port: int, seconds: float) -> None:
        with trio.move_on_after(seconds):
            await answer(port)
            await again(port)

    deadline = time.monotonic() + 400
    while len(finished) < count:
        assert time.monotonic() < deadline
        process, port = start_server(tmp_path)
        with process:
            try:
                trio.run(until_killed, port, chance.uniform(0.3, 1.5))
            finally:
                process.kill()
        kills += 1
        journal = SqliteJournal(file)
        for run_id in map("r{}".format, range(count)):
            entries = list(journal.entries(run_id))
            record = Record(run_id, entries)
            for gate in ("review", "second"):
                if (run_id, gate) in accepted:
                    assert record.gates.known[gate].answer == SAID[answers[run_id, gate]]
            calls = Counter(entry.step for entry in entries if entry.kind == "model_call_finished")
            assert set(calls.values()) == {1}, "a finished call was made again"
            if record.result is not None and record.result.status == "success":
                finished[run_id] = len(entries)
        journal.close()
    assert kills > 2
