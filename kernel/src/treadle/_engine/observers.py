"""Passing a run's events on to its observers, none of which can slow it down or break it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

import trio

from treadle.contracts.events import Observer, RunEvent, RunWarning, TextEmitted
from treadle.redaction import Redactor

__all__ = ["CallbackObserver", "Hub"]

_BOUND = 1024


class CallbackObserver:
    """A plain function as an observer."""

    def __init__(self, function: Callable[[RunEvent], object]) -> None:
        self._function = function

    async def observe(self, event: RunEvent) -> None:
        """Call the function."""
        self._function(event)


class Hub:
    """Every observer of a run, each with its own queue and task."""

    def __init__(self, run_id: str, observers: Sequence[Observer], redactor: Redactor | None = None) -> None:
        self._run_id = run_id
        self._redactor = redactor or Redactor()
        self._queues = [_Queue(observer) for observer in observers]
        self.active = bool(observers)

    def start(self, nursery: trio.Nursery) -> None:
        """Begin to pass events on. The tasks end after :meth:`close`, when everything has been passed on."""
        for queue in self._queues:
            nursery.start_soon(self._serve, queue)

    def send(self, event: RunEvent) -> None:
        """Queue an event for every observer, without what may not leave the run. Never waits."""
        for told in self._redactor.events(event) if self._redactor.is_active else (event,):
            for queue in self._queues:
                queue.put(told)

    def close(self) -> None:
        """No event follows."""
        for queue in self._queues:
            queue.close()

    async def _serve(self, queue: _Queue) -> None:
        while (event := await queue.get()) is not None:
            try:
                await queue.observer.observe(event)
            except Exception as error:
                self._queues.remove(queue)
                self.send(
                    RunWarning(
                        run_id=self._run_id,
                        step_id=None,
                        message=f"observer {type(queue.observer).__name__} failed and hears no more of this run: "
                        f"{type(error).__name__}: {error}",
                    )
                )
                return


class _Queue:
    """Events for one observer. Beyond the bound, text of a step is joined instead of queued piece by piece."""

    def __init__(self, observer: Observer) -> None:
        self.observer = observer
        self._events: deque[RunEvent] = deque()
        self._joined: dict[str, list[TextEmitted]] = {}
        self._closed = False
        self._wake = trio.Event()

    def put(self, event: RunEvent) -> None:
        if type(event) is TextEmitted and len(self._events) >= _BOUND:
            self._joined.setdefault(event.step_id, []).append(event)
            return
        step_id = getattr(event, "step_id", None)
        if self._joined and step_id in self._joined:
            self._flush(step_id)
        if self._closed and self._events:
            self._events.insert(len(self._events) - 1, event)  # only another observer's end is told so late
        elif not self._closed:
            self._events.append(event)
        self._wake.set()

    def close(self) -> None:
        self._closed = True
        self._wake.set()

    async def get(self) -> RunEvent | None:
        while True:
            if not self._events and self._joined:
                self._flush(next(iter(self._joined)))
            if self._events:
                return self._events.popleft()
            if self._closed:
                return None
            self._wake = trio.Event()
            await self._wake.wait()

    def _flush(self, step_id: str) -> None:
        pieces = self._joined.pop(step_id)
        text = "".join(piece.text for piece in pieces)
        self._events.append(TextEmitted(run_id=pieces[0].run_id, step_id=step_id, text=text))
