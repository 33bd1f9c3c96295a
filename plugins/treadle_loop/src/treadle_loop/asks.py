"""What the loop asks of the world. It does nothing itself: a driver answers, with trio or without."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from treadle import ModelRequest, ToolCallPart

__all__ = ["Ask", "AskModel", "AskTime", "RunTools"]


@dataclass(frozen=True, slots=True)
class AskModel:
    """Send the request; the answer is a ``ModelResponse``. ``iteration`` counts the loop's model calls from 1."""

    request: ModelRequest
    iteration: int


@dataclass(frozen=True, slots=True)
class RunTools:
    """Run these calls; the answer is one ``ToolResultPart`` for each, in this order.

    :param at_once: whether they may run side by side; otherwise one after another, in this order.
    """

    calls: Sequence[ToolCallPart]
    at_once: bool


@dataclass(frozen=True, slots=True)
class AskTime:
    """What time is it? The answer is seconds on a clock that never goes back."""


Ask = AskModel | RunTools | AskTime
