"""Nurseries whose lone error comes out as itself.

trio hands every error of a nursery over in an exception group (PEP 654), even when there is one and it came
from the body. That is right for code that runs many tasks of equal rank, and wrong for a context manager that
merely keeps a helper task: its user would have to know how it is made.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from types import TracebackType

import trio

__all__ = ["lone_error", "open_nursery"]


def lone_error(error: BaseException) -> BaseException:
    """The one error inside nested groups, or the error itself where there are several.

    Cancellations do not count beside an error: they are its consequence, and their scopes have caught theirs.
    """
    while isinstance(error, BaseExceptionGroup):
        cancelled, rest = error.split(trio.Cancelled)
        group = error if cancelled is None or rest is None else rest
        if len(group.exceptions) != 1:
            return group
        error = group.exceptions[0]
    return error


class _Opened:
    """Not made by contextlib: every run has two, and a generator costs as much as the nursery itself."""

    __slots__ = ("_manager",)

    def __init__(self) -> None:
        self._manager = trio.open_nursery()

    async def __aenter__(self) -> trio.Nursery:
        return await self._manager.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        try:
            return await self._manager.__aexit__(kind, error, trace)
        except BaseExceptionGroup as group:
            lone = lone_error(group)
            if lone is group:
                raise
            # Its cause and context stay; the group is how the error travelled and says nothing.
            context = lone.__context__
            try:
                raise lone
            finally:
                lone.__context__ = context


def open_nursery() -> AbstractAsyncContextManager[trio.Nursery]:
    """Like :func:`trio.open_nursery`, except that a lone error is raised as itself."""
    return _Opened()
