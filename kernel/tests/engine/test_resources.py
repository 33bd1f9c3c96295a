"""Things opened on first use: once, in a task of their own, and closed at the end."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio

from treadle._engine.resources import Resource
from treadle.nurseries import open_nursery


class Thing:
    """A context manager that takes a second to open and counts."""

    def __init__(self, *, failures: int = 0, breaks: bool = False) -> None:
        self.failures = failures
        self.breaks = breaks
        self.openings = 0
        self.tasks: list[Any] = []

    @asynccontextmanager
    async def __call__(self):
        self.openings += 1
        self.tasks.append(trio.lowlevel.current_task())
        await trio.sleep(1)
        if self.failures:
            self.failures -= 1
            raise OSError(f"failure {self.openings}")
        async with trio.open_nursery() as nursery:  # may only be left by the task that entered it
            if self.breaks:
                nursery.start_soon(self._break)
            yield self
        self.tasks.append(trio.lowlevel.current_task())

    async def _break(self) -> None:
        raise OSError("broke while in use")


async def test_it_is_opened_once_for_all_who_ask_at_the_same_time_and_closed_by_the_task_that_opened_it(autojump_clock):
    thing, got = Thing(), []
    async with trio.open_nursery() as session:
        resource = Resource(session, thing)

        async def ask():
            got.append(await resource.get())

        async with trio.open_nursery() as askers:
            for _ in range(20):
                askers.start_soon(ask)
        assert await resource.get() is thing
        assert got == [thing] * 20
        assert thing.openings == 1
        resource.close()
    assert thing.tasks[0] is thing.tasks[1]
    assert thing.tasks[0] is not trio.lowlevel.current_task()


async def test_nothing_is_opened_that_nobody_asks_for(autojump_clock):
    thing = Thing()
    async with trio.open_nursery() as session:
        Resource(session, thing).close()
    assert thing.openings == 0


async def test_a_failed_opening_is_raised_to_everyone_who_waits_and_tried_again_by_the_next(autojump_clock):
    thing, errors = Thing(failures=1), []
    async with trio.open_nursery() as session:
        resource = Resource(session, thing)

        async def ask():
            try:
                await resource.get()
            except OSError as error:
                errors.append(str(error))

        async with trio.open_nursery() as askers:
            for _ in range(3):
                askers.start_soon(ask)
        assert errors == ["failure 1"] * 3
        assert await resource.get() is thing
        assert thing.openings == 2
        resource.close()


async def test_a_first_asker_that_is_cancelled_takes_nothing_from_the_second(autojump_clock):
    thing, got = Thing(), []
    async with trio.open_nursery() as session:
        resource = Resource(session, thing)

        async def second():
            await trio.sleep(0.2)
            got.append(await resource.get())

        async with trio.open_nursery() as askers:
            askers.start_soon(second)
            with trio.move_on_after(0.5) as scope:
                await resource.get()
            assert scope.cancelled_caught
        assert got == [thing]
        assert thing.openings == 1
        resource.close()


async def test_one_that_breaks_while_in_use_ends_its_session_with_its_error(autojump_clock):
    async def use():
        async with open_nursery() as session:
            await Resource(session, Thing(breaks=True)).get()
            await trio.sleep_forever()

    with pytest.raises(OSError, match="broke while in use"):
        await use()


async def test_asking_after_the_session_has_ended_is_an_error_every_time(autojump_clock):
    async with trio.open_nursery() as session:
        resource = Resource(session, Thing())
    for _ in range(2):
        with trio.fail_after(1), pytest.raises(RuntimeError, match="Nursery is closed"):
            await resource.get()
