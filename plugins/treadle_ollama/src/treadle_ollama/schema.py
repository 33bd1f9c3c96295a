"""JSON Schemas as Ollama takes them for a reply's format: as llama.cpp turns them into a grammar.

https://docs.ollama.com/capabilities/structured-outputs; the whole request fails where the grammar cannot be made,
https://github.com/ggml-org/llama.cpp/blob/master/grammars/README.md#json-schemas--gbnf.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from treadle.schemas import with_inside
from treadle_http.dialects import SchemaRefused, inlined

__all__ = ["format_schema"]

# Anchored, and of nothing but plain characters, classes of them, groups, alternatives and greedy quantifiers: what
# every release of the converter knows.
_PATTERN = re.compile(
    r"\^(?:[A-Za-z0-9 _,;:@#%&=<>~!/-]|\\[.+*?()\[\]{}|^$\\/-]|\[\^?[A-Za-z0-9 _.,:;@#%+-]+\]|\((?!\?)|\)|\|"
    r"|(?<=[^(|^])(?:[*+?]|\{\d{1,3}(?:,\d{0,3})?\})(?![*+?{]))*\$"
)
_SAYS_WHAT = ("type", "properties", "$ref", "anyOf", "oneOf", "allOf", "enum", "const", "items", "prefixItems",
              "additionalProperties", "pattern")  # fmt: skip
_ANYTHING = ("object", "array", "string", "number", "boolean", "null")


def format_schema(schema: Mapping[str, Any], dropped: list[str] | None = None) -> dict[str, Any]:
    """The schema for ``format``: without references, but for those that lead back to themselves, without defaults, and
    without patterns that no grammar is made of. Whoever asked checks the reply against the whole schema, which is not
    changed.

    :param dropped: takes the place of each keyword that is left out, such as ``properties.name.pattern``.
    """
    try:
        whole = inlined(schema)
    except SchemaRefused:  # the server may know more of it
        whole = dict(schema)
    compiled: dict[str, Any] = _compiled(whole, "", [] if dropped is None else dropped)
    return compiled


def _compiled(schema: Any, path: str, dropped: list[str]) -> Any:
    if isinstance(schema, Mapping) and not any(key in schema for key in _SAYS_WHAT):
        return {**_without_default(schema), "type": list(_ANYTHING)}  # the converter knows no schema for any value
    if not isinstance(schema, Mapping):
        return {"type": list(_ANYTHING)} if schema is True and not path.endswith("additionalProperties") else schema
    made = _without_default(schema)
    if "pattern" in made and not (isinstance(made["pattern"], str) and _PATTERN.fullmatch(made["pattern"])):
        dropped.append(f"{path}.pattern".lstrip("."))
        del made["pattern"]
        made.setdefault("type", "string")
    return with_inside(made, lambda each, place: _compiled(each, f"{path}.{place}".lstrip("."), dropped))


def _without_default(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in schema.items() if key != "default"}
