"""The server: it takes answers, goes on with runs, and is not fooled."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

import treadle
import treadle_approval.plugin
from treadle import Host, MemoryJournal, Record, Step, StepContext, StepOutcome
from treadle.testing import offering
from treadle_approval.http import MOST_BODY_BYTES, SECONDS_TO_SEND, Answer, Request, exchange
from treadle_approval.server import open_listeners, serve


class Kept(MemoryJournal):
    """A journal that another session goes on with, as one on disk is."""

    outlives_process = True

    def unfinished(self) -> Iterable[str]:
        found = []
        for run_id in self._runs:
            result = Record(run_id, self.entries(run_id)).result
            if result is None or result.status == "paused":
                found.append(run_id)
        return found


class World:
    """What slow steps wait for, and how many of them are at work."""

    def __init__(self) -> None:
        self.open = trio.Event()
        self.at_work = self.most = self.done = 0
        self._begun = trio.Semaphore(0)

    def begin(self) -> None:
        """One more is at work."""
        self.at_work += 1
        self.most = max(self.most, self.at_work)
        self._begun.release()

    async def until(self, count: int) -> None:
        """Wait until so many have begun."""
        with trio.fail_after(20):
            for _ in range(count):
                await self._begun.acquire()


def host_of(world: World) -> Host:
    class Slow(Step):
        """Works until the world is open."""

        async def run(self, ctx: StepContext) -> StepOutcome:
            world.begin()
            try:
                await world.open.wait()
            finally:
                world.at_work -= 1
            world.done += 1
            return StepOutcome(value="worked")

    return Host.of({"approval": treadle_approval.plugin, "slow": offering({"step_type": {"slow": Slow}})})


GATE = {"id": "review", "type": "approval_gate", "output": "decision"}
WORK = {"id": "work", "type": "slow", "depends_on": ["review"]}


class Server:
    """A server at work, and what asks it."""

    def __init__(self, port: int, stop: Any, said: list[str], session: treadle.Session) -> None:
        self.port, self.stop, self.said, self.session = port, stop, said, session

    async def raw(self, data: bytes, *, eof: bool = False) -> bytes:
        """Send bytes and read until the server has closed the connection."""
        async with await trio.open_tcp_stream("127.0.0.1", self.port) as stream:
            received = bytearray()
            try:
                await stream.send_all(data)
                if eof:
                    await stream.send_eof()
                async for piece in stream:
                    received += piece
            except trio.BrokenResourceError:
                pass  # it stopped reading what it will not answer
            return bytes(received)

    async def ask(
        self, method: str, target: str, body: Any = None, *, host: str | None = None, **headers: str
    ) -> tuple[int, Any]:
        """Status and JSON of the answer."""
        content = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        lines = [
            f"{method} {target} HTTP/1.1",
            f"Host: {host or f'127.0.0.1:{self.port}'}",
            f"Content-Length: {len(content)}",
            *(f"{name.replace('_', '-')}: {value}" for name, value in headers.items()),
        ]
        return parsed(await self.raw("\r\n".join([*lines, "", ""]).encode() + content))

    async def status_of(self, run_id: str, status: str) -> treadle.RunResult:
        """The run's result, once it has that status."""
        with trio.fail_after(20):
            while True:
                result = Record(run_id, self.session.journal.entries(run_id)).result
                if result is not None and result.status == status:
                    return result
                await trio.sleep(0.01)


def parsed(response: bytes) -> tuple[int, Any]:
    head, _, body = response.partition(b"\r\n\r\n")
    return int(head.split(b" ", 2)[1]), json.loads(body)


@asynccontextmanager
async def served(world: World, journal: Kept, *documents: list[dict[str, Any]], **how: Any) -> AsyncIterator[Server]:
    """A server over the journal, in which these workflows are paused as runs ``r0``, ``r1``, ..."""
    host = host_of(world)
    said: list[str] = []
    async with treadle.open(host=host, journal=journal) as session:
        for number, steps in enumerate(documents):
            workflow = treadle.build_workflow({"name": "flow", "steps": steps}, host=host)
            assert (await session.run(workflow, run_id=f"r{number}")).status == "paused"
        listeners = await open_listeners("127.0.0.1", 0)
        async with trio.open_nursery() as nursery:
            serving = partial(serve, session, listeners, host="127.0.0.1", say=said.append, **how)
            stop = await nursery.start(serving)
            yield Server(listeners[0].socket.getsockname()[1], stop, said, session)
            stop("the test is over")


