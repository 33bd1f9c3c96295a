"""A run with parallel steps, a tool loop, a nested child and a ``once`` tool, whose calls are counted in a file.

As a program, ``python crash_world.py FOLDER N [before] [many]``, it kills itself at its Nth journal write: after it, or
``before`` it. With ``many`` it is :data:`MANY` smaller runs at once, whose entries the journal keeps together.
"""

from __future__ import annotations

import os
import signal
import sys
from collections import Counter
from collections.abc import Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import trio

import treadle
from treadle import (
    AssistantMessage,
    Completed,
    Features,
    Journal,
    JournalEntry,
    ModelRequest,
    ModelResponse,
    Provider,
    RunResult,
    Step,
    StepOutcome,
    StopReason,
    Tool,
    Usage,
    UserMessage,
)
from treadle.contracts.provider import ProviderSettings
from treadle_journal_sqlite import SqliteJournal

CHILD = {
    "name": "inner",
    "config": {"max_retries": 0, "provider": "counted"},
    "steps": [
        {"id": "ask", "type": "loops", "rounds": 2, "output": "inner_said"},
        {"id": "send", "type": "sends", "depends_on": ["ask"], "output": "inner_sent"},
    ],
}
DOCUMENT = {
    "name": "outer",
    "config": {"max_retries": 0, "provider": "counted"},
    "steps": [
        {"id": "left", "type": "loops", "rounds": 3, "output": "left"},
        {"id": "right", "type": "loops", "rounds": 2, "output": "right.said"},
        {"id": "sub", "type": "nests", "depends_on": ["left"], "output": "sub"},
        {"id": "mail", "type": "sends", "depends_on": ["right"], "output": "mail"},
        {"id": "last", "type": "loops", "rounds": 1, "depends_on": ["sub", "mail"], "output": "last"},
    ],
}
MANY = 5


def small(run_id: str) -> dict[str, Any]:
    """A document whose calls are told from those of other runs."""
    steps = [
        {"id": f"{run_id}_left", "type": "loops", "rounds": 2, "output": "left"},
        {"id": f"{run_id}_mail", "type": "sends", "output": "mail"},
        {"id": f"{run_id}_last", "type": "loops", "rounds": 1, "depends_on": [f"{run_id}_left", f"{run_id}_mail"]},
    ]
    return {"name": "small", "config": {"max_retries": 0, "provider": "counted"}, "steps": steps}


