"""Graphviz' DOT (https://graphviz.org/doc/info/lang.html)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from treadle_graph.text import inner_graphs, short_label, visible

if TYPE_CHECKING:
    from treadle_graph.graph import WorkflowGraph

__all__ = ["draw"]


def draw(graph: WorkflowGraph) -> str:
    """The digraph, top down; steps that choose are diamonds, and workflows that steps run are clusters."""
    lines = [
        f"digraph {_quoted(_escaped(visible(graph.name)))} {{",
        '    node [shape=box, style=rounded, fontname="Helvetica,Arial,sans-serif"];',
        '    edge [fontname="Helvetica,Arial,sans-serif", fontsize=10];',
        *_steps(graph, "", "    "),
    ]
    for number, (path, inner) in enumerate(inner_graphs(graph)):
        lines.append(f"    subgraph cluster_{number} {{")
        lines.append(f"        label={_quoted(_escaped(visible(path)))};")
        lines += [*_steps(inner, f"{path}.", "        "), "    }"]
    lines.append("}")
    return "\n".join(lines) + "\n"


def _steps(graph: WorkflowGraph, prefix: str, indent: str) -> Iterator[str]:
    choosing = {edge.source for edge in graph.edges if edge.by_choice}
    for node in graph.nodes:
        text = f"{_escaped(visible(node.id))}\\n{_escaped(visible(node.type))}"
        if node.when:
            text += f"\\nwhen {_escaped(short_label(node.when))}"
        shape = ', shape=diamond, style=""' if node.id in choosing else ""
        yield f"{indent}{_quoted(prefix + node.id)} [label={_quoted(text)}{shape}];"
    for edge in graph.edges:
        label = f" [label={_quoted(_escaped(short_label(edge.label)))}]" if edge.label else ""
        yield f"{indent}{_quoted(prefix + edge.source)} -> {_quoted(prefix + edge.target)}{label};"
    for edge in graph.order:
        dashed = "[style=dashed, constraint=false]"
        yield f"{indent}{_quoted(prefix + edge.source)} -> {_quoted(prefix + edge.target)} {dashed};"


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '\\"') + '"'


def _escaped(text: str) -> str:
    r"""As a label wants it: ``\N`` would be the node's name and ``&lt;`` a character."""
    return text.replace("\\", "\\\\").replace("&", "&amp;")
