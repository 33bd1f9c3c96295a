"""A wire server in a thread of its own, for tests of programs that are synchronous."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

import trio

from wire.http_server import WireServer

__all__ = ["serving"]

Server = TypeVar("Server", bound=WireServer)


@contextmanager
def serving(kind: type[Server]) -> Iterator[Server]:
    """The server, until the body is left."""
    opened: queue.SimpleQueue[tuple[Server, trio.lowlevel.TrioToken, trio.Event]] = queue.SimpleQueue()

    async def serve() -> None:
        async with kind.open() as server:
            closing = trio.Event()
            opened.put((server, trio.lowlevel.current_trio_token(), closing))
            await closing.wait()

    thread = threading.Thread(target=trio.run, args=(serve,), name="wire-server")
    thread.start()
    server, token, closing = opened.get(timeout=30)
    try:
        yield server
    finally:
        token.run_sync_soon(closing.set)
        thread.join()