class Log:
    """Counts in a file what was really done."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def add(self, what: str) -> None:
        with self.file.open("a", encoding="utf-8") as file:
            file.write(f"{what}\n")

    def counts(self) -> Counter[str]:
        return Counter(self.file.read_text(encoding="utf-8").splitlines() if self.file.exists() else ())


def user(text: str) -> UserMessage:
    return UserMessage.of(text)


class Loops(Step):
    """A tool loop: a model call, a pure tool call, and again, over a conversation that grows."""

    rounds: int

    async def run(self, ctx: Any) -> StepOutcome:
        messages: tuple[Any, ...] = (user(f"{self.id} begins"),)
        for number in range(self.rounds):
            response = await ctx.complete(ModelRequest(model="m", messages=messages, key=self.id))
            found = await ctx.call_tool("look", {"of": self.id, "round": number}, call_id=f"{self.id}-look-{number}")
            messages = (*messages, response.message, user(f"found {found}"))
        return StepOutcome(value=" ".join(message.text for message in messages))


class Sends(Step):
    """A ``once`` tool."""

    async def run(self, ctx: Any) -> StepOutcome:
        await ctx.call_tool("send", {"to": self.id}, call_id=f"{self.id}-send")
        return StepOutcome(value=f"{self.id} sent")


class Nests(Step):
    """A child run."""

    async def run(self, ctx: Any) -> StepOutcome:
        result = await ctx.run_child(CHILD, state={"given": ctx.state["left"]})
        return StepOutcome(value=dict(result.final_state))


class _Tool(Tool):
    def __init__(self, log: Log) -> None:
        self.log = log

    async def call(self, arguments: Mapping[str, Any], context: Any) -> Any:
        self.log.add(f"tool {self.name} {'-'.join(map(str, arguments.values()))}")
        await trio.lowlevel.checkpoint()
        return {"found": list(arguments.values())}


class Look(_Tool):
    name = "look"
    effect = "pure"


class Send(_Tool):
    name = "send"
    effect = "once"


class Counted(Provider):
    settings_model = ProviderSettings
    features = Features()
    log: Log

    async def __aenter__(self) -> Counted:
        return self

    async def __aexit__(self, *_: object) -> None:
        """Nothing is open."""

    def known_cost(self, response_model: str) -> float | None:
        return 0.25

    @asynccontextmanager
    async def exchange(self, request: ModelRequest) -> Any:
        self.log.add(f"model {request.key} {len(request.messages)}")

        async def events() -> Any:
            await trio.lowlevel.checkpoint()
            text = f"reply {len(request.messages)} to {request.key}"
            yield Completed(
                ModelResponse(
                    message=AssistantMessage.of(text),
                    stop_reason=StopReason.END_TURN,
                    usage=Usage(input_tokens=2, output_tokens=1),
                    model="m",
                    provider="counted",
                )
            )

        given = events()
        try:
            yield given
        finally:
            await given.aclose()


class Crash(Exception):
    """Stands for the end of the process."""


class Crashing(Journal):
    """Another journal, whose Nth append from now on raises or kills."""

    def __init__(self, inner: Journal, number: int, *, before: bool = False, kills: bool = False) -> None:
        self.inner, self.number, self.before, self.kills = inner, number, before, kills
        self.count = 0

    def append(self, entry: JournalEntry) -> None:
        self.count += 1
        is_now = self.count == self.number
        if not (is_now and self.before):
            self.inner.append(entry)
        if is_now and self.kills:
            os.kill(os.getpid(), signal.SIGKILL)
        if is_now:
            raise Crash

    def entries(self, run_id: str) -> Any:
        return self.inner.entries(run_id)

    def close(self) -> None:
        self.inner.close()


class Settling(Crashing):
    """One whose entries may wait for those of other runs."""

    def will_settle(self) -> None:
        self.inner.will_settle()

    async def settle(self) -> None:
        await self.inner.settle()


def extras(log: Log) -> dict[str, Any]:
    provider = type("Provider", (Counted,), {"log": log})
    return {
        "steps": {"loops": Loops, "sends": Sends, "nests": Nests},
        "tools": [Look(log), Send(log)],
        "providers": {"counted": provider("counted", ProviderSettings())},
    }


def run(journal: Journal, log: Log, document: Mapping[str, Any] = DOCUMENT) -> RunResult:
    """Run from the beginning."""

    async def main() -> RunResult:
        async with treadle.open(journal=journal, **extras(log)) as session:
            return await session.run(treadle.build_workflow(document, host=session.host), run_id="r")

    return trio.run(main)


def run_many(journal: Journal, log: Log) -> None:
    """Run :data:`MANY` small ones at once."""

    async def main() -> None:
        async with treadle.open(journal=journal, **extras(log)) as session, trio.open_nursery() as nursery:
            for number in range(MANY):
                workflow = treadle.build_workflow(small(f"r{number}"), host=session.host)
                nursery.start_soon(partial(session.run, workflow, run_id=f"r{number}"))

    trio.run(main)


def resume(journal: Journal, log: Log, assume: Mapping[str, str] | None = None, *, run_id: str = "r") -> RunResult:
    """Go on."""

    async def main() -> RunResult:
        async with treadle.open(journal=journal, **extras(log)) as session:
            return await session.resume(run_id, assume=assume)

    return trio.run(main)


if __name__ == "__main__":
    place = Path(sys.argv[1])
    how: dict[str, Any] = {"before": "before" in sys.argv, "kills": True}
    if "many" in sys.argv:
        run_many(Settling(SqliteJournal(place / "journal.db"), int(sys.argv[2]), **how), Log(place / "log"))
    else:
        run(Crashing(SqliteJournal(place / "journal.db"), int(sys.argv[2]), **how), Log(place / "log"))
