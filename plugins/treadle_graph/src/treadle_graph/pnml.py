"""Petri nets as PNML (ISO/IEC 15909-2, https://www.pnml.org): place/transition nets, as tools for them read.

A step is a transition. An edge is a place between two; an order-only edge is one too. What waits for nothing has a
place with a token before it, and what nothing waits for has a place after it. The targets that a step chooses between
share one place: one of them takes its token. A step that waits for several of these alternatives never has all its
tokens, whereas a run lets it start after the one that was taken: a net of this kind has no word for that.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

from treadle_graph.text import short_label, visible

if TYPE_CHECKING:
    from treadle_graph.graph import WorkflowGraph

__all__ = ["draw"]

_NAMESPACE = "http://www.pnml.org/version-2009/grammar/pnml"
_KIND = "http://www.pnml.org/version-2009/grammar/ptnet"
_NOT_XML = re.compile("[^\\t\\n\\r\\x20-\\ud7ff\\ue000-\\ufffd\\U00010000-\\U0010ffff]")
"""Characters that XML 1.0 cannot hold, not even escaped."""


def draw(graph: WorkflowGraph) -> str:
    """The net. The same graph gives the same text."""
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f'<pnml xmlns="{_NAMESPACE}">',
        f'  <net id="net" type="{_KIND}">',
        f"    {_name(graph.name)}",
        '    <page id="page">',
        *(f"      {line}" for line in _parts(graph)),
        "    </page>",
        "  </net>",
        "</pnml>",
    ]
    return "\n".join(lines) + "\n"


def _parts(graph: WorkflowGraph) -> Iterator[str]:
    transition = {node.id: f"t{index}" for index, node in enumerate(graph.nodes)}
    for node in graph.nodes:
        yield f'<transition id="{transition[node.id]}">{_name(node.id)}</transition>'
    arcs: list[tuple[str, str]] = []
    for step_id in graph.roots:
        place = f"start_{transition[step_id]}"
        yield f'<place id="{place}"><initialMarking><text>1</text></initialMarking></place>'
        arcs.append((place, transition[step_id]))
    choosing: set[str] = set()
    for edge in (*graph.edges, *graph.order):
        source, target = transition[edge.source], transition[edge.target]
        place = f"choice_{source}" if edge.by_choice else f"{source}_{target}"
        if place not in choosing:
            if edge.by_choice:
                choosing.add(place)
            yield f'<place id="{place}">{_name(f"after {edge.source}")}</place>'
            arcs.append((source, place))
        arcs.append((place, target))
    for step_id in graph.leaves:
        place = f"end_{transition[step_id]}"
        yield f'<place id="{place}"/>'
        arcs.append((transition[step_id], place))
    labels = {(transition[edge.source], transition[edge.target]): edge.label for edge in graph.edges if edge.by_choice}
    for number, (source, target) in enumerate(arcs):
        label = labels.get((source.removeprefix("choice_"), target)) if source.startswith("choice_") else None
        # The only text that the standard gives to an arc is its weight; tools leave what is theirs to others alone.
        note = f'<toolspecific tool="treadle" version="1">{_name(short_label(label))}</toolspecific>' if label else ""
        yield f'<arc id="a{number}" source="{source}" target="{target}"{f">{note}</arc>" if note else "/>"}'


def _name(text: str) -> str:
    legal = _NOT_XML.sub("\ufffd", visible(text))
    return f"<name><text>{escape(legal)}</text></name>"
