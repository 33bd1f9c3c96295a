"""Docstrings and tables as Markdown."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Sequence

__all__ = ["cell", "prose", "table"]

_FIELD = re.compile(r"^:(?:param|cvar) ([\w ,]+): *|^:raises ([\w, ]+): *|^:returns?: *", re.MULTILINE)


def prose(docstring: str) -> str:
    """A docstring as paragraphs and lists."""
    text = _inline(inspect.cleandoc(docstring))
    text = re.sub(r"^\.\. code-block:: python\n\n((?:    .*\n|\n)+)", _program, text + "\n", flags=re.MULTILINE)
    # Fields become items of a list; a blank line goes before the first.
    text = _FIELD.sub(lambda found: f"- {_field(found)}", text)
    text = re.sub(r"(?<=\n)(?!- |\n)(.+)\n- ", r"\1\n\n- ", text)
    return text.strip()


def cell(docstring: str) -> str:
    """A docstring as one cell of a table."""
    return re.sub(r"\s+", " ", _inline(inspect.cleandoc(docstring))).replace("|", "\\|").strip()


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; its cells are Markdown."""
    return "\n".join(f"| {' | '.join(each)} |" for each in (head, ["---"] * len(head), *rows))


def _inline(text: str) -> str:
    text = re.sub(r":\w+:`~?([^`]+)`", r"`\1`", text)
    return re.sub(r"``([^`]+)``", r"`\1`", text)


def _program(found: re.Match[str]) -> str:
    return f"```text\n{inspect.cleandoc(found[1])}\n```\n\n"


def _field(found: re.Match[str]) -> str:
    if found[1]:
        return f"`{found[1]}`: "
    return f"raises `{found[2]}`: " if found[2] else "gives "