@pytest.fixture
def world() -> World:
    return World()


# --- answers ---


async def test_a_gate_is_approved_and_the_run_goes_on_in_the_background(world: World) -> None:
    async with served(world, Kept(), [GATE, WORK]) as server:
        status, data = await server.ask("GET", "/pending")
        (run,) = data["paused_runs"]
        assert (status, run["run_id"], run["workflow_name"], run["paused_step_id"]) == (200, "r0", "flow", "review")
        assert [(each["gate"], each["choices"]) for each in run["gates"]] == [("review", ["approved", "rejected"])]
        assert run["updated_at"].endswith("+00:00")
        accepted = {"status": "accepted", "run_id": "r0", "gate": "review", "answer": "approved"}
        assert await server.ask("POST", "/approve/r0") == (202, accepted)
        assert world.done == 0, "nobody waited for the run"
        world.open.set()
        result = await server.status_of("r0", "success")
        assert result.final_state["decision"] == "approved"
        assert (await server.ask("GET", "/pending"))[1] == {"paused_runs": []}
        assert await server.ask("POST", "/approve/r0") == (409, {"error": "run r0 has succeeded"})


async def test_gates_are_answered_one_by_one_in_any_order_and_by_any_route(world: World) -> None:
    size = {"id": "size", "type": "approval_gate", "choices": ["s", "l"], "output": "size"}
    note = {"id": "note", "type": "approval_gate", "choices": [], "output": "note"}
    async with served(world, Kept(), [GATE, size, note]) as server:
        status, data = await server.ask("POST", "/reject/r0")
        assert (status, sorted(data["gates"])) == (409, ["note", "review", "size"])
        assert (await server.ask("POST", "/answer", {"run_id": "r0", "gate": "note", "answer": "x y"}))[0] == 202
        assert (await server.ask("POST", "/reject/r0", {"gate": "review"}))[0] == 202
        status, data = await server.ask("POST", "/approve/r0/size")
        assert (status, data["choices"]) == (400, ["s", "l"])
        assert (await server.ask("POST", "/answer", {"run_id": "r0", "gate": "sise", "answer": "l"})) == (
            404,
            {"error": "run r0 has no gate 'sise'; did you mean 'size'?", "gates": ["size"]},
        )
        assert (await server.ask("POST", "/answer", {"run_id": "r0", "gate": "size", "answer": "l"}))[0] == 202
        result = await server.status_of("r0", "success")
    assert dict(result.final_state) == {"decision": "rejected", "size": "l", "note": "x y"}


async def test_of_many_approvals_of_one_gate_at_once_exactly_one_wins(world: World) -> None:
    async with served(world, Kept(), [GATE, WORK]) as server:
        answers: list[int] = []

        async def approve(verb: str) -> None:
            answers.append((await server.ask("POST", f"/{verb}/r0/review"))[0])

        async with trio.open_nursery() as nursery:
            for _ in range(15):
                nursery.start_soon(approve, "approve")
                nursery.start_soon(approve, "reject")
        world.open.set()
        await server.status_of("r0", "success")
    assert sorted(answers) == [202] + [409] * 29
    assert world.done == 1


