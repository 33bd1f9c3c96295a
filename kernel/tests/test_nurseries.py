"""Nurseries that hand over a lone error as itself, and the law of what a lone error is."""

from __future__ import annotations

import traceback

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from treadle.nurseries import lone_error, open_nursery


def grouped(error: BaseException, depth: int) -> BaseException:
    for _ in range(depth):
        error = BaseExceptionGroup("group", [error])
    return error


def cancelled() -> trio.Cancelled:
    """A cancellation as trio raises it."""

    async def main() -> trio.Cancelled:
        with trio.CancelScope() as scope:
            scope.cancel()
            try:
                await trio.lowlevel.checkpoint()
            except trio.Cancelled as error:
                found.append(error)
                raise
        return found[0]

    found: list[trio.Cancelled] = []
    return trio.run(main)


CANCELLED = cancelled()


@given(st.integers(0, 6))
def test_the_one_error_in_groups_of_any_depth_is_the_lone_error(depth):
    error = ValueError("x")
    assert lone_error(grouped(error, depth)) is error


@given(st.integers(0, 4), st.integers(0, 4), st.integers(1, 3))
def test_cancellations_beside_an_error_do_not_count(inner, outer, cancellations):
    error = ValueError("x")
    group = BaseExceptionGroup("both", [grouped(error, inner), *[grouped(CANCELLED, inner)] * cancellations])
    assert lone_error(grouped(group, outer)) is error


@given(st.integers(0, 4))
def test_a_lone_cancellation_is_itself(depth):
    assert lone_error(grouped(CANCELLED, depth)) is CANCELLED


@given(st.integers(0, 4))
def test_of_several_errors_there_is_no_lone_one_and_cancellations_are_left_out(depth):
    errors = [ValueError("x"), KeyError("y")]
    found = lone_error(grouped(BaseExceptionGroup("all", [*errors, CANCELLED]), depth))
    assert isinstance(found, ExceptionGroup)
    assert list(found.exceptions) == errors


@given(st.recursive(st.just(None), lambda inner: st.lists(inner, min_size=1, max_size=3), max_leaves=6))
def test_the_lone_error_of_a_lone_error_is_itself(shape):
    def build(node):
        return ValueError("x") if node is None else ExceptionGroup("g", [build(each) for each in node])

    once = lone_error(build(shape))
    assert lone_error(once) is once


async def test_an_error_of_the_body_leaves_a_nursery_as_itself():
    async def body():
        async with open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            raise ValueError("mine")

    with pytest.raises(ValueError, match=r"^mine$"):
        await body()


async def test_an_error_of_a_task_leaves_a_nursery_as_itself():
    async def fail():
        raise ValueError("mine")

    async def body():
        async with open_nursery() as nursery:
            nursery.start_soon(fail)
            await trio.sleep_forever()

    with pytest.raises(ValueError, match=r"^mine$"):
        await body()


async def test_two_errors_leave_as_a_group():
    async def fail():
        raise KeyError("theirs")

    async def body():
        async with open_nursery() as nursery:
            nursery.start_soon(fail)
            raise ValueError("mine")

    with pytest.raises(ExceptionGroup) as caught:
        await body()
    assert {type(error) for error in caught.value.exceptions} == {ValueError, KeyError}


async def test_the_error_keeps_its_cause_its_context_and_its_traceback_and_shows_no_group():
    async def fail():
        try:
            {}["cause"]
        except KeyError as error:
            raise ValueError("mine") from error

    async def fail_again():
        try:
            {}["context"]
        except KeyError:
            raise ValueError("mine")  # noqa: B904 - the implicit context is what is tested

    for function, connection in (
        (fail, "direct cause of the following"),
        (fail_again, "During handling of the above exception"),
    ):
        with pytest.raises(ValueError, match="mine") as caught:
            async with open_nursery() as nursery:
                nursery.start_soon(function)
        text = "".join(traceback.format_exception(caught.value))
        assert connection in text
        assert "KeyError" in text
        assert f"in {function.__name__}" in text
        assert "ExceptionGroup" not in text


async def test_a_cancellation_from_outside_passes_through_a_nursery():
    with trio.move_on_after(0) as scope:
        async with open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            await trio.sleep_forever()
    assert scope.cancelled_caught
