"""The driver of cancellations: what it lets pass, and what it says of each kind of bad manners."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import pytest
import trio
import trio.lowlevel

from treadle.testing import check_cancellation
from treadle.testing.cancellation import cut_at


async def test_every_checkpoint_is_reached_once() -> None:
    reached: list[int] = []

    async def three_naps() -> None:
        reached.append(0)
        for number in range(1, 4):
            await trio.lowlevel.checkpoint()
            reached[-1] = number

    await check_cancellation(three_naps)
    assert reached == [0, 1, 2, 3]


async def test_checkpoints_of_child_tasks_count_too() -> None:
    seen: list[str] = []

    async def child(name: str) -> None:
        try:
            await trio.lowlevel.checkpoint()
            await trio.lowlevel.checkpoint()
        except trio.Cancelled:
            seen.append(name)
            raise

    async def family() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(child, "a")
            nursery.start_soon(child, "b")

    await check_cancellation(family, what="the family")
    assert {"a", "b"} <= set(seen)


async def test_a_time_limit_of_its_own_and_a_shielded_clean_up_are_good_manners() -> None:
    async def polite() -> None:
        with trio.move_on_after(0):
            await trio.sleep(1)
        try:
            await trio.lowlevel.checkpoint()
        finally:
            with trio.CancelScope(shield=True):
                await trio.lowlevel.checkpoint()

    await check_cancellation(polite)


async def test_a_thread_is_waited_for() -> None:
    await check_cancellation(lambda: trio.to_thread.run_sync(int, abandon_on_cancel=True))


async def test_a_call_that_swallows_is_named() -> None:
    async def swallows() -> None:
        with suppress(trio.Cancelled):
            await trio.lowlevel.checkpoint()

    with pytest.raises(AssertionError, match="the nap swallowed a cancellation at its checkpoint 1 and went on"):
        await check_cancellation(swallows, what="the nap")


async def test_only_the_second_checkpoint_may_be_the_bad_one() -> None:
    async def swallows() -> str:
        await trio.lowlevel.checkpoint()
        try:
            await trio.lowlevel.checkpoint()
        except BaseException:
            return "partial"
        return "whole"

    assert (await cut_at(swallows, 1)).ended == "cancelled"
    with pytest.raises(AssertionError, match="at its checkpoint 2"):
        await check_cancellation(swallows)


async def test_one_that_never_stops_trying_is_given_up() -> None:
    async def stubborn() -> None:
        while True:
            try:
                await trio.sleep(0.001)
                return
            except trio.Cancelled:
                continue

    with pytest.raises(AssertionError, match="swallowed a cancellation"):
        await check_cancellation(stubborn)


async def test_a_cancellation_turned_into_another_error_is_named() -> None:
    async def wraps() -> None:
        try:
            await trio.lowlevel.checkpoint()
        except BaseException as error:
            raise ValueError("broke") from error

    with pytest.raises(AssertionError, match=r"came out as ValueError: broke; trio.Cancelled must not be turned"):
        await check_cancellation(wraps)


async def test_an_error_of_its_own_comes_out_as_it_is() -> None:
    async def fails() -> None:
        await trio.lowlevel.checkpoint()
        raise KeyError("x")

    with pytest.raises(KeyError):
        await check_cancellation(fails)


async def test_a_socket_left_open_is_named() -> None:
    async def leaks() -> None:
        one, other = socket.socketpair()
        await trio.lowlevel.checkpoint()
        one.close()
        other.close()

    with pytest.raises(AssertionError, match=r"it left something open: unclosed <socket"):
        await check_cancellation(leaks)


async def test_an_async_generator_left_open_is_named() -> None:
    async def numbers() -> AsyncIterator[int]:
        try:
            yield 1
        finally:
            await trio.lowlevel.checkpoint()

    async def leaks() -> None:
        async for _ in numbers():
            break
        await trio.lowlevel.checkpoint()

    with pytest.raises(AssertionError, match="it left something open: Async generator"):
        await check_cancellation(leaks)


async def test_a_coroutine_never_awaited_is_named() -> None:
    async def forgets() -> None:
        trio.lowlevel.checkpoint()  # type: ignore[unused-coroutine]  # noqa: ASYNC105 - that is the point
        await trio.lowlevel.checkpoint()

    with pytest.raises(AssertionError, match="was never awaited"):
        await check_cancellation(forgets)


async def test_a_system_task_left_behind_is_named() -> None:
    async def forever() -> None:
        await trio.sleep_forever()

    tasks: list[Any] = []

    async def leaks() -> None:
        tasks.append(trio.lowlevel.spawn_system_task(forever, name="straggler"))
        await trio.lowlevel.checkpoint()

    with pytest.raises(AssertionError, match="it left tasks behind: straggler, straggler; every task belongs"):
        await check_cancellation(leaks)
