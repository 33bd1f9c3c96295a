"""Runs that a server goes on with, each in the background, a number of them at once."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import trio

from treadle import ConfigurationError, Record, RunStatus, Session, TreadleError
from treadle.contracts.events import RunEvent, RunStarted

__all__ = ["Continuations", "folder_problem", "run_of", "tools_problem"]

_SECONDS_BETWEEN_LOOKS = 30.0
"""Other processes pause runs, and the clock of the day is set: no deadline is slept for longer."""


class Continuations:
    """Goes on with runs of a session's journal, in a nursery that outlives every request.

    :param most: runs under way at once; others wait for their turn.
    :param say: tells whoever runs the server.
    :param now: seconds since 1970.
    """

    def __init__(
        self,
        session: Session,
        nursery: trio.Nursery,
        *,
        most: int,
        say: Callable[[str], object],
        now: Callable[[], float] = time.time,
    ) -> None:
        self._session = session
        self._nursery = nursery
        self._limiter = trio.CapacityLimiter(most)
        self._say = say
        self._now = now
        self._again: set[str] = set()
        self._active: set[str] = set()
        self._cancels: dict[str, Callable[[str], object]] = {}
        self._looked: dict[str, int] = {}
        self._stopped: str | None = None

    def is_active(self, run_id: str) -> bool:
        """Whether the run is under way here, or waits for its turn."""
        return run_id in self._active

    def go_on(self, run_id: str) -> None:
        """Go on with a run in the background; once more after that, where it is under way."""
        if self._stopped is not None:
            return
        if run_id in self._active:
            self._again.add(run_id)
            return
        self._active.add(run_id)
        self._nursery.start_soon(self._go_on, run_id, None)

    async def begin(self, run_id: str) -> str | None:
        """Go on with a run, and wait until it has begun or its turn is to come; gives what prevents it."""
        if run_id in self._active:
            return f"run {run_id} is under way"
        self._active.add(run_id)
        begun: list[str | None] = []
        told = trio.Event()

        def tell(problem: str | None) -> None:
            begun.append(problem)
            told.set()

        self._nursery.start_soon(self._go_on, run_id, tell)
        if self._limiter.available_tokens < 1:
            return None
        await told.wait()
        return begun[0]

    def stop(self, reason: str) -> None:
        """Cancel every run: what is under way is recorded as cancelled, and can be gone on with later."""
        self._stopped = reason
        self._again.clear()
        for cancel in list(self._cancels.values()):
            cancel(reason)

    async def _go_on(self, run_id: str, tell: Callable[[str | None], object] | None) -> None:
        try:
            while self._stopped is None:
                self._again.discard(run_id)
                async with self._limiter:
                    await self._once(run_id, tell)
                if run_id not in self._again:
                    break
        finally:
            self._active.discard(run_id)
            if tell is not None:
                tell("the server was stopped")

    async def _once(self, run_id: str, tell: Callable[[str | None], object] | None) -> None:
        def heard(event: RunEvent) -> None:
            if tell is not None and isinstance(event, RunStarted):
                tell(None)

        if self._stopped is not None:
            return
        try:
            record = Record.of(self._session.journal, run_id)
            if problem := tools_problem(self._session, record):
                raise ConfigurationError(problem)
            workflow = record.checked_workflow(self._session.host)
            run = self._session.start(workflow, on_event=heard, earlier=record)
            self._cancels[run_id] = run.cancel
            self._say(f"run {run_id}: goes on")
            result = await run.execute()
        except (TreadleError, OSError) as error:
            self._say(f"run {run_id}: cannot go on: {error}")
            if tell is not None:
                tell(str(error))
            return
        finally:
            self._cancels.pop(run_id, None)
        more = f": {result.error}" if result.error else ""
        waits = f", waits at {', '.join(each.gate for each in result.pending)}" if result.pending else ""
        self._say(f"run {run_id}: {result.status}{waits}{more}")
        if result.status is RunStatus.CANCELLED:
            self._say(f"run {run_id}: treadle resume {run_id} goes on with it")

    async def watch(self) -> None:
        """Go on with runs that were answered and not gone on with, and with those whose time is over."""
        while True:
            soonest = self._now() + _SECONDS_BETWEEN_LOOKS
            unfinished = list(self._session.journal.unfinished())
            self._looked = {run_id: self._looked[run_id] for run_id in unfinished if run_id in self._looked}
            for run_id in unfinished:
                await trio.lowlevel.checkpoint()
                try:
                    record = run_of(self._session, run_id)
                except (TreadleError, OSError) as error:
                    self._say(f"run {run_id}: cannot be read: {error}")
                    continue
                if record is None or run_id in self._active or folder_problem(record) is not None:
                    continue
                deadlines = [each.deadline for each in record.gates.waiting.values() if each.deadline is not None]
                if record.gates.has_answers or any(each <= self._now() for each in deadlines):
                    if self._looked.get(run_id) != record.length:  # it was tried, and nothing has come of it
                        self._looked[run_id] = record.length
                        self.go_on(run_id)
                else:
                    soonest = min([soonest, *deadlines])
            await trio.sleep(max(0.1, soonest - self._now()))


def run_of(session: Session, run_id: str) -> Record | None:
    """The record of a run, None where there is none."""
    entries = list(session.journal.entries(run_id))
    return Record(run_id, entries) if entries else None


def folder_problem(record: Record) -> str | None:
    """Why a run cannot be gone on with here: its paths go from the folder in which it was begun."""
    folder = record.facts.get("folder")
    if folder is None or Path(folder) == Path.cwd():
        return None
    return f"run {record.run_id} was begun in {folder}: start the server there, or treadle resume {record.run_id}"


def moment(seconds: float) -> str:
    """A time as others read it (ISO 8601, UTC)."""
    return datetime.fromtimestamp(seconds).astimezone().isoformat(timespec="seconds")


def tools_problem(session: Session, record: Record) -> str | None:
    """Why a run cannot be gone on with here: a tool that it had is missing."""
    if record.facts.get("tools"):
        try:
            record.check_tools(
                session.host.names("tool"),
                hint=f"start the server with --tools FILE, or treadle resume {record.run_id} --tools FILE",
            )
        except ConfigurationError as error:
            return f"run {record.run_id}: {error}"
    return None
