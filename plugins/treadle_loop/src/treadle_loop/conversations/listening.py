"""How a client tells the conversation that is waiting for it of what happens meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from treadle_loop.errors import ProviderError

__all__ = ["ON_RETRY", "ON_TEXT", "listening"]

ON_RETRY: ContextVar[Callable[[int, ProviderError, float], None] | None] = ContextVar("treadle_on_retry", default=None)
"""Told of each retry before its wait: the attempt that failed, its error, the seconds."""

ON_TEXT: ContextVar[Callable[[str], None] | None] = ContextVar("treadle_on_text", default=None)
"""Told of a reply's text as it is written; set where somebody wants it."""


@contextmanager
def listening(
    on_retry: Callable[[int, ProviderError, float], None], on_text: Callable[[str], None] | None
) -> Iterator[None]:
    """Be told, for as long as the body lasts."""
    retry, text = ON_RETRY.set(on_retry), ON_TEXT.set(on_text)
    try:
        yield
    finally:
        ON_RETRY.reset(retry)
        ON_TEXT.reset(text)
