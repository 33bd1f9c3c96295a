"""The tool ``my_tool``."""

from __future__ import annotations

from typing import Annotated

from treadle import tool

__all__ = ["my_tool"]


@tool(name="my_tool", effect="pure")
def my_tool(text: Annotated[str, "the text"]) -> dict[str, int]:
    """Count the words and characters of a text."""
    return {"words": len(text.split()), "characters": len(text)}
