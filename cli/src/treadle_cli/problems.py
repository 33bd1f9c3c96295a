"""Problems of documents, counted for people and written as JSON for editors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from treadle import Problem

if TYPE_CHECKING:
    from treadle import Host
    from treadle_cli.output import Channel

__all__ = ["count_problems", "plural", "problem_json", "warn_of_plugins"]


def warn_of_plugins(host: Host, stderr: Channel) -> None:
    """Say what is wrong with the plugins themselves, one a line."""
    for error in host.problems():
        stderr.line(f"warning: {error}")


def plural(count: int, word: str) -> str:
    """``1 step``, ``2 steps``."""
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def count_problems(problems: Iterable[Problem]) -> str:
    """``2 errors, 1 warning``."""
    severities = [problem.severity for problem in problems]
    counts = [(severities.count(severity), severity) for severity in ("error", "warning")]
    return ", ".join(plural(count, word) for count, word in counts if count) or "no problems"


def problem_json(problem: Problem) -> dict[str, Any]:
    """A problem as ``--json`` has it; ``docs/errors.md`` says what each key means."""
    where = None
    if problem.line is not None and problem.column is not None:
        start = {"line": problem.line, "column": problem.column}
        end = {"line": problem.end_line, "column": problem.end_column} if problem.end_line is not None else start
        where = {"start": start, "end": end}
    return {
        "file": problem.file,
        "line": problem.line,
        "column": problem.column,
        "range": where,
        "path": problem.path,
        "severity": problem.severity,
        "code": problem.code,
        "message": problem.message,
        "hint": problem.hint,
        "fix": None if problem.fix is None else {"range": where, "text": problem.fix},
    }
