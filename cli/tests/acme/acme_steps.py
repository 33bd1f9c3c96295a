"""A plugin of a stranger: steps that wait, fail, try again, write and misbehave as a test asks them to."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import trio
from pydantic import Field

from treadle import Offer, Pending, ProviderError, Step, StepContext, StepError, StepOutcome, Usage, hookimpl


class Nap(Step):
    """Waits, then fails for some attempts, then gives its value."""

    seconds: float = 0.0
    failures: int = 0
    wait: float = 0.1
    permanent: bool = False
    error: str = "the server is busy"
    value: Any = None
    warn: list[str] = Field(default_factory=list)
    tokens: int | None = 0
    cost: float | None = 0.0

    async def run(self, ctx: StepContext) -> StepOutcome:
        for warning in self.warn:
            ctx.warn(warning)
        await trio.sleep(self.seconds)
        if ctx.attempt <= self.failures:
            if self.permanent:
                raise StepError(self.error)
            raise ProviderError(self.error, provider="acme", transient=True, retry_after=self.wait)
        usage = Usage(input_tokens=self.tokens, output_tokens=0)
        return StepOutcome(value=self.value, usage=usage, cost_usd=self.cost)


class Say(Step):
    """Emits pieces of text, one each interval; its value is the whole."""

    pieces: list[str]
    seconds: float = 0.0
    failures: int = 0

    async def run(self, ctx: StepContext) -> StepOutcome:
        for piece in self.pieces:
            ctx.emit_text(piece)
            await trio.sleep(self.seconds)
        if ctx.attempt <= self.failures:
            raise ProviderError("cut off", provider="acme", transient=True, retry_after=0.1)
        return StepOutcome(value="".join(self.pieces))


class Block(Step):
    """Blocks the loop, as no step should."""

    seconds: float

    async def run(self, ctx: StepContext) -> StepOutcome:
        await trio.sleep(0.05)
        print("blocking", file=sys.stderr, flush=True)
        end = time.monotonic() + self.seconds
        while time.monotonic() < end:
            time.sleep(0.01)  # noqa: ASYNC251 - that is the point
        return StepOutcome()


class Ask(Step):
    """Pauses the run with a question."""

    question: str
    choices: list[str] = Field(default_factory=list)

    async def run(self, ctx: StepContext) -> StepOutcome:
        return StepOutcome(pending=(Pending(question=self.question, choices=tuple(self.choices)),))


class Sub(Step):
    """Runs other steps, as often as it is told."""

    steps: list[dict[str, Any]]
    times: int = 0
    concurrent: bool = True

    async def run(self, ctx: StepContext) -> StepOutcome:
        child = {"name": self.id, "config": {"max_retries": 0}, "steps": self.steps}
        if not self.times:
            result = await ctx.run_child(child)
            if not result.ok:
                raise StepError(result.error or "it failed")
        async with trio.open_nursery() as nursery:
            for number in range(self.times):
                if self.concurrent:
                    nursery.start_soon(lambda number=number: ctx.run_child(child, key=str(number)))
                else:
                    await ctx.run_child(child, key=str(number))
        return StepOutcome()


class Work(Step):
    """Starts another program from a process of its own, and blocks there."""

    file: str

    async def run(self, ctx: StepContext) -> StepOutcome:
        await ctx.run_in_process(block_in_process, self.file)
        return StepOutcome()


def block_in_process(file: str) -> None:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    Path(file).write_text(f"{os.getpid()} {child.pid}", encoding="utf-8")
    print("working", flush=True)
    time.sleep(600)


@hookimpl
def treadle_step_types() -> Mapping[str, Offer]:
    return {
        "nap": Offer("acme_steps:Nap", "Waits and fails as told"),
        "say": Offer("acme_steps:Say", "Emits text"),
        "block": Offer("acme_steps:Block", "Blocks the loop"),
        "work": Offer("acme_steps:Work", "Blocks in a process"),
        "ask": Offer("acme_steps:Ask", "Asks a person"),
        "sub": Offer("acme_steps:Sub", "Runs child runs"),
        "gone": Offer("acme_steps:Missing", "Cannot be loaded"),
    }
