"""Streams that are left at any moment."""

from __future__ import annotations

import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import pytest
import trio

from treadle_http import pumped


class Source:
    """Numbers, one each second, through a chain of generators as SDKs have them."""

    def __init__(self, count: int = 1000, *, fail_after: int | None = None, linger: float = 0.0) -> None:
        self.count, self.fail_after, self.linger = count, fail_after, linger
        self.closed: list[str] = []

    async def inner(self) -> AsyncIterator[int]:
        try:
            for number in range(self.count):
                if number == self.fail_after:
                    raise OSError("lost")
                await trio.sleep(1)
                yield number
            await trio.sleep(self.linger)
        finally:
            self.closed.append("inner")

    async def outer(self) -> AsyncIterator[int]:
        try:
            async for number in self.inner():
                yield number
        finally:
            self.closed.append("outer")

    @asynccontextmanager
    async def __call__(self) -> AsyncIterator[AsyncIterator[int]]:
        try:
            yield self.outer()
        finally:
            self.closed.append("context")


async def test_all_items_come_in_order(autojump_clock: object) -> None:
    source = Source(3)
    async with pumped(source) as numbers:
        assert [number async for number in numbers] == [0, 1, 2]
    assert source.closed == ["inner", "outer", "context"]


async def test_leaving_early_unwinds_the_whole_chain_at_once(
    autojump_clock: object, recwarn: pytest.WarningsRecorder
) -> None:
    source = Source()
    async with pumped(source) as numbers:
        async for number in numbers:
            if number == 2:
                break
    assert source.closed == ["inner", "outer", "context"]
    gc.collect()
    assert [str(each.message) for each in recwarn] == []


async def test_a_slow_reader_does_not_hold_the_source_up(autojump_clock: object) -> None:
    async with pumped(Source(10)) as numbers:
        await trio.sleep(100)
        assert await numbers.arrived() == list(range(10))
        assert await numbers.arrived() == []


async def test_what_has_arrived_comes_in_one_piece_and_never_empty_before_the_end(autojump_clock: object) -> None:
    async with pumped(Source(5)) as numbers:
        assert await numbers.arrived() == [0]
        await trio.sleep(2.5)
        assert await numbers.arrived() == [1, 2]
        assert await numbers.arrived() == [3]


async def test_an_error_of_the_source_comes_after_its_items_and_stays(autojump_clock: object) -> None:
    async with pumped(Source(fail_after=2)) as numbers:
        await trio.sleep(10)
        assert await numbers.arrived() == [0, 1]
        for _ in range(2):
            with pytest.raises(OSError, match="lost"):
                await anext(numbers)


async def leave_with(error: BaseException, source: Source) -> None:
    async with pumped(source) as numbers:
        await anext(numbers)
        raise error


async def test_an_error_of_the_source_leaves_the_block_unwrapped(autojump_clock: object) -> None:
    async def read() -> None:
        async with pumped(Source(fail_after=1)) as numbers:
            async for _ in numbers:
                pass

    with pytest.raises(OSError, match="lost"):
        await read()


async def test_an_error_of_the_body_leaves_unwrapped_with_cause_and_context(autojump_clock: object) -> None:
    cause, context = KeyError("cause"), KeyError("context")
    error = ValueError("mine")
    error.__cause__, error.__context__ = cause, context
    source = Source()
    with pytest.raises(ValueError, match="mine") as caught:
        await leave_with(error, source)
    assert caught.value is error
    assert (error.__cause__, error.__context__) == (cause, context)
    assert source.closed == ["inner", "outer", "context"]


async def test_a_group_that_the_body_raised_stays_as_it_is(autojump_clock: object) -> None:
    group = ExceptionGroup("mine", [ValueError("one")])
    with pytest.raises(ExceptionGroup) as caught:
        await leave_with(group, Source())
    assert (caught.value.message, caught.value.exceptions) == ("mine", group.exceptions)


async def test_a_cancellation_from_outside_passes_through(autojump_clock: object) -> None:
    source = Source()
    with trio.move_on_after(5.5) as scope:
        async with pumped(source) as numbers:
            assert [await anext(numbers) for _ in range(5)] == [0, 1, 2, 3, 4]
            await trio.sleep_forever()
    assert scope.cancelled_caught
    assert source.closed == ["inner", "outer", "context"]


async def test_an_error_while_being_cancelled_is_not_wrapped(autojump_clock: object) -> None:
    async def fail(scope: trio.CancelScope) -> None:
        async with pumped(Source()) as numbers:
            await anext(numbers)
            scope.cancel()
            raise ValueError("mine")

    with trio.CancelScope() as scope, pytest.raises(ValueError, match="mine"):
        await fail(scope)


@pytest.mark.parametrize(("linger", "ended"), [(0.1, 0.1), (9.0, 0.25)])
async def test_a_reader_that_is_done_gives_the_source_a_moment_to_end(
    autojump_clock: object, linger: float, ended: float
) -> None:
    async with pumped(partial(Source(1, linger=linger))) as numbers:
        assert await anext(numbers) == 0
        numbers.complete()
        before = trio.current_time()
    assert trio.current_time() - before == pytest.approx(ended)
