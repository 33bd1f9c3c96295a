"""The graph of a workflow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any

from treadle_graph.dag import Dag

if TYPE_CHECKING:
    from treadle import Step, Workflow

__all__ = ["GraphEdge", "GraphNode", "WorkflowGraph"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphNode:
    """A step.

    :param depends_on: ids of the steps it waits for, as the document lists them, each once.
    :param label: what to call it in a drawing: id and type.
    :param when: the condition under which it runs; None where it always does.
    :param inner: the graph of the workflow that it runs; None where it runs none.
    """

    id: str
    type: str
    depends_on: tuple[str, ...]
    label: str
    when: str | None = None
    inner: WorkflowGraph | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphEdge:
    """``target`` waits for ``source``.

    :param label: the router's condition, or ``default``; None on an edge that is always taken.
    :param by_choice: whether ``source`` decides if the edge is taken.
    """

    source: str
    target: str
    label: str | None = None
    by_choice: bool = False


@dataclass(frozen=True, kw_only=True)
class WorkflowGraph:
    """The steps of a checked workflow and what they wait for. Everything is in the order of the document.

    :param name: the workflow's name.
    :param nodes: the steps.
    :param edges: by source, then by target.
    :param order: order-only edges: the target starts once the source has settled, and does not depend on it. They are
        drawn dashed, and are no part of layers and paths.
    """

    name: str
    nodes: tuple[GraphNode, ...]
    edges: tuple[GraphEdge, ...]
    order: tuple[GraphEdge, ...] = ()
    _steps: Mapping[str, Step] = field(repr=False, compare=False)
    _dag: Dag = field(repr=False, compare=False)

    @classmethod
    def of(cls, workflow: Workflow) -> WorkflowGraph:
        """The graph of a workflow.

        A target that a router names but that does not wait for the router has no edge from it: it runs whatever is
        chosen.

        :raises ValueError: the steps wait for each other; of a workflow that has been checked this is never so.
        """
        inner: dict[int, WorkflowGraph] = {}
        pending = [workflow]
        while pending:  # there may be any number of workflows below each other
            here = pending[-1]
            missing = [each for each in here.children.values() if id(each) not in inner]
            if missing:
                pending += missing
            else:
                pending.pop()
                inner[id(here)] = cls._of(here, inner)
        return inner[id(workflow)]

    @classmethod
    def _of(cls, workflow: Workflow, inner: Mapping[int, WorkflowGraph]) -> WorkflowGraph:
        below = {step_id: inner[id(each)] for (step_id, _), each in workflow.children.items()}
        steps = {step.id: step for step in workflow.steps}
        number = {step_id: index for index, step_id in enumerate(steps)}
        nodes = tuple(
            GraphNode(
                id=step.id,
                type=step.type,
                depends_on=tuple(dict.fromkeys(step.depends_on)),
                label=f"{step.id} ({step.type})",
                when=step.when.source if step.when else None,
                inner=below.get(step.id),
            )
            for step in steps.values()
        )
        dag = Dag.of([[number[each] for each in node.depends_on] for node in nodes])
        edges: list[GraphEdge] = []
        for source, step in enumerate(steps.values()):
            labels = step.targets()
            for child in dag.children[source]:
                target = nodes[child].id
                chosen = target in labels
                edges.append(GraphEdge(source=step.id, target=target, label=labels.get(target), by_choice=chosen))
        order = tuple(GraphEdge(source=source, target=target) for source, target in workflow.order)
        return cls(name=workflow.name, nodes=nodes, edges=tuple(edges), order=order, _steps=steps, _dag=dag)

    @property
    def dag(self) -> Dag:
        """The same graph by number: node ``n`` is ``nodes[n]``."""
        return self._dag

    @cached_property
    def roots(self) -> tuple[str, ...]:
        """Steps that wait for nothing."""
        return self._ids(index for index, parents in enumerate(self._dag.parents) if not parents)

    @cached_property
    def leaves(self) -> tuple[str, ...]:
        """Steps that nothing waits for."""
        return self._ids(index for index, children in enumerate(self._dag.children) if not children)

    @cached_property
    def layers(self) -> tuple[tuple[str, ...], ...]:
        """Steps by depth: all that a step waits for is in earlier layers, and something in the one before its own.

        A picture of the shape only. A run has no layers: a step starts when what it waits for has settled.
        """
        depths = self._dag.depths()
        layers: list[list[str]] = [[] for _ in range(max(depths, default=-1) + 1)]
        for node, depth in zip(self.nodes, depths, strict=True):
            layers[depth].append(node.id)
        return tuple(map(tuple, layers))

    def critical_path(self) -> tuple[str, ...]:
        """A path with the most steps, first to last. It says nothing of time.

        Of several equally long ones, the one that ends in the step that comes first in the document.
        """
        return self._ids(self._dag.longest_path())

    def all_paths(self, limit: int = 1000) -> tuple[tuple[str, ...], ...]:
        """Every path from a root to a leaf.

        :param limit: the most paths that are wanted; they are counted before any is made.
        :raises ValueError: there are more.
        """
        if self._dag.count_paths(limit + 1) > limit:
            raise ValueError(f"more than {limit:,} paths; raise the limit, or look at a part of the workflow")
        return tuple(map(self._ids, self._dag.paths()))

    def prime_paths(self, max_paths: int = 10_000) -> tuple[tuple[str, ...], ...]:
        """The prime paths: tests that run each of them have covered every way through the workflow.

        A path is simple if it visits no step twice (but may end where it began). A simple path is prime if it is not
        a proper subpath of another simple path: it cannot be made longer at either end (Ammann and Offutt,
        *Introduction to Software Testing*, on graph coverage). A workflow has no cycles, so every path is
        simple and a path can be made longer unless it begins at a root and ends at a leaf: the prime paths are exactly
        the paths from roots to leaves.

        :raises ValueError: there are more than ``max_paths``.
        """
        return self.all_paths(max_paths)

    def get_step(self, step_id: str) -> Step:
        """The step of that id.

        :raises KeyError: there is none.
        """
        try:
            return self._steps[step_id]
        except KeyError:
            raise KeyError(f"no step '{step_id}'") from None

    def to_dict(self) -> dict[str, Any]:
        """Plain data, fit for JSON: name, nodes, edges, order-only edges, roots, leaves and layers."""
        return {
            "name": self.name,
            "nodes": [
                {
                    "id": node.id,
                    "type": node.type,
                    "depends_on": list(node.depends_on),
                    "label": node.label,
                    **({} if node.when is None else {"when": node.when}),
                    **({} if node.inner is None else {"inner": node.inner.to_dict()}),
                }
                for node in self.nodes
            ],
            "edges": [
                {"source": edge.source, "target": edge.target, "label": edge.label, "by_choice": edge.by_choice}
                for edge in self.edges
            ],
            "order": [{"source": edge.source, "target": edge.target} for edge in self.order],
            "roots": list(self.roots),
            "leaves": list(self.leaves),
            "layers": [list(layer) for layer in self.layers],
        }

    def to_text(self, *, width: int = 80, ascii_only: bool = False) -> str:
        """A drawing for the terminal: one line a step, with rails for what waits for what.

        :param width: most columns a line may have; at least 40 are used.
        :param ascii_only: draw with ``|``, ``-`` and the like. Ids and conditions stay as they are.
        """
        from treadle_graph.terminal import draw

        return draw(self, width=width, ascii_only=ascii_only)

    def to_mermaid(self) -> str:
        """A Mermaid flowchart (https://mermaid.js.org/syntax/flowchart.html)."""
        from treadle_graph.mermaid import draw

        return draw(self)

    def to_dot(self) -> str:
        """A digraph in Graphviz' language (https://graphviz.org/doc/info/lang.html)."""
        from treadle_graph.dot import draw

        return draw(self)

    def to_svg(self) -> str:
        """An SVG document, drawn without any other program.

        :raises ValueError: the graph is too large to be drawn.
        """
        from treadle_graph.svg import draw

        return draw(self)

    def to_pnml(self) -> str:
        """A place/transition net in the Petri Net Markup Language (ISO/IEC 15909-2): each step is a transition, and
        fires once. What a step chooses between shares one place, so that one of them fires."""
        from treadle_graph.pnml import draw

        return draw(self)

    def to_networkx(self) -> Any:
        """A ``networkx.DiGraph`` with the fields of nodes and edges as attributes.

        :raises NotInstalledError: networkx is missing.
        """
        try:
            networkx = import_module("networkx")
        except ImportError as error:
            from treadle import NotInstalledError

            raise NotInstalledError(
                "networkx is not installed", hint="pip install 'treadle-graph[networkx]'"
            ) from error
        made = networkx.DiGraph(name=self.name)
        for node in self.nodes:
            made.add_node(node.id, type=node.type, depends_on=node.depends_on, label=node.label)
        for edge in self.edges:
            made.add_edge(edge.source, edge.target, label=edge.label, by_choice=edge.by_choice)
        return made

    def _ids(self, numbers: Any) -> tuple[str, ...]:
        return tuple(self.nodes[number].id for number in numbers)