async def test_a_run_whose_record_is_damaged_keeps_no_other_one_from_being_answered(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = Kept.entries

    def entries(journal: Kept, run_id: str) -> Any:
        if run_id == "r0":
            raise treadle.TreadleError("the journal is damaged")
        return read(journal, run_id)

    async with served(world, Kept(), [GATE], [GATE]) as server:
        monkeypatch.setattr(Kept, "unfinished", lambda journal: ["r0", "r1"])
        monkeypatch.setattr(Kept, "entries", entries)
        status, data = await server.ask("GET", "/pending")
        assert (status, [each["run_id"] for each in data["paused_runs"]]) == (200, ["r1"])
        assert "run r0: cannot be read: the journal is damaged" in server.said
        assert (await server.ask("POST", "/approve/r0"))[0] == 500
        assert (await server.ask("POST", "/approve/r1"))[0] == 202
        await server.status_of("r1", "success")


async def test_a_client_that_leaves_does_not_stop_the_run(world: World) -> None:
    async with served(world, Kept(), [GATE, WORK]) as server:
        async with await trio.open_tcp_stream("127.0.0.1", server.port) as stream:
            await stream.send_all(f"POST /approve/r0 HTTP/1.1\r\nHost: localhost:{server.port}\r\n\r\n".encode())
        world.open.set()
        await server.status_of("r0", "success")


async def test_no_more_runs_go_on_at_once_than_allowed_and_every_answer_is_taken_at_once(world: World) -> None:
    async with served(world, Kept(), *([GATE, WORK] for _ in range(6)), most_runs=2) as server:
        for number in range(6):
            assert (await server.ask("POST", f"/approve/r{number}"))[0] == 202
        await world.until(2)
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert world.at_work == 2
        world.open.set()
        for number in range(6):
            await server.status_of(f"r{number}", "success")
    assert (world.most, world.done) == (2, 6)


async def test_what_the_end_of_a_server_cut_off_is_recorded_and_can_be_gone_on_with(world: World) -> None:
    journal = Kept()
    async with served(world, journal, [GATE, WORK]) as server:
        assert (await server.ask("POST", "/approve/r0"))[0] == 202
        await world.until(1)
    result = Record("r0", journal.entries("r0")).result
    assert result is not None
    assert (result.status, result.step_results["work"].status) == ("cancelled", "cancelled")
    assert (result.error, world.at_work) == ("the test is over", 0)
    world.open.set()
    async with served(world, journal) as server:
        assert (await server.ask("POST", "/reject/r0"))[0] == 409, "it has been approved"
        assert (await server.ask("POST", "/approve/r0"))[0] == 202
        await server.status_of("r0", "success")
        assert (await server.ask("POST", "/approve/r0"))[0] == 409
    assert world.done == 1


async def test_an_answer_that_nobody_went_on_with_is_gone_on_with_by_the_next_server(world: World) -> None:
    """The server was killed between taking the answer and going on, or the run had not had its turn."""
    journal = Kept()
    world.open.set()
    async with served(world, journal, [GATE, WORK]) as server:
        await server.session.answer("r0", {"review": "rejected"})
    async with served(world, journal) as server:
        result = await server.status_of("r0", "success")
    assert result.final_state["decision"] == "rejected"


async def test_the_server_answers_what_nobody_has_answered_in_time(
    world: World, monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.testing.MockClock
) -> None:
    begun = time.time()
    monkeypatch.setattr(time, "time", lambda: begun + trio.current_time())
    host, said, journal = host_of(world), [], Kept()
    late = {"id": "late", "type": "approval_gate", "timeout_seconds": 7200, "on_timeout": "approve", "output": "late"}
    soon = {"id": "soon", "type": "approval_gate", "timeout_seconds": 40, "output": "soon"}
    async with treadle.open(host=host, journal=journal) as session:
        workflow = treadle.build_workflow({"name": "flow", "steps": [late, soon]}, host=host)
        await session.run(workflow, run_id="r0")
        async with trio.open_nursery() as nursery:
            listeners = await open_listeners("127.0.0.1", 0)
            serving = partial(serve, session, listeners, host="127.0.0.1", say=said.append, now=lambda: time.time())
            stop = await nursery.start(serving)
            await trio.sleep(39)
            assert not said
            await trio.sleep(2)
            result = Record("r0", journal.entries("r0")).result
            assert result is not None
            assert dict(result.final_state) == {"soon": "rejected"}
            await trio.sleep(7200)
            result = Record("r0", journal.entries("r0")).result
            assert result is not None
            assert (result.status, dict(result.final_state)) == ("success", {"soon": "rejected", "late": "approved"})
            stop("done")


async def test_an_answer_that_comes_too_late_is_refused(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = {**GATE, "timeout_seconds": 60}
    async with served(world, Kept(), [gate], now=lambda: time.time()) as server:
        later = time.time() + 61
        monkeypatch.setattr(time, "time", lambda: later)
        error = "run r0: nobody answered in time, and it goes on without"
        assert await server.ask("POST", "/approve/r0") == (409, {"error": error})
        result = await server.status_of("r0", "success")
    assert result.final_state["decision"] == "rejected"


# --- what is refused ---


@pytest.mark.parametrize(
    ("method", "target", "body", "status", "error"),
    [
        ("POST", "/approve/nobody", None, 404, "there is no run 'nobody'"),
        ("POST", "/approve/", None, 400, "that is no id of a run"),
        ("POST", "/approve/..", None, 400, "that is no id of a run"),
        ("POST", "/approve/%2e%2e%2fetc%2fpasswd", None, 400, "that is no id of a run"),
        ("POST", "/approve/a..b", None, 400, "that is no id of a run"),
        ("POST", "/approve/r0%00", None, 400, "that is no id of a run"),
        ("POST", "/approve/r0/../../x", None, 400, "that is no gate"),
        ("POST", "/approve/../../etc/passwd", None, 400, "that is no id of a run"),
        ("POST", "/approve/r0/%2fetc", None, 400, "that is no gate"),
        ("POST", "/approve/r0", {"gate": ["review"]}, 400, "that is no gate"),
        ("POST", "/approve/r0", b"{", 400, "the body is not JSON"),
        ("POST", "/answer", b"[]", 400, "the body must be a JSON object"),
        ("POST", "/answer", {"run_id": "r0"}, 400, "'answer' is missing, or is no text"),
        ("POST", "/answer", {"run_id": 1, "answer": "x"}, 400, "'run_id' is missing, or is no text"),
        ("POST", "/webhook", b"nope", 400, "the body is not JSON"),
        ("POST", "/webhook", b"[" * 30_000, 400, "the body is not JSON"),
        ("GET", "/approve/r0", None, 405, "POST to this address"),
        ("GET", "/reject/r0/review", None, 405, "POST to this address"),
        ("PUT", "/answer", None, 405, "POST to this address"),
        ("GET", "/webhook", None, 405, "POST to this address"),
        ("POST", "/pending", None, 405, "GET this address"),
        ("GET", "/nothing", None, 404, "there is nothing of that name here"),
        ("GET", "/", None, 404, "there is nothing of that name here"),
    ],
)
async def test_what_means_nothing_is_refused_and_changes_nothing(
    world: World, method: str, target: str, body: Any, status: int, error: str
) -> None:
    journal = Kept()
    async with served(world, journal, [GATE]) as server:
        got, data = await server.ask(method, target, body)
        assert (got, data["error"]) == (status, error)
        assert Record("r0", journal.entries("r0")).gates.waiting.keys() == {"review"}


H = b"Host: 127.0.0.1\r\n"


@pytest.mark.parametrize(
    ("data", "status"),
    [
        pytest.param(b"nonsense\r\n\r\n", 400, id="no request line"),
        pytest.param(b"POST /webhook HTTP/1.1\r\n\r\n", 400, id="no host"),
        pytest.param(b"POST /webhook HTTP/1.1\r\n" + H + H + b"\r\n", 400, id="two hosts"),
        pytest.param(b"POST /webhook HTTP/1.1\r\n" + H + b"Content-Length: -1\r\n\r\n", 400, id="negative length"),
        pytest.param(b"POST /webhook HTTP/1.1\r\n" + H + b"Content-Length: 1e2\r\n\r\n", 400, id="odd length"),
        pytest.param(b"POST /webhook HTTP/1.1\r\n" + H + b"Content-Length: +2\r\n\r\n{}", 400, id="signed length"),
        pytest.param(
            b"POST /webhook HTTP/1.1\r\n" + H + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
            400,
            id="two lengths",
        ),
        pytest.param(
            b"POST /webhook HTTP/1.1\r\n" + H + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            400,
            id="length and chunks",
        ),
        pytest.param(
            b"POST /webhook HTTP/1.1\r\n" + H + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 501, id="coding"
        ),
        pytest.param(
            b"POST /webhook HTTP/1.1\r\n" + H + b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n", 400, id="space in name"
        ),
        pytest.param(
            b"POST /webhook HTTP/1.1\r\n" + H + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n\r\n", 400, id="bad chunk"
        ),
        pytest.param(
            b"POST /webhook HTTP/1.0\r\n" + H + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400, id="chunks in 1.0"
        ),
        pytest.param(b"POST /webhook HTTP/1.1\r\n" + H + b"X: a\r\n b\r\n\r\n", 400, id="folded header"),
        pytest.param(b"GET /pending HTTP/1.1\r\n" + H + b"X: " + b"a" * 20_000 + b"\r\n\r\n", 431, id="long header"),
        pytest.param(b"GET /" + b"a" * 20_000, 431, id="long line"),
        pytest.param(
            b"POST /webhook HTTP/1.1\r\n" + H + b"Content-Length: 99999999999\r\n\r\n", 413, id="announced too long"
        ),
        pytest.param(
            b"POST /webhook HTTP/1.1\r\n"
            + H
            + b"Transfer-Encoding: chunked\r\n\r\n"
            + b"8000\r\n" + b"a" * 0x8000 + b"\r\n8001\r\n" + b"a" * 0x8001 + b"\r\n0\r\n\r\n",
            413,
            id="chunks too long",
        ),
    ],
)  # fmt: skip
async def test_what_is_malformed_or_too_long_is_refused(world: World, data: bytes, status: int) -> None:
    assert MOST_BODY_BYTES == 0x10000
    async with served(world, Kept(), [GATE]) as server:
        got, answer = parsed(await server.raw(data))
        assert (got, list(answer)) == (status, ["error"])
        assert (await server.ask("GET", "/pending"))[0] == 200, "it goes on serving"


@pytest.mark.parametrize("method", ["HEAD", "OPTIONS", "CONNECT", "TRACE", "PUT", "DELETE", "PATCH", "FOO"])
async def test_other_methods_are_answered_and_do_nothing(world: World, method: str) -> None:
    async with served(world, Kept(), [GATE]) as server:
        received = await server.raw(f"{method} /approve/r0 HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        assert received.startswith(b"HTTP/1.1 405 ")
        assert b"\r\nAllow: POST\r\n" in received
        assert (received.partition(b"\r\n\r\n")[2] == b"") == (method == "HEAD")
        assert (await server.ask("GET", "/pending"))[1]["paused_runs"]
        assert not [line for line in server.said if line.startswith("error")]


FIRST_LINES = [f"{method} /webhook HTTP/1.{minor}" for method in ("POST", "HEAD", "GET") for minor in "012"]


@given(
    st.lists(
        st.binary(max_size=300)
        | st.sampled_from(
            [
                *(
                    f"{method} /webhook HTTP/1.{minor}\r\n".encode()
                    for method in ("POST", "HEAD", "GET")
                    for minor in "012"
                ),
                H,
                b"Content-Length: 5\r\n",
                b"Transfer-Encoding: chunked\r\n",
                b"Expect: 100-continue\r\n",
                b"\r\n",
                b"3\r\n{}\n\r\n0\r\n\r\n",
                b"a" * 70_000,
            ]
        ),
        max_size=8,
    ),
    st.booleans(),
)
def test_whatever_arrives_the_connection_ends_with_an_answer_or_without_one(pieces: list[bytes], leaves: bool) -> None:
    async def main() -> None:
        ours, theirs = trio.testing.memory_stream_pair()

        async def answer(request: Request) -> Answer:
            return Answer(200, {"length": len(request.body)})

        received = bytearray()

        async def client() -> None:
            try:
                for piece in pieces:
                    await theirs.send_all(piece)
                if leaves:
                    await theirs.send_eof()
            except trio.BrokenResourceError:
                pass
            async for data in theirs:
                received.extend(data)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(client)
            await exchange(ours, answer)
        assert received == b"" or received.startswith(b"HTTP/1.1 ")
        assert trio.current_time() < 2 * SECONDS_TO_SEND + 5

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


async def test_what_follows_a_request_is_not_read_as_another_one(world: World) -> None:
    async with served(world, Kept(), [GATE]) as server:
        first = b"POST /webhook HTTP/1.1\r\n" + H + b"Content-Length: 2\r\n\r\n{}"
        received = await server.raw(first + b"POST /approve/r0 HTTP/1.1\r\n" + H + b"\r\n")
        assert received.count(b"HTTP/1.1 ") == 1
        assert b"connection: close" in received.lower()
        assert (await server.ask("GET", "/pending"))[1]["paused_runs"], "nothing was approved"


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"X_Treadle_Token": "wrong"}, 401),
        ({"X_Treadle_Token": "s3cret "}, 200),
        ({"X_Treadle_Token": "s3cre"}, 401),
        ({"Authorization": "Bearer s3cret"}, 200),
        ({"Authorization": "bearer s3cret"}, 200),
        ({"Authorization": "Basic s3cret"}, 401),
        ({"Authorization": "s3cret"}, 401),
    ],
)
async def test_a_token_is_asked_of_every_request(world: World, headers: dict[str, str], status: int) -> None:
    async with served(world, Kept(), [GATE], token="s3cret") as server:
        assert (await server.ask("GET", "/pending", **headers))[0] == status
        assert (await server.ask("GET", "/no/such/thing", **headers))[0] == (401 if status == 401 else 404)


