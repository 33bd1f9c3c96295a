"""Cancellation at every point where it can arrive, and a look at what is left behind."""

from __future__ import annotations

import functools
import gc
import time
import types
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any, Literal, ParamSpec

import outcome
import trio

from treadle.nurseries import lone_error

__all__ = ["BlockingWarning", "Cut", "check_cancellation", "cut_at", "holding", "in_sentences", "leaving_nothing"]

P = ParamSpec("P")

_MOST = 5_000
_PATIENCE = 100
"""Cancellations that may be caught one after another before we stop waiting for the end."""


class BlockingWarning(UserWarning):
    """Something holds up everything else in the program while it works."""


async def check_cancellation(function: Callable[[], Awaitable[Any]], *, what: str = "it") -> None:
    """Call the function again and again, each time cancelled one checkpoint later, until it finishes undisturbed.

    Every call must let ``trio.Cancelled`` out, as itself. Nothing may be left: no task, no open file, socket or async
    generator, no coroutine that was never awaited.

    :param function: gives a new call each time. It must succeed where it is let.
    :param what: names it in the sentences.
    :raises AssertionError: with what it did, and at which checkpoint.
    """
    async with leaving_nothing(what):
        for number in range(1, _MOST):
            cut = await cut_at(function, number)
            cut.demand_manners(what)
            if cut.ended == "finished":
                return
    raise AssertionError(f"{what} is still under way after {_MOST} checkpoints")


@dataclass(slots=True)
class Cut:
    """How a call ended that was to be cancelled at its checkpoint ``number``.

    ``finished`` means that it ended before that checkpoint, or too late for the cancellation to arrive.
    """

    number: int
    ended: Literal["finished", "cancelled", "swallowed", "failed"]
    value: Any = None
    error: BaseException | None = None

    def demand_manners(self, what: str) -> None:
        """Raise AssertionError unless the call finished or was cancelled."""
        if self.ended == "swallowed":
            raise AssertionError(
                f"{what} swallowed a cancellation at its checkpoint {self.number} and went on; "
                "trio.Cancelled must always be raised again"
            )
        if self.ended == "failed":
            assert self.error is not None
            shown = f"{type(self.error).__name__}: {self.error}"
            raise AssertionError(
                f"a cancellation of {what} at its checkpoint {self.number} came out as {shown}; "
                "trio.Cancelled must not be turned into another error"
            ) from self.error


async def cut_at(function: Callable[[], Awaitable[Any]], number: int) -> Cut:
    """Call the function and cancel it at its checkpoint ``number``, counted over the call and all tasks it starts.

    :raises BaseException: what the call itself raises where no cancellation reached it.
    """
    watch = _Watch(number)
    value: Any = None
    failure: BaseException | None = None

    async def call() -> None:
        nonlocal value, failure
        watch.begin(trio.lowlevel.current_task())

        async def body() -> Any:
            return await function()

        with watch.scope:
            try:
                value = await _watched(body(), watch)
            except trio.Cancelled:
                raise
            except BaseException as error:
                if isinstance(error, BaseExceptionGroup) and error.split(trio.Cancelled)[1] is None:
                    raise
                failure = error
            watch.over = True

    trio.lowlevel.add_instrument(watch)
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(call)
    finally:
        trio.lowlevel.remove_instrument(watch)
    if failure is not None:
        if watch.delivered and not watch.gave_up and not isinstance(failure, AssertionError):
            return Cut(number, "failed", error=lone_error(failure))
        if not watch.gave_up:
            raise failure
    if watch.gave_up or (watch.delivered and not watch.scope.cancelled_caught):
        return Cut(number, "swallowed")
    if watch.scope.cancelled_caught:
        return Cut(number, "cancelled")
    return Cut(number, "finished", value=value)


