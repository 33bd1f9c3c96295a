"""Problems of documents, counted for people."""

from __future__ import annotations

from collections.abc import Iterable

from treadle import Problem

__all__ = ["count_problems", "plural"]


def plural(count: int, word: str) -> str:
    """``1 step``, ``2 steps``."""
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def count_problems(problems: Iterable[Problem]) -> str:
    """``2 errors, 1 warning``."""
    severities = [problem.severity for problem in problems]
    counts = [(severities.count(severity), severity) for severity in ("error", "warning")]
    return ", ".join(plural(count, word) for count, word in counts if count) or "no problems"
