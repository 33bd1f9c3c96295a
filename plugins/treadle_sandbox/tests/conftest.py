"""A small HTTP server on the loopback address."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
import trio

Answer = Callable[[str, bytes], list[bytes]]
"""What to send, piece by piece, for a request's head and body."""


def _content_length(head: bytes) -> int:
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return int(line.partition(b":")[2])
    return 0


@asynccontextmanager
async def _serve(answer: Answer) -> AsyncIterator[str]:
    async def connection(stream: trio.SocketStream) -> None:
        data = b""
        try:
            while True:
                while b"\r\n\r\n" not in data:
                    more = await stream.receive_some()
                    if not more:
                        return
                    data += more
                head, _, data = data.partition(b"\r\n\r\n")
                length = _content_length(head)
                while len(data) < length:
                    data += await stream.receive_some()
                pieces = answer(head.decode(), data[:length])
                for piece in pieces:
                    await stream.send_all(piece)
                data = data[length:]
                if b"Connection: close" in pieces[0]:
                    return
        except trio.BrokenResourceError:
            return
        finally:
            await trio.aclose_forcefully(stream)

    async with trio.open_nursery() as nursery:
        listeners: Any = await nursery.start(partial(trio.serve_tcp, connection, 0, host="127.0.0.1"))
        yield f"http://127.0.0.1:{listeners[0].socket.getsockname()[1]}"
        nursery.cancel_scope.cancel()


@pytest.fixture
def serve() -> Any:
    """``async with serve(answer) as url``."""
    return _serve


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
