"""Model servers that answer late, twice or never, on every provider's wire: nobody takes an answer for another's, and a
call of which nobody knows what it has cost is counted as that."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import trio

import treadle
from providers.vendors import VENDORS, Vendor
from treadle import RunResult
from treadle.contracts.provider import Provider
from treadle.messages import Completed, ModelRequest, UserMessage
from treadle_journal_sqlite import SqliteJournal
from treadle_journal_sqlite.views import list_runs

from wire.http_server import Bytes, Connection, Hang, Recorded, Reply

EVERY = pytest.mark.parametrize("vendor", VENDORS.values(), ids=VENDORS)

FLOW = """
name: faults
config: {{provider: {provider}, model: "{model}", max_retries: 0}}
steps:
  - {{id: warm, type: llm_call, prompt: "one?", output: one}}
  - id: ask
    type: llm_call
    depends_on: [warm]
    prompt: "two?"
    timeout: {timeout}
    retry: {{max_retries: {retries}, backoff_base: 0.01}}
    output: two
  - {{id: last, type: llm_call, depends_on: [ask], prompt: "three?", output: three}}
"""


@dataclass(frozen=True, slots=True)
class Late:
    """Answer when that event has come, whatever the client does meanwhile."""

    reply: Bytes
    may: trio.Event

    async def send(self, connection: Connection, request: Recorded) -> bool:
        """Write it."""
        with trio.CancelScope(shield=True):
            await self.may.wait()
            return await self.reply.send(connection, request)


@dataclass(frozen=True, slots=True)
class Twice:
    """Answer, and then once more what nobody has asked for: in the same segment, or when that event has come.

    :ivar sent: is set when all has been written.
    """

    first: Bytes
    second: Bytes
    may: trio.Event | None = None
    sent: trio.Event = field(default_factory=trio.Event)

    async def send(self, connection: Connection, request: Recorded) -> bool:
        """Write both."""
        said: list[bytes] = []
        for each in (self.first, self.second):
            head = {"content-type": each.content_type, "content-length": str(len(each.body)), **each.headers}
            lines = ["HTTP/1.1 200 OK", *(f"{name}: {value}" for name, value in head.items())]
            said.append("\r\n".join((*lines, "", "")).encode("latin-1") + each.body)
        if self.may is None:
            await connection.stream.send_all(b"".join(said))
        else:
            await connection.stream.send_all(said[0])
            await self.may.wait()
            await connection.stream.send_all(said[1])
        self.sent.set()
        return True


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Run the workflow against a server, with a journal on disk; gives the result and what `runs` lists."""

    async def run(vendor: Vendor, url: str, *, timeout: float, retries: int) -> tuple[RunResult, dict[str, Any]]:
        for name, value in vendor.environment(url).items():
            monkeypatch.setenv(name, value)
        filled = FLOW.format(provider=vendor.provider, model=vendor.model, timeout=timeout, retries=retries)
        journal = SqliteJournal(tmp_path / "journal.db")
        async with treadle.open(journal=journal) as session:
            result = await session.run(treadle.parse_workflow(filled))
            (listed,) = list_runs(journal)
        return result, listed

    return run


@EVERY
async def test_an_answer_after_the_attempts_time_is_not_used_and_its_cost_is_unknown(vendor: Vendor, run: Any) -> None:
    """But of a provider that costs nothing."""
    may = trio.Event()

    def second(request: Recorded) -> Reply:
        may.set()  # the late answer is written now that another attempt is under way
        return vendor.reply(False, "in time")

    late = vendor.reply(False, "too late")
    assert isinstance(late, Bytes)
    async with vendor.server.open() as server:
        server.reply(vendor.reply(False, "1"), Late(late, may), second, vendor.reply(False, "3"))
        result, listed = await run(vendor, server.url, timeout=1.0, retries=2)
        assert len(server.requests) == 4
        assert server.accepted == 2, "where an answer was owed nothing more was asked"
    assert result.final_state == {"one": "1", "two": "in time", "three": "3"}
    assert [each.attempts for each in result.step_results.values()] == [1, 2, 1]
    cost = 0.0 if vendor.name == "ollama" else None
    assert result.step_results["ask"].cost_usd == cost
    assert result.total_cost_usd == cost
    assert listed["total_cost_usd"] == cost, "in the list of runs too"


@EVERY
async def test_a_second_answer_with_the_first_is_not_taken_for_that_to_the_next_request(
    vendor: Vendor, run: Any
) -> None:
    once, again = vendor.reply(False, "1"), vendor.reply(False, "nobody asked")
    assert isinstance(once, Bytes)
    assert isinstance(again, Bytes)
    async with vendor.server.open() as server:
        server.reply(Twice(once, again), vendor.reply(False, "2"), vendor.reply(False, "3"))
        result, _ = await run(vendor, server.url, timeout=30.0, retries=0)
        assert len(server.requests) == 3
    assert result.final_state == {"one": "1", "two": "2", "three": "3"}


@EVERY
async def test_a_second_answer_that_comes_before_the_next_request_is_not_taken_for_its_answer(vendor: Vendor) -> None:
    once, again = vendor.reply(False, "1"), vendor.reply(False, "nobody asked")
    assert isinstance(once, Bytes)
    assert isinstance(again, Bytes)
    sent, may = trio.Event(), trio.Event()
    request = ModelRequest(messages=(UserMessage.of("hi"),), model=vendor.model)
    async with vendor.server.open() as server, vendor.build(server.url) as provider:
        server.reply(Twice(once, again, may, sent), vendor.reply(False, "2"))
        found = [await _answered(provider, request)]
        may.set()
        await sent.wait()
        await trio.sleep(0.1)  # the bytes are on their way to a socket of this machine
        found.append(await _answered(provider, request))
    assert found == ["1", "2"]


async def _answered(provider: Provider, request: ModelRequest) -> str:
    async with provider.exchange(request) as events:
        texts = [event.response.text async for event in events if isinstance(event, Completed)]
    return texts[-1]


@EVERY
async def test_a_server_that_never_answers_fails_the_step_when_its_time_is_over(vendor: Vendor, run: Any) -> None:
    async with vendor.server.open() as server:
        server.reply(vendor.reply(False, "1"), Hang(), Hang())
        result, listed = await run(vendor, server.url, timeout=0.5, retries=1)
        await server.until(lambda each: each.disconnects == 2)
    steps = result.step_results
    assert [(name, str(each.status), each.attempts) for name, each in steps.items()] == [
        ("warm", "success", 1), ("ask", "timeout", 2), ("last", "skipped", 0)
    ]  # fmt: skip
    assert result.status == "failed"
    cost = 0.0 if vendor.name == "ollama" else None
    assert steps["ask"].cost_usd == cost
    assert (listed["status"], listed["total_cost_usd"]) == ("failed", cost)
