"""Texts in drawings: on one line, harmless, cut to size."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from treadle_graph.graph import WorkflowGraph

__all__ = ["cell_width", "cut", "inner_graphs", "short_label", "visible"]

MOST_INNER = 50
"""How many of the workflows inside are drawn."""

LABEL_LENGTH = 30
"""A condition is cut after so many characters; two more are let pass, as the mark of a cut is not shorter."""

# Characters of these categories draw nothing, move what follows (bidirectional overrides), or are in no text at all.
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def visible(text: str) -> str:
    r"""Text on one line, with everything that is not a character to look at written as ``\x1b`` or ``\u202e``."""
    return "".join(_shown(char) for char in " ".join(text.split()))


def _shown(char: str) -> str:
    if char.isascii() and char.isprintable():
        return char
    # Joiners are part of emoji and of some scripts.
    if unicodedata.category(char) not in _HIDDEN or char in "\u200c\u200d":
        return char
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def short_label(label: str, mark: str = "…") -> str:
    """The beginning of a condition, as it stands on an edge."""
    text = visible(label)
    return text if len(text) <= LABEL_LENGTH + 2 else text[:LABEL_LENGTH].rstrip() + mark


def cell_width(text: str) -> int:
    """How many columns of a terminal the text takes: East Asian wide characters two, marks that combine none."""
    if text.isascii():
        return len(text)
    return sum(map(_cells, text))


def _cells(char: str) -> int:
    if unicodedata.combining(char) or unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in ("W", "F") else 1


def cut(text: str, cells: int, mark: str = "…") -> str:
    """The text, or as much of it as fits into so many columns with a mark behind it."""
    if cell_width(text) <= cells:
        return text
    kept: list[str] = []
    left = cells - cell_width(mark)
    for char in text:
        left -= _cells(char)
        if left < 0:
            break
        kept.append(char)
    return "".join(kept) + mark


def inner_graphs(graph: WorkflowGraph) -> Iterator[tuple[str, WorkflowGraph]]:
    """The workflows that steps run, each with the dotted id of its step; each once, however often it is run."""
    seen: set[int] = set()
    pending = [("", graph)]
    while pending:
        above, here = pending.pop(0)
        for node in here.nodes:
            if node.inner is not None and id(node.inner) not in seen and len(seen) < MOST_INNER:
                seen.add(id(node.inner))
                pending.append((f"{above}{node.id}.", node.inner))
                yield f"{above}{node.id}", node.inner
