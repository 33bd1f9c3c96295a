"""How a client tells the conversation that is waiting for it of what happens meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from treadle_loop.errors import AgentLoopError

__all__ = ["ON_RETRY", "ON_TEXT", "TextListener", "has_begun", "listening", "silence"]

ON_RETRY: ContextVar[Callable[[int, AgentLoopError, float], None] | None] = ContextVar("treadle_on_retry", default=None)
"""Told of each retry before its wait: the attempt that failed, its error, the seconds."""


class TextListener:
    """Passes the text of one reply on as it is written.

    :ivar has_begun: whether some of it has been passed on. What somebody has seen is not asked for again: neither a
        retry nor another client may begin the reply anew.
    """

    __slots__ = ("_tell", "has_begun")

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self.has_begun = False

    def __call__(self, text: str) -> None:
        self.has_begun = True
        self._tell(text)


ON_TEXT: ContextVar[TextListener | None] = ContextVar("treadle_on_text", default=None)
"""Told of a reply's text as it is written; set where somebody wants it."""


def has_begun() -> bool:
    """Whether somebody has seen text of the reply that is under way."""
    listener = ON_TEXT.get()
    return listener is not None and listener.has_begun


@contextmanager
def listening(
    on_retry: Callable[[int, AgentLoopError, float], None], on_text: Callable[[str], None] | None
) -> Iterator[None]:
    """Be told of one reply, for as long as the body lasts."""
    retry = ON_RETRY.set(on_retry)
    text = ON_TEXT.set(None if on_text is None else TextListener(on_text))
    try:
        yield
    finally:
        ON_RETRY.reset(retry)
        ON_TEXT.reset(text)


@contextmanager
def silence() -> Iterator[None]:
    """Nobody is shown the text of what is asked in the body."""
    text = ON_TEXT.set(None)
    try:
        yield
    finally:
        ON_TEXT.reset(text)
