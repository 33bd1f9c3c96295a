"""JSON Schemas as llama.cpp's grammar takes them.

llama.cpp turns a schema into a grammar that the reply cannot leave. Of regular expressions it knows only a part, and
where it meets another part it writes a warning to stderr and takes any string instead. So ``pattern`` is put into its
part of the language here, or left out; whoever asked for the schema checks the reply against the whole of it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from treadle.schemas import with_inside

__all__ = ["grammar_pattern", "grammar_schema"]

# Escapes that llama.cpp's converter does not know, as the inside of a character class.
_CLASSES = {"d": "0-9", "w": "A-Za-z0-9_", "s": " \\t\\r\\n"}
_KNOWN_ESCAPES = frozenset("ntr")
# A group that does more than group, or a lazy or possessive quantifier.
_GROUP_OR_LAZY = re.compile(r"\(\?(?!:)|[*+?}][?+]")


def grammar_schema(schema: Any, dropped: list[str] | None = None, path: str = "") -> Any:
    """The schema with its patterns rewritten for llama.cpp, and without those that it cannot express.

    Defaults are left out too: whoever asked for the schema fills them in. The schema given is not changed.

    :param dropped: takes the place of each pattern that is left out, such as ``properties.name.pattern``.
    """
    if not isinstance(schema, Mapping):
        return schema
    tidy = {key: value for key, value in schema.items() if key != "default"}
    if isinstance(pattern := tidy.pop("pattern", None), str):
        if (known := grammar_pattern(pattern)) is not None:
            tidy["pattern"] = known
        elif dropped is not None:
            dropped.append(f"{path}.pattern".lstrip("."))
    return with_inside(tidy, lambda each, place: grammar_schema(each, dropped, f"{path}.{place}".lstrip(".")))


def grammar_pattern(pattern: str) -> str | None:
    """The same regular expression in the words that llama.cpp's grammar knows, or None where it has none for it.

    It wants both anchors, none inside, no look-around and no escape but of punctuation; ``\\d \\w \\s`` are spelt out.
    """
    try:
        re.compile(pattern)
    except re.error:
        return None
    if len(pattern) < 2 or not pattern.startswith("^") or not pattern.endswith("$"):
        return None
    body = pattern[1:-1]
    out: list[str] = []
    in_class = False
    index = 0
    while index < len(body):
        char = body[index]
        step = 1
        if char == "\\":
            escaped = body[index + 1 : index + 2]
            step = 2
            if escaped in _CLASSES:
                out.append(_CLASSES[escaped] if in_class else f"[{_CLASSES[escaped]}]")
            elif not escaped or (escaped.isalnum() and escaped not in _KNOWN_ESCAPES):
                return None
            else:
                out.append(char + escaped)
        elif in_class:
            in_class = char != "]"
            out.append(char)
        elif char in "^$" or _GROUP_OR_LAZY.match(body, index):
            return None
        else:
            in_class = char == "["
            out.append(char)
        index += step
    return f"^{''.join(out)}$"
