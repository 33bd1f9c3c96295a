"""Slots: how many steps of a run may be at work at once."""

from __future__ import annotations

from collections import deque

import trio

__all__ = ["Slot", "Slots"]


class Slots:
    """``limit`` slots. A step that comes back from a child run goes before steps that have not started."""

    __slots__ = ("_limit", "_returning", "_taken")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._taken = 0
        self._returning: deque[tuple[Slot, trio.Event]] = deque()

    def is_free(self) -> bool:
        """Whether a new step may start, once those that come back have been served."""
        while self._returning and self._taken < self._limit:
            slot, event = self._returning.popleft()
            if not slot.held and not slot.children:
                self._take(slot)
            event.set()
        return self._taken < self._limit

    def take(self) -> Slot:
        """One for a new step; only where :meth:`is_free`."""
        slot = Slot(self)
        self._take(slot)
        return slot

    def _take(self, slot: Slot) -> None:
        self._taken += 1
        slot.held = True

    def _give_back(self, slot: Slot) -> None:
        self._taken -= slot.held
        slot.held = False

    async def _take_again(self, slot: Slot) -> None:
        if self.is_free():
            self._take(slot)
            return
        entry = (slot, trio.Event())
        self._returning.append(entry)
        try:
            await entry[1].wait()
        finally:
            if not entry[1].is_set():
                self._returning.remove(entry)


class Slot:
    """One step's right to be at work: not held while child runs of the step are under way (``children`` many)."""

    __slots__ = ("_slots", "children", "held")

    def __init__(self, slots: Slots) -> None:
        self._slots = slots
        self.held = False
        self.children = 0

    def give_back(self) -> None:
        """Leave the slot to another step. Whoever does so then starts what may start."""
        self._slots._give_back(self)

    async def take_again(self) -> None:
        """Wait for a slot, in the order of asking; at once where it is held, or a child is under way again."""
        if not self.held and not self.children:
            await self._slots._take_again(self)