@pytest.mark.parametrize(
    ("host", "origin", "status"),
    [
        ("localhost", None, 200),
        ("LOCALHOST:1", None, 200),
        ("127.0.0.1:8642", None, 200),
        ("[::1]:8642", None, 200),
        ("evil.example", None, 403),
        ("127.0.0.1.evil.example", None, 403),
        ("localhost@evil.example", None, 403),
        ("127.0.0.1:8642", "http://127.0.0.1:8642", 200),
        ("127.0.0.1:8642", "http://evil.example", 403),
        ("127.0.0.1:8642", "null", 403),
    ],
)
async def test_pages_of_the_web_cannot_ask_by_their_readers_browser(
    world: World, host: str, origin: str | None, status: int
) -> None:
    async with served(world, Kept(), [GATE]) as server:
        headers = {} if origin is None else {"Origin": origin}
        assert (await server.ask("GET", "/pending", host=host, **headers))[0] == status


async def test_without_a_token_no_other_machine_is_served(world: World) -> None:
    async with treadle.open(host=host_of(world), journal=Kept()) as session:
        for host in ("0.0.0.0", "::", "192.168.0.1", "example.org"):
            with pytest.raises(ValueError, match="without a token this server is for this machine only"):
                await serve(session, [], host=host)


@pytest.mark.parametrize(
    "pieces",
    [
        [],
        [b"GET /pending HTTP/1.1\r\n"],
        [b"POST /webhook HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n", b"{"],
        [b"X"] * 200,
    ],
)
async def test_a_slow_client_is_cut_off(pieces: list[bytes], autojump_clock: trio.testing.MockClock) -> None:
    ours, theirs = trio.testing.memory_stream_pair()

    async def never(request: Request) -> Answer:
        raise AssertionError("nothing whole was asked")

    async def dawdle() -> None:
        for piece in pieces:
            await trio.sleep(1)
            try:
                await theirs.send_all(piece)
            except trio.BrokenResourceError:
                return

    async with trio.open_nursery() as nursery:
        nursery.start_soon(dawdle)
        await exchange(ours, never)
        nursery.cancel_scope.cancel()
    assert SECONDS_TO_SEND <= trio.current_time() <= SECONDS_TO_SEND + 2
    head = await theirs.receive_some()
    assert head.startswith(b"HTTP/1.1 408 ")


