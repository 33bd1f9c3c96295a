"""What acme-tool offers. Nothing is imported from here until it is used."""

from __future__ import annotations

from collections.abc import Mapping

from treadle import Offer, hookimpl


@hookimpl
def treadle_tools() -> Mapping[str, Offer]:
    """The tool ``my_tool``."""
    return {"my_tool": Offer("acme_tool.tool:my_tool", "Count the words of a text")}
