"""The server that takes answers: its listeners, its connections, its end."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from functools import partial

import trio

from treadle import Session
from treadle_approval.continuing import Continuations
from treadle_approval.http import exchange
from treadle_approval.routes import Routes, is_loopback

__all__ = ["open_listeners", "serve"]

MOST_CONNECTIONS = 128


async def open_listeners(host: str, port: int) -> list[trio.SocketListener]:
    """Sockets that listen there; port 0 picks a free one.

    :raises OSError: they cannot be had.
    """
    return await trio.open_tcp_listeners(port, host=host, backlog=MOST_CONNECTIONS)


async def serve(
    session: Session,
    listeners: Collection[trio.SocketListener],
    *,
    host: str,
    token: str | None = None,
    most_runs: int = 16,
    say: Callable[[str], object] = lambda line: None,
    now: Callable[[], float] = time.time,
    task_status: trio.TaskStatus[Callable[[str], object]] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Take answers to what the runs of a session's journal wait for, and go on with them, until it is stopped.

    :param host: what the listeners were opened for.
    :param token: what every request must have.
    :param most_runs: runs under way at once.
    :param task_status: is given what stops it: called with a reason it cancels the runs, which are waited for.
    :raises ValueError: other machines may ask, and there is no token.
    """
    if token is None and not is_loopback(host):
        raise ValueError(f"without a token this server is for this machine only, and {host} is not")
    here = {host.lower(), f"[{host.lower()}]"} if is_loopback(host) else None
    async with trio.open_nursery() as runs_nursery:
        runs = Continuations(session, runs_nursery, most=most_runs, say=say, now=now)
        routes = Routes(session, runs, token=token, hosts=here, say=say, now=now)
        connections = trio.CapacityLimiter(MOST_CONNECTIONS)

        async def handle(stream: trio.SocketStream) -> None:
            try:
                connections.acquire_nowait()
            except trio.WouldBlock:
                await trio.aclose_forcefully(stream)
                return
            try:
                await exchange(stream, routes.answer)
            except Exception as error:  # a fault of ours, in one connection: the runs of all others go on
                say(f"error: a request could not be answered: {type(error).__name__}: {error}")
            finally:
                connections.release()

        async with trio.open_nursery() as nursery:

            def stop(reason: str) -> None:
                runs.stop(reason)
                nursery.cancel_scope.cancel()

            nursery.start_soon(runs.watch)
            await nursery.start(partial(trio.serve_listeners, handle, list(listeners)))
            task_status.started(stop)