async def test_who_asks_whether_to_send_a_body_is_told_to(world: World) -> None:
    head = b"POST /webhook HTTP/1.1\r\n" + H + b"Content-Length: 2\r\nExpect: 100-continue\r\n\r\n"
    async with (
        served(world, Kept(), [GATE]) as server,
        await trio.open_tcp_stream("127.0.0.1", server.port) as stream,
    ):
        await stream.send_all(head)
        with trio.fail_after(10):
            assert (await stream.receive_some()).startswith(b"HTTP/1.1 100")
            await stream.send_all(b"{}")
            assert (await stream.receive_some()).startswith(b"HTTP/1.1 200")


async def test_a_run_of_another_folder_is_left_to_a_server_there(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    async with served(world, Kept(), [GATE]) as server:
        monkeypatch.setattr("treadle_approval.routes.folder_problem", lambda record: "run r0 was begun in /elsewhere")
        assert await server.ask("POST", "/approve/r0") == (409, {"error": "run r0 was begun in /elsewhere"})


async def test_what_is_logged_of_a_webhook_moves_no_cursor_and_shows_no_secret(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A_KEY", "sk-live-0123456789")
    treadle.SecretRef("env:A_KEY").reveal()
    async with served(world, Kept(), [GATE]) as server:
        await server.ask("POST", "/webhook", {"a": "\x1b[2J", "key": "sk-live-0123456789"})
        (line,) = [each for each in server.said if each.startswith("webhook")]
    assert line.startswith('webhook: {"a": "\\u001b[2J", "key": "<REDACTED:')
