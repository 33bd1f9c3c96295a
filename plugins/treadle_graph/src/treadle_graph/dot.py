"""Graphviz' DOT (https://graphviz.org/doc/info/lang.html)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from treadle_graph.text import short_label, visible

if TYPE_CHECKING:
    from treadle_graph.graph import WorkflowGraph

__all__ = ["draw"]


def draw(graph: WorkflowGraph) -> str:
    """The digraph, top down; steps that choose are diamonds."""
    choosing = {edge.source for edge in graph.edges if edge.by_choice}
    lines = [
        f"digraph {_quoted(_escaped(visible(graph.name)))} {{",
        '    node [shape=box, style=rounded, fontname="Helvetica,Arial,sans-serif"];',
        '    edge [fontname="Helvetica,Arial,sans-serif", fontsize=10];',
    ]
    for node in graph.nodes:
        label = _quoted(f"{_escaped(visible(node.id))}\\n{_escaped(visible(node.type))}")
        shape = ', shape=diamond, style=""' if node.id in choosing else ""
        lines.append(f"    {_quoted(node.id)} [label={label}{shape}];")
    for edge in graph.edges:
        label = f" [label={_quoted(_escaped(short_label(edge.label)))}]" if edge.label else ""
        lines.append(f"    {_quoted(edge.source)} -> {_quoted(edge.target)}{label};")
    dashed = "[style=dashed, constraint=false]"
    lines += [f"    {_quoted(edge.source)} -> {_quoted(edge.target)} {dashed};" for edge in graph.order]
    lines.append("}")
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '\\"') + '"'


def _escaped(text: str) -> str:
    r"""As a label wants it: ``\N`` would be the node's name and ``&lt;`` a character."""
    return text.replace("\\", "\\\\").replace("&", "&amp;")
