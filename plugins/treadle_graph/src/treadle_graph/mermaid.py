"""Mermaid flowcharts.

The syntax is that of https://mermaid.js.org/syntax/flowchart.html. Texts stand in quotes, and what could end them or
mean something inside them is written as an entity code (``#quot;``, ``#35;``), as that page says.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from treadle_graph.text import inner_graphs, short_label, visible

if TYPE_CHECKING:
    from treadle_graph.graph import WorkflowGraph

__all__ = ["draw"]

# `#` and `;` make entity codes; `&`, `<` and `>` HTML; `%%` comments and `%%{` directives, which are looked for inside
# quotes too; with its colon, a text such as `style:#a;` would be taken for a style, and `fa:fa-x` for an icon; `$$`
# begins a formula, `\n` a new line; the others are Markdown, which some versions apply to every text.
_SPECIAL = re.compile(r"""["#;&<>`%{}:\\*$~]""")

# At the beginning Markdown would see a list ("1. send") or a heading, and Mermaid draws "Unsupported markdown".
_LIST = re.compile(r"^(\d+[.)]|[-+])(?=\s)")

_PLAIN_ID = re.compile(r"[A-Za-z0-9_]+")


def draw(graph: WorkflowGraph) -> str:
    """The flowchart, top down; steps that choose are rhombs, and workflows that steps run are boxes of their own."""
    lines = ["flowchart TD", *_steps(graph, "", "    ")]
    for number, (path, inner) in enumerate(inner_graphs(graph)):
        lines.append(f'    subgraph inner{number}["{_escaped(visible(path))}"]')
        lines += [*_steps(inner, f"i{number}_", "        "), "    end"]
    return "\n".join(lines) + "\n"


def _steps(graph: WorkflowGraph, prefix: str, indent: str) -> Iterator[str]:
    names = [prefix + _name(node.id, index) for index, node in enumerate(graph.nodes)]
    name_of = {node.id: name for node, name in zip(graph.nodes, names, strict=True)}
    choosing = {edge.source for edge in graph.edges if edge.by_choice}
    for node, name in zip(graph.nodes, names, strict=True):
        text = f"{_escaped(visible(node.id))}<br/>{_escaped(visible(node.type))}"
        if node.when:
            text += f"<br/>when {_escaped(short_label(node.when))}"
        yield f'{indent}{name}{{"{text}"}}' if node.id in choosing else f'{indent}{name}["{text}"]'
    for edge in graph.edges:
        label = _escaped(short_label(edge.label)) if edge.label else ""
        arrow = f'-->|"{label}"|' if label else "-->"
        yield f"{indent}{name_of[edge.source]} {arrow} {name_of[edge.target]}"
    for edge in graph.order:
        yield f"{indent}{name_of[edge.source]} -.-> {name_of[edge.target]}"


def _name(step_id: str, index: int) -> str:
    """What the step is called in the source. With two prefixes none is a keyword such as `end`, and none is twice."""
    return f"s_{step_id}" if _PLAIN_ID.fullmatch(step_id) else f"n{index}"


def _escaped(text: str) -> str:
    text = _SPECIAL.sub(lambda found: "#quot;" if found[0] == '"' else f"#{ord(found[0])};", text)
    return _LIST.sub(lambda found: found[0][:-1] + f"#{ord(found[0][-1])};", text)
