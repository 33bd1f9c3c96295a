"""Ctrl-C and SIGTERM end a run with a result; a second one ends the program at once."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

import trio

__all__ = ["Interrupts", "cancel_on_signals"]

_REASONS = {signal.SIGINT: "interrupted by Ctrl-C", signal.SIGTERM: "terminated by SIGTERM"}

_GRACE = 0.3
"""Seconds in which a further signal counts as the same one: a parent that passes Ctrl-C on makes two of it."""


@dataclass(slots=True)
class Interrupts:
    """The first signal that came, or None."""

    received: int | None = None
    at: float = 0.0

    @property
    def exit_code(self) -> int | None:
        """130 for Ctrl-C, 143 for SIGTERM, None where no signal came."""
        return None if self.received is None else 128 + self.received


@contextmanager
def cancel_on_signals(cancel: Callable[[str], object]) -> Iterator[Interrupts]:
    """Call ``cancel`` with a reason, in the loop, when the first signal comes.

    Handlers of our own rather than :func:`trio.open_signal_receiver`: a task sees a signal only when the loop turns,
    and the second Ctrl-C is for the day when some plugin blocks the loop.
    """
    interrupts = Interrupts()
    if threading.current_thread() is not threading.main_thread():
        yield interrupts
        return
    token = trio.lowlevel.current_trio_token()

    def handle(number: int, _frame: FrameType | None) -> None:
        now = time.monotonic()
        if interrupts.received is None:
            interrupts.received, interrupts.at = number, now
            token.run_sync_soon(cancel, _REASONS[signal.Signals(number)])
        elif now - interrupts.at > _GRACE:
            _leave(number)

    # What the program was started to ignore (nohup, a background job of a script) stays ignored.
    heeded = [number for number in _REASONS if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, handle) for number in heeded}
    try:
        yield interrupts
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _leave(number: int) -> None:
    """End at once: no clean-up, no flush, except that the terminal gets its cursor back."""
    if sys.__stderr__ is not None and os.isatty(2):
        os.write(2, b"\x1b[?25h\n")
    os._exit(128 + number)
