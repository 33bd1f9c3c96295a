"""Nurseries whose lone error comes out as itself.

trio hands every error of a nursery over in an exception group (PEP 654), even when there is one and it came
from the body. That is right for code that runs many tasks of equal rank, and wrong for a context manager that
merely keeps a helper task: its user would have to know how it is made.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

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


@asynccontextmanager
async def open_nursery() -> AsyncIterator[trio.Nursery]:
    """Like :func:`trio.open_nursery`, except that a lone error is raised as itself."""
    try:
        async with trio.open_nursery() as nursery:
            yield nursery
    except BaseExceptionGroup as group:
        error = lone_error(group)
        if error is group:
            raise
        # Its cause and context stay; the group is how the error travelled and says nothing.
        context = error.__context__
        try:
            raise error
        finally:
            error.__context__ = context
