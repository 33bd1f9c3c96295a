"""The structure of a workflow, and laws that hold for every one."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import FrozenInstanceError
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import treadle
from treadle import NotInstalledError
from treadle_graph import GraphEdge, GraphNode, WorkflowGraph

ROOT = Path(__file__).parents[3]
Sketch = Callable[..., WorkflowGraph]

DIAMOND = {"a": [], "b": ["a"], "c": ["a"], "d": ["b", "c"]}


@pytest.fixture(scope="module")
def demo() -> WorkflowGraph:
    return WorkflowGraph.of(treadle.load_workflow(ROOT / "examples" / "demo.yaml", host=treadle.Host.discover()))


@st.composite
def dags(draw: st.DrawFn) -> dict[str, list[str]]:
    """Up to 12 steps, each waiting for some of those before it, in a document of any order."""
    count = draw(st.integers(1, 12))
    steps = {
        f"s{index}": [f"s{each}" for each in draw(st.sets(st.integers(0, index - 1), max_size=4))] if index else []
        for index in range(count)
    }
    return {name: steps[name] for name in draw(st.permutations(list(steps)))}


def test_the_demo_has_the_nodes_and_edges_of_its_file(demo: WorkflowGraph) -> None:
    assert [node.id for node in demo.nodes] == ["classify", "route", "billing_policy", "technical_policy", "reply"]
    assert demo.nodes[4] == GraphNode(
        id="reply", type="llm_call", depends_on=("billing_policy", "technical_policy"), label="reply (llm_call)"
    )
    assert demo.edges == (
        GraphEdge(source="classify", target="route"),
        GraphEdge(source="route", target="billing_policy", label='state.ticket.topic == "billing"', by_choice=True),
        GraphEdge(source="route", target="technical_policy", label="default", by_choice=True),
        GraphEdge(source="billing_policy", target="reply"),
        GraphEdge(source="technical_policy", target="reply"),
    )


def test_the_demo_has_its_shape(demo: WorkflowGraph) -> None:
    assert demo.name == "triage"
    assert (demo.roots, demo.leaves) == (("classify",), ("reply",))
    assert demo.layers == (("classify",), ("route",), ("billing_policy", "technical_policy"), ("reply",))
    assert demo.critical_path() == ("classify", "route", "billing_policy", "reply")
    assert demo.all_paths() == (
        ("classify", "route", "billing_policy", "reply"),
        ("classify", "route", "technical_policy", "reply"),
    )
    assert demo.prime_paths() == demo.all_paths()


def test_a_step_is_found_by_its_id(demo: WorkflowGraph) -> None:
    assert demo.get_step("route").type == "router"
    with pytest.raises(KeyError, match="no step 'rout'"):
        demo.get_step("rout")


def test_graphs_are_values(sketch: Sketch) -> None:
    one, other = sketch(DIAMOND), sketch(DIAMOND)
    assert one == other
    assert hash(one) == hash(other)
    with pytest.raises(FrozenInstanceError):
        one.name = "x"  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        one.nodes[0].id = "x"  # type: ignore[misc]


def test_a_target_that_does_not_wait_for_its_router_has_no_edge(sketch: Sketch) -> None:
    graph = sketch({"choose": [], "free": [], "held": ["choose"]}, {"choose": {"free": "x", "held": "y"}})
    assert [(edge.source, edge.target, edge.label) for edge in graph.edges] == [("choose", "held", "y")]


def test_a_dependency_named_twice_is_one_edge(sketch: Sketch) -> None:
    graph = sketch({"a": [], "b": ["a", "a"]})
    assert len(graph.edges) == 1
    assert graph.nodes[1].depends_on == ("a",)


def test_a_cycle_is_refused(sketch: Sketch) -> None:
    with pytest.raises(ValueError, match=r"^the steps wait for each other; a graph of steps has no cycles$"):
        sketch({"a": ["b"], "b": ["a"]})


def test_a_graph_without_steps_is_drawn_all_the_same(sketch: Sketch) -> None:
    graph = sketch({})
    assert (graph.layers, graph.critical_path(), graph.all_paths()) == ((), (), ())
    assert graph.to_text() == "sketch: 0 steps\n"
    assert graph.to_mermaid() == "flowchart TD\n"
    assert graph.to_svg().startswith("<svg ")


def test_too_many_paths_are_refused_before_any_is_made(sketch: Sketch) -> None:
    """40 diamonds in a row have 2 to the power of 40 paths."""
    steps: dict[str, list[str]] = {"d0": []}
    for index in range(40):
        steps |= {f"l{index}": [f"d{index}"], f"r{index}": [f"d{index}"], f"d{index + 1}": [f"l{index}", f"r{index}"]}
    graph = sketch(steps)
    with pytest.raises(
        ValueError, match=r"^more than 1,000 paths; raise the limit, or look at a part of the workflow$"
    ):
        graph.all_paths()
    with pytest.raises(ValueError, match=r"^more than 10,000 paths; "):
        graph.prime_paths()
    assert len(graph.critical_path()) == 81


def test_the_limit_itself_is_allowed(sketch: Sketch) -> None:
    graph = sketch(DIAMOND)
    assert len(graph.all_paths(limit=2)) == 2
    with pytest.raises(ValueError, match="more than 1 paths"):
        graph.all_paths(limit=1)


@given(dags())
def test_every_edge_leads_to_a_later_layer_and_every_step_hangs_on_the_one_before(steps: Mapping[str, Any]) -> None:
    graph = _graph(steps)
    layer_of = {step: number for number, layer in enumerate(graph.layers) for step in layer}
    assert sorted(layer_of) == sorted(steps)
    assert all(layer_of[edge.source] < layer_of[edge.target] for edge in graph.edges)
    for step, waits_for in steps.items():
        assert layer_of[step] == max((layer_of[each] + 1 for each in waits_for), default=0)
    assert len(graph.critical_path()) == len(graph.layers)


@given(dags())
def test_edges_are_the_dependencies_in_the_order_of_the_document(steps: Mapping[str, Any]) -> None:
    graph = _graph(steps)
    number = {step: index for index, step in enumerate(steps)}
    found = [(number[edge.source], number[edge.target]) for edge in graph.edges]
    assert found == sorted({(number[each], number[step]) for step, waits in steps.items() for each in waits})


@given(dags())
def test_paths_lead_along_edges_from_root_to_leaf_and_there_are_no_others(steps: Mapping[str, Any]) -> None:
    graph = _graph(steps)
    paths = graph.all_paths(limit=100_000)
    edges = {(edge.source, edge.target) for edge in graph.edges}
    for path in [*paths, graph.critical_path()]:
        assert path[0] in graph.roots
        assert path[-1] in graph.leaves
        assert set(pairwise(path)) <= edges
    assert len(set(paths)) == len(paths) == graph.dag.count_paths(100_000)
    assert max(map(len, paths)) == len(graph.critical_path())
    # Counted in another way: backwards, one step at a time.
    waiting: dict[str, int] = {}
    for step in [each for layer in reversed(graph.layers) for each in layer]:
        followers = [edge.target for edge in graph.edges if edge.source == step]
        waiting[step] = sum(waiting[each] for each in followers) if followers else 1
    assert len(paths) == sum(waiting[root] for root in graph.roots)


@given(dags())
def test_prime_paths_are_what_their_definition_says(steps: Mapping[str, Any]) -> None:
    graph = _graph(steps)
    edges = {(edge.source, edge.target) for edge in graph.edges}
    simple: list[tuple[str, ...]] = [(step,) for step in steps]
    for path in simple:  # the list grows while it is read
        simple.extend((*path, step) for step in steps if (path[-1], step) in edges)
        if len(simple) > 3000:
            return
    prime = {path for path in simple if not any(path != other and _is_within(path, other) for other in simple)}
    assert prime == set(graph.prime_paths())


def _is_within(path: Sequence[str], other: Sequence[str]) -> bool:
    return any(tuple(other[start : start + len(path)]) == tuple(path) for start in range(len(other)))


@given(dags())
def test_a_dict_of_a_graph_survives_json(steps: Mapping[str, Any]) -> None:
    data = _graph(steps).to_dict()
    assert json.loads(json.dumps(data)) == data
    assert [node["id"] for node in data["nodes"]] == list(steps)
    assert {node["id"]: sorted(node["depends_on"]) for node in data["nodes"]} == {
        step: sorted(waits_for) for step, waits_for in steps.items()
    }


def test_the_dict_of_the_demo_has_labels_of_routers(demo: WorkflowGraph) -> None:
    assert demo.to_dict()["edges"][2] == {
        "source": "route",
        "target": "technical_policy",
        "label": "default",
        "by_choice": True,
    }


def test_networkx_gets_nodes_and_edges_with_their_fields(demo: WorkflowGraph) -> None:
    import networkx

    graph = demo.to_networkx()
    assert networkx.is_directed_acyclic_graph(graph)
    assert list(graph.nodes) == [node.id for node in demo.nodes]
    assert graph.nodes["route"] == {"type": "router", "depends_on": ("classify",), "label": "route (router)"}
    assert graph.edges["route", "technical_policy"] == {"label": "default", "by_choice": True}
    assert len(networkx.dag_longest_path(graph)) == len(demo.critical_path())


def test_without_networkx_the_extra_is_named(demo: WorkflowGraph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "networkx", None)
    with pytest.raises(NotInstalledError) as caught:
        demo.to_networkx()
    assert str(caught.value) == "networkx is not installed; pip install 'treadle-graph[networkx]'"


def test_a_chain_of_100_000_steps_is_no_deeper_than_the_stack(sketch: Sketch) -> None:
    graph = sketch({f"s{index}": [f"s{index - 1}"] if index else [] for index in range(100_000)})
    assert len(graph.layers) == len(graph.critical_path()) == len(graph.all_paths()[0]) == 100_000
    assert graph.to_text().count("●") == 100_000
    assert graph.to_mermaid().count("-->") == graph.to_dot().count("->") == 99_999


def test_what_is_too_large_for_a_picture_is_refused(sketch: Sketch) -> None:
    graph = sketch({f"s{index}": [] for index in range(100_001)})
    with pytest.raises(
        ValueError, match=r"^the graph is too large to be drawn \(over 100,000 boxes and pieces of lines\); use"
    ):
        graph.to_svg()


def _graph(steps: Mapping[str, Sequence[str]]) -> WorkflowGraph:
    workflow: Any = _Workflow(steps)
    return WorkflowGraph.of(workflow)


class _Workflow:
    name = "random"
    order = ()
    children: Mapping[object, object] = {}

    def __init__(self, steps: Mapping[str, Sequence[str]]) -> None:
        self.steps = [_Step(step, waits_for) for step, waits_for in steps.items()]


class _Step:
    type = "task"
    when = None

    def __init__(self, step_id: str, depends_on: Sequence[str]) -> None:
        self.id, self.depends_on = step_id, depends_on

    def targets(self) -> Mapping[str, str]:
        return {}
