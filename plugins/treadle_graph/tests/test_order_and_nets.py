"""Order-only edges in every drawing, and graphs as Petri nets."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Callable

import treadle
from treadle import Host, Step, StepContext, StepOutcome, Template
from treadle.testing import offering
from treadle_graph import WorkflowGraph

Sketch = Callable[..., WorkflowGraph]
NET = "{http://www.pnml.org/version-2009/grammar/pnml}"


class Use(Step):
    text: Template | None = None

    async def run(self, ctx: StepContext) -> StepOutcome:
        return StepOutcome()


def ordered(sketch: Sketch) -> WorkflowGraph:
    return sketch({"a": [], "b": [], "c": ["b"]}, order=[("a", "c")])


def test_order_only_edges_are_those_of_the_checked_workflow():
    steps = [
        {"id": "write", "type": "use", "output": "x"},
        {"id": "other", "type": "use"},
        {"id": "read", "type": "use", "depends_on": ["other"], "text": "{state.x}"},
    ]
    host = Host.of({"t": offering({"step_type": {"use": Use}})})
    graph = WorkflowGraph.of(treadle.build_workflow({"name": "t", "steps": steps}, host=host))
    assert [(edge.source, edge.target) for edge in graph.order] == [("write", "read")]
    assert [(edge.source, edge.target) for edge in graph.edges] == [("other", "read")]


def test_order_only_edges_are_drawn_dashed_and_change_nothing_else(sketch: Sketch):
    graph = ordered(sketch)
    assert graph.to_mermaid().endswith("    s_b --> s_c\n    s_a -.-> s_c\n")
    assert '"a" -> "c" [style=dashed, constraint=false];' in graph.to_dot()
    svg = graph.to_svg()
    assert svg.count('<path class="line"') == 1
    assert svg.count('<path class="line order"') == 1
    assert "after a" in graph.to_text()
    assert graph.to_dict()["order"] == [{"source": "a", "target": "c"}]
    assert (graph.roots, graph.leaves, graph.critical_path()) == (("a", "b"), ("a", "c"), ("b", "c"))


def net(graph: WorkflowGraph) -> tuple[set[str], dict[str, int], set[tuple[str, str]]]:
    """Transitions by name, places with their tokens, arcs."""
    root = ET.fromstring(graph.to_pnml())
    assert root.tag == f"{NET}pnml"
    (page,) = root.iter(f"{NET}page")
    names = {each.attrib["id"]: each.findtext(f"{NET}name/{NET}text") or "" for each in page.iter(f"{NET}transition")}
    tokens = {
        each.attrib["id"]: int(each.findtext(f"{NET}initialMarking/{NET}text") or 0)
        for each in page.iter(f"{NET}place")
    }
    arcs = {(each.attrib["source"], each.attrib["target"]) for each in page.iter(f"{NET}arc")}
    ids = [each.attrib["id"] for each in root.iter() if "id" in each.attrib]
    assert len(ids) == len(set(ids))
    assert all(end in names or end in tokens for arc in arcs for end in arc)
    assert all((source in names) != (target in names) for source, target in arcs)
    return set(names.values()), tokens, arcs


def fired(graph: WorkflowGraph) -> list[str]:
    """The steps in an order in which the net lets them fire, the first that may each time."""
    _, tokens, arcs = net(graph)
    left, order = [f"t{index}" for index in range(len(graph.nodes))], []
    while True:
        for each in left:
            before = [source for source, target in arcs if target == each]
            if all(tokens[place] for place in before):
                for place in before:
                    tokens[place] -= 1
                for source, target in arcs:
                    tokens[target] = tokens.get(target, 0) + (source == each)
                order.append(graph.nodes[int(each[1:])].id)
                left.remove(each)
                break
        else:
            return order


def test_a_net_fires_each_step_once_after_what_it_waits_for(sketch: Sketch):
    diamond = sketch({"a": [], "b": ["a"], "c": ["a"], "d": ["b", "c"]})
    assert fired(diamond) == ["a", "b", "c", "d"]
    assert fired(sketch({"later": ["first"], "first": []})) == ["first", "later"]


def test_an_order_only_edge_holds_in_a_net(sketch: Sketch):
    assert fired(sketch({"c": [], "a": []}, order=[("a", "c")])) == ["a", "c"]


def test_of_the_targets_of_a_choice_one_fires(sketch: Sketch):
    graph = sketch({"r": [], "x": ["r"], "y": ["r"]}, {"r": {"x": "state.a < 1", "y": "default"}})
    assert fired(graph) == ["r", "x"]
    assert "state.a &lt; 1" in graph.to_pnml()


def test_a_net_is_the_same_each_time_and_holds_texts_written_to_break_it(attack: WorkflowGraph):
    assert attack.to_pnml() == attack.to_pnml()
    names, _, _ = net(attack)
    assert {"end", "graph.sub-1", "über", "choose"} <= names
