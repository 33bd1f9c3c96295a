"""The events of one exchange, made from the pieces of a body as they arrive."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from treadle.messages import StreamEvent
    from treadle_http.pump import Pumped

__all__ = ["Reply", "ReplyEvents"]


class Reply(Protocol):
    """A reply that is put together from pieces of bytes. Pure: no async code and no I/O."""

    def feed(self, piece: bytes) -> list[StreamEvent]:
        """The events in the next piece. Raises a ``ProviderError`` where it holds one, or cannot be read."""
        ...

    def end(self) -> list[StreamEvent]:
        """The events that the end of the body completes. Raises where it came too early."""
        ...

    def is_complete(self) -> bool:
        """Whether the last event has been given."""
        ...


class ReplyEvents:
    """Iterates over some events at once, and then over those in a body.

    :param ready: the events that are there already; all of them, where there are no pieces.
    """

    def __init__(
        self, ready: Iterable[StreamEvent] = (), *, pieces: Pumped[bytes] | None = None, reply: Reply | None = None
    ) -> None:
        self._ready: deque[StreamEvent] = deque(ready)
        self._pieces = pieces
        self._reply = reply

    def __aiter__(self) -> ReplyEvents:
        return self

    async def __anext__(self) -> StreamEvent:
        while not self._ready:
            if self._pieces is None or self._reply is None or self._reply.is_complete():
                raise StopAsyncIteration
            pieces = await self._pieces.arrived()
            self._ready.extend(self._reply.feed(b"".join(pieces)) if pieces else self._reply.end())
            if self._reply.is_complete():
                self._pieces.complete()
        return self._ready.popleft()
