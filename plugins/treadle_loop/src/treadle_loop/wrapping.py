"""Clients that stand around other clients, and how any client is asked."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine
from typing import Any, Self

from treadle.threads import await_on_callers_loop
from treadle_loop.conversations.toolbox import check_client
from treadle_loop.provider import ModelRequest

__all__ = ["WrappingClient", "complete_on_loop", "complete_on_trio", "is_async"]

Complete = Callable[[ModelRequest], Coroutine[Any, Any, Any]]


def is_async(client: Any) -> bool:
    """Whether what its ``complete`` gives is awaited."""
    return inspect.iscoroutinefunction(client.complete) or bool(getattr(client, "is_async", False))


async def complete_on_trio(client: Any, request: ModelRequest) -> Any:
    """What a client answers, awaited on trio: async ones where they belong, others in a thread."""
    complete_async = getattr(client, "complete_async", None)
    if complete_async is not None:
        return await complete_async(request)
    if inspect.iscoroutinefunction(client.complete):
        return await await_on_callers_loop(lambda: client.complete(request))
    import trio

    given = await trio.to_thread.run_sync(client.complete, request, abandon_on_cancel=True)
    return await await_on_callers_loop(lambda: given) if inspect.isawaitable(given) else given


async def complete_on_loop(client: Any, request: ModelRequest) -> Any:
    """What a client answers, awaited on whatever loop is running. A synchronous one is called here."""
    given = client.complete(request)
    return await given if inspect.isawaitable(given) else given


class WrappingClient:
    """A client that asks another one. What it does not say itself is that one's: name, model, hosted tools and all.

    :raises TypeError: that one is no client.
    """

    def __init__(self, client: Any) -> None:
        check_client(client)
        self.client = client

    def __getattr__(self, name: str) -> Any:
        if name == "client":  # not built yet, as when it is copied
            raise AttributeError(name)
        return getattr(self.client, name)

    @property
    def name(self) -> str:
        """The client's own."""
        return str(self.client.name)

    @property
    def model(self) -> str:
        """The client's own."""
        return str(self.client.model)

    @property
    def is_async(self) -> bool:
        """Whether what ``complete`` gives is awaited."""
        return is_async(self.client)

    def close(self) -> None:
        """Close the client, where it can be."""
        close = getattr(self.client, "close", None)
        if close is not None:
            close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()
