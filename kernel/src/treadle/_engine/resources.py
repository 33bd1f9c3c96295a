"""Things that are opened on first use and live as long as a session or a run."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import field
from typing import Generic, TypeVar

import trio

from treadle._dataclasses import dataclass
from treadle.errors import TreadleError

__all__ = ["Resource"]

T = TypeVar("T")


@dataclass(slots=True)
class _Opening(Generic[T]):
    """One try to open: settled when ``event`` is set; then there is a value or an error."""

    event: trio.Event = field(default_factory=trio.Event)
    value: tuple[T] | None = None
    error: BaseException | None = None


class Resource(Generic[T]):
    """One async context manager, entered when it is first needed, in a task of its own.

    The task belongs to the nursery given, not to whoever asked first: so a nursery or cancel scope inside the
    resource is closed by the task that opened it, and an asker that is cancelled takes nothing down.
    A resource that could not be opened is tried again by the next asker.
    """

    def __init__(self, nursery: trio.Nursery, factory: Callable[[], AbstractAsyncContextManager[T]]) -> None:
        self._nursery = nursery
        self._factory = factory
        self._opening: _Opening[T] | None = None
        self._closing = trio.Event()

    async def get(self) -> T:
        """The open resource.

        :raises Exception: whatever opening it raised.
        """
        opening = self.begin()
        await opening.event.wait()
        if opening.value is not None:
            return opening.value[0]
        raise opening.error or TreadleError("the session is closing")

    def begin(self) -> _Opening[T]:
        """Begin to open it, where that has not begun."""
        if self._opening is None:
            opening = _Opening[T]()
            self._nursery.start_soon(self._keep, opening)
            self._opening = opening
        return self._opening

    def close(self) -> None:
        """Let the resource's task end; the nursery waits for it."""
        self._closing.set()

    async def _keep(self, opening: _Opening[T]) -> None:
        try:
            async with self._factory() as value:
                opening.value = (value,)
                opening.event.set()
                await self._closing.wait()
        except Exception as error:
            if opening.value is not None:
                raise  # it broke while in use: that is the session's to know
            opening.error, self._opening = error, None
        finally:
            opening.event.set()