class _Watch(trio.abc.Instrument):
    """Counts the checkpoints of a task and of those it starts, and cancels at one of them."""

    def __init__(self, number: int) -> None:
        self.scope = trio.CancelScope()
        self.delivered = 0
        self.gave_up = False
        self.over = False
        self._number = number
        self._ours: set[trio.lowlevel.Task] = set()

    def begin(self, task: trio.lowlevel.Task) -> None:
        self._ours.add(task)

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        if self.over or self._number <= 0 or not self._is_ours(task):
            return
        self._number -= 1
        if self._number == 0:
            self.scope.cancel()

    def _is_ours(self, task: trio.lowlevel.Task) -> bool:
        above = []
        each: trio.lowlevel.Task | None = task
        while each is not None and each not in self._ours:
            above.append(each)
            nursery = each.parent_nursery
            each = nursery.parent_task if nursery else None
        if each is None:
            return False
        self._ours.update(above)
        return True


class _Held(_Watch):
    """Measures how long a task and those it starts let nothing else run."""

    def __init__(self) -> None:
        super().__init__(0)
        self.longest = 0.0
        self._since = 0.0

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self._since = time.perf_counter()

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        if self._is_ours(task):
            self.note()

    def note(self) -> None:
        self.longest = max(self.longest, time.perf_counter() - self._since)


@contextmanager
def holding() -> Iterator[_Held]:
    """For what runs inside: ``longest`` is the most seconds between two of its checkpoints."""
    held, task = _Held(), trio.lowlevel.current_task()
    held.begin(task)
    held.before_task_step(task)
    trio.lowlevel.add_instrument(held)
    try:
        yield held
    finally:
        trio.lowlevel.remove_instrument(held)
        held.note()


@types.coroutine
def _watched(coroutine: Coroutine[Any, Any, Any], watch: _Watch) -> Generator[Any, Any, Any]:
    """The coroutine's course, unchanged, with a note of each cancellation that trio hands to it."""
    value: Any = None
    error: BaseException | None = None
    while True:
        try:
            message = coroutine.send(value) if error is None else coroutine.throw(error)
        except StopIteration as stop:
            return stop.value
        value = error = None
        try:
            value = yield message
        except GeneratorExit:
            coroutine.close()
            raise
        except BaseException as raised:
            error = raised
        if isinstance(value, outcome.Error) and isinstance(value.error, trio.Cancelled) and watch.scope.cancel_called:
            watch.delivered += 1
            if watch.delivered > _PATIENCE:
                watch.gave_up = True
                coroutine.close()
                return None


def in_sentences(check: Callable[P, Awaitable[None]]) -> Callable[P, Coroutine[Any, Any, None]]:
    """Let a suite raise AssertionError only: what else comes out of the plugin is a failure of the example."""

    @functools.wraps(check)
    async def checked(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            await check(*args, **kwargs)
        except AssertionError:
            raise
        except Exception as error:
            cause = lone_error(error)
            while isinstance(cause, BaseExceptionGroup):  # several of a kind: the first speaks for all
                cause = cause.exceptions[0]
            if isinstance(cause, AssertionError):
                raise cause from cause.__cause__
            raise AssertionError(f"the example failed with {type(cause).__name__}: {cause}") from cause

    return checked


@asynccontextmanager
async def leaving_nothing(what: str) -> AsyncIterator[None]:
    """Raise AssertionError at the end if anything was left behind inside.

    Where the body raises, that is told instead.
    """
    gc.collect()
    before = _system_tasks()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ResourceWarning)
        warnings.filterwarnings("always", message="coroutine .* was never awaited", category=RuntimeWarning)
        yield
        gc.collect()
        # trio finalizes async generators in a task of its own.
        for _ in range(3):
            await trio.lowlevel.checkpoint()
        left = _system_tasks() - before
    for warning in caught:
        text = str(warning.message)
        if issubclass(warning.category, ResourceWarning) or "was never awaited" in text:
            raise AssertionError(f"{what} left something open: {text.strip().splitlines()[0]}")
    names = sorted(task.name for task in left if not task.name.startswith("trio."))
    if names:
        raise AssertionError(f"{what} left tasks behind: {', '.join(names)}; every task belongs in a nursery")


def _system_tasks() -> set[trio.lowlevel.Task]:
    root = trio.lowlevel.current_root_task()
    return set() if root is None else {task for nursery in root.child_nurseries for task in nursery.child_tasks}
