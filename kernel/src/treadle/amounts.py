"""Tokens and money as people read them, the same in every command."""

from __future__ import annotations

__all__ = ["cost", "tokens"]


def tokens(count: int | None) -> str:
    """``1,234 tokens``; None is an unknown number."""
    return "tokens unknown" if count is None else f"{count:,} token{'' if count == 1 else 's'}"


def cost(usd: float | None) -> str:
    """``$0.0012``: cents where it is dollars, two digits that count where it is less; None is unknown, 0 is ``$0``."""
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
