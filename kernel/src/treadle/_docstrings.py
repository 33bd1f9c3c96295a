"""What a docstring says of each parameter, in the styles of Sphinx, Google and numpy."""

from __future__ import annotations

import re
from collections.abc import Mapping

__all__ = ["described"]

_SPHINX = re.compile(r":param(?:eter)?\s+(?:[^:\n]*\s)?\*{0,2}(\w+)\s*:\s*((?:.*)(?:\n[ \t]+\S.*)*)")
_HEADING = re.compile(
    r"^(?:(?P<google>Args|Arguments|Parameters)\s*:[ \t]*$|Parameters[ \t]*\n-{3,}[ \t]*$)", re.MULTILINE
)
_GOOGLE = re.compile(r"^([ \t]+)\*{0,2}(\w+)\s*(?:\([^\n]*?\))?\s*:[ \t]*(.*(?:\n\1[ \t]+\S.*)*)", re.MULTILINE)
_NUMPY = re.compile(r"^\*{0,2}(\w+)(?:[ \t]*:.*)?\n((?:[ \t]+\S.*(?:\n|$))+)", re.MULTILINE)
_FIELD = re.compile(r"^:\w", re.MULTILINE)
_SECTION_END = re.compile(r"\n\S")
_NUMPY_END = re.compile(r"\n\w[^\n]*\n-{3,}")


def described(docstring: str | None) -> tuple[str, Mapping[str, str]]:
    """What stands before the parameters, and the text of each parameter by its name.

    :param docstring: as ``inspect.getdoc`` gives it.
    """
    text = docstring or ""
    if (found := _HEADING.search(text)) is not None:
        section = text[found.end() :]
        end = (_SECTION_END if found["google"] else _NUMPY_END).search(section)
        section = section[: end.start()] if end else section
        if found["google"]:
            first = re.search(r"\n([ \t]+)\S", section)
            pairs = [(name, words) for indent, name, words in _GOOGLE.findall(section) if first and indent == first[1]]
        else:
            pairs = _NUMPY.findall(section)
        if pairs:
            return text[: found.start()].rstrip(), {name: _line(words) for name, words in pairs}
    pairs = _SPHINX.findall(text)
    if pairs and (field := _FIELD.search(text)) is not None:
        return text[: field.start()].rstrip(), {name: _line(words) for name, words in pairs}
    return text, {}


def _line(text: str) -> str:
    return " ".join(text.split())
