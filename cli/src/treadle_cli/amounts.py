"""Times, tokens and money as people read them."""

from __future__ import annotations

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


def tokens(count: int | None) -> str:
    """``1,234 tokens``; None is an unknown number."""
    return "tokens unknown" if count is None else f"{count:,} token{'' if count == 1 else 's'}"


def cost(usd: float | None, budget: float | None = None) -> str:
    """``$0.0012``: cents where it is dollars, two digits that count where it is less; None is unknown, 0 is ``$0``.
    With a budget, ``$0.0012 of $0.01``."""
    if budget is not None:
        return f"{cost(usd)} of {cost(budget)}"
    if usd is None:
        return "cost unknown"
    if usd == 0:
        return "$0"
    if usd >= 1:
        return f"${usd:,.2f}"
    if usd >= 0.01:
        return f"${usd:.3f}"
    text = f"{usd:.7f}" if usd < 0.0001 else f"{usd:.5f}"
    return f"${text.rstrip('0')}" if float(text) else "under $0.0000001"


def total_cost(known_usd: float, *, is_whole: bool, budget: float | None = None) -> str:
    """As :func:`cost` of what is known; where some of it is not: ``cost unknown (at least $0.0012)``."""
    if is_whole:
        return cost(known_usd, budget)
    at_least = f" (at least {cost(known_usd)})" if known_usd else ""
    return f"cost unknown{at_least}" + ("" if budget is None else f", budget {cost(budget)}")
