"""Times, tokens and money as people read them; what other packages' commands tell of them too is the kernel's."""

from __future__ import annotations

from treadle.amounts import cost as _cost
from treadle.amounts import tokens

__all__ = ["cost", "duration", "tokens", "total_cost"]


def duration(seconds: float) -> str:
    """``12 ms``, ``4.2 s``, ``3 m 05 s``, ``2 h 07 m``."""
    if seconds < 0.0995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} m {rest:02} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} m"


def cost(usd: float | None, budget: float | None = None) -> str:
    """``$0.0012``; with a budget, ``$0.0012 of $0.01``."""
    return _cost(usd) if budget is None else f"{_cost(usd)} of {_cost(budget)}"


def total_cost(known_usd: float, *, is_whole: bool, budget: float | None = None) -> str:
    """As :func:`cost` of what is known; where some of it is not: ``cost unknown (at least $0.0012)``."""
    if is_whole:
        return cost(known_usd, budget)
    at_least = f" (at least {cost(known_usd)})" if known_usd else ""
    return f"cost unknown{at_least}" + ("" if budget is None else f", budget {cost(budget)}")
