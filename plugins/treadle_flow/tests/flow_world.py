"""Steps that say what they did, for workflows inside workflows. As a program it is a run that kills itself."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import trio

import treadle
from treadle import Pending, Step, StepContext, StepError, StepOutcome, Template
from treadle.testing import offering
from treadle_flow import plugin

__all__ = ["PLUGINS", "Say", "at_once", "document", "said"]

said: list[str] = []
"""What ``say`` steps said, in order."""
at_once = {"now": 0, "most": 0}


def _append(log: str, text: str) -> None:
    with Path(log).open("a", encoding="utf-8") as file:
        file.write(f"{text}\n")


class Say(Step):
    """Says a text, and may wait, fail, ask or kill."""

    text: Template
    wait: float = 0.0
    fails_on: str = "\0"
    asks_on: str = "\0"
    kills_on: str = "\0"
    log: str | None = None

    async def run(self, ctx: StepContext) -> StepOutcome:
        """Say it."""
        text = ctx.render(self.text)
        at_once["now"] += 1
        at_once["most"] = max(at_once["most"], at_once["now"])
        try:
            await trio.sleep(self.wait)
        finally:
            at_once["now"] -= 1
        if text == self.kills_on and os.environ.get("FLOW_KILLS"):
            os.kill(os.getpid(), signal.SIGKILL)
        if text == self.fails_on:
            raise StepError(f"'{text}' will not do")
        if text == self.asks_on:
            return StepOutcome(pending=(Pending(question=f"Is {text} right?"),))
        said.append(text)
        if self.log is not None:
            _append(self.log, text)
        return StepOutcome(value=text)


class Count(Step):
    """One more than what is in the state under ``count``."""

    async def run(self, ctx: StepContext) -> StepOutcome:
        """Count."""
        await trio.lowlevel.checkpoint()
        return StepOutcome(value=ctx.state.get("count", 0) + 1)


PLUGINS = {"flow": plugin, "says": offering({"step_type": {"say": Say, "count": Count}})}


def document(*steps: dict[str, Any], state: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """A workflow of these steps."""
    return {"name": "outer", "state": state or {}, "steps": list(steps), **more}


if __name__ == "__main__":
    from treadle_journal_sqlite import SqliteJournal

    async def main() -> None:
        async with treadle.open(journal=SqliteJournal("journal.db"), steps={"say": Say, "count": Count}) as session:
            await session.run(treadle.load_workflow(sys.argv[1], host=session.host), run_id="r")

    trio.run(main)
