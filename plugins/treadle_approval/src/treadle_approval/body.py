"""Bodies of webhooks: JSON whose values come from templates, so that no value can change its form.

A template is read as JSON when the document loads. Its texts are templates; a placeholder outside of a text stands for
a whole value. What is sent is written anew as JSON, so that quotes, backslashes and line ends in values stay values.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

__all__ = ["json_template", "json_text"]

_KEY = "body"
"""An argument tree is a mapping; the body need not be one."""
_TEXT = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_PLACEHOLDER = re.compile(r"\{\s*([A-Za-z_][^{}\s\"]*)\s*\}")
_WHOLE = re.compile(r"state\.\S+")


def json_template(written: str | Mapping[str, Any]) -> dict[str, Any]:
    """What the arguments of a body are compiled from.

    :raises ValueError: the text is no JSON, whatever its placeholders are filled with.
    """
    if not isinstance(written, str):
        return {_KEY: written}
    made, end = [], 0
    for text in _TEXT.finditer(written):
        made += [_with_values(written[end : text.start()]), text[0]]
        end = text.end()
    made.append(_with_values(written[end:]))
    try:
        return {_KEY: json.loads("".join(made), strict=False, parse_constant=_refuse)}
    except json.JSONDecodeError as error:
        raise ValueError(
            f"body_template: not JSON: {error.msg} at line {error.lineno}, column {error.colno}; put texts in double "
            "quotes, or set another Content-Type among the headers"
        ) from None


def json_text(rendered: Mapping[str, Any]) -> bytes:
    """The body, of the rendered arguments."""
    return json.dumps(rendered[_KEY], ensure_ascii=True, allow_nan=False).encode("ascii")


def _with_values(between: str) -> str:
    """What stands between texts, with each placeholder as a text of its own that stands for the whole value."""
    return _PLACEHOLDER.sub(lambda found: json.dumps(_whole(found[1])), between)


def _whole(reference: str) -> str:
    return reference if _WHOLE.fullmatch(reference) and ":" not in reference else f"{{{reference}}}"


def _refuse(constant: str) -> Any:
    raise ValueError(f"body_template: not JSON: {constant}")
