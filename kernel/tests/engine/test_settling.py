"""Which steps run and which are skipped: the scheduler's decisions against a slow model of the design's sentences."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, ClassVar, cast

import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st

import treadle
from treadle import Host
from treadle._document.graph import Graph
from treadle._engine.settling import Settling
from treadle.contracts.results import StepStatus
from treadle.contracts.step import Step, StepContext, StepOutcome
from treadle.errors import StepError
from treadle.testing import offering


@dataclass(frozen=True)
class Node:
    """A step as far as the graph looks at one, with what will come of it should it run."""

    id: str
    depends_on: tuple[str, ...]
    choices: tuple[str, ...]
    takes: frozenset[str]
    fails: bool
    after: tuple[str, ...] = ()

    def targets(self) -> Mapping[str, str]:
        return dict.fromkeys(self.choices, "")


@st.composite
def workflows(draw: st.DrawFn) -> list[Node]:
    """Steps in an order in which each comes after what it waits for, routers and failures among them."""
    count = draw(st.integers(1, 12))
    names = [f"s{number}" for number in range(count)]
    earlier = [names[:number] for number in range(count)]
    dependencies = [draw(st.sets(st.sampled_from(each), max_size=4)) if each else set() for each in earlier]
    nodes = []
    for number, name in enumerate(names):
        followers = [names[later] for later in range(count) if name in dependencies[later]]
        choices = draw(st.sets(st.sampled_from(followers))) if followers and draw(st.booleans()) else set()
        takes = draw(st.sets(st.sampled_from(sorted(choices)))) if choices else set()
        fails = draw(st.integers(0, 5)) == 0
        depends_on = draw(st.permutations(sorted(dependencies[number])))
        after = draw(st.sets(st.sampled_from(earlier[number]), max_size=3)) if earlier[number] else set()
        nodes.append(
            Node(name, tuple(depends_on), tuple(sorted(choices)), frozenset(takes), fails, tuple(sorted(after)))
        )
    return nodes


class Model:
    """The design, sentence by sentence, with no thought of speed. Order-only edges decide nothing: it has none."""

    def __init__(self, nodes: list[Node], *, pass_over_failures: bool) -> None:
        self.nodes = {node.id: node for node in nodes}
        self.pass_over = pass_over_failures
        self.fate = cache(self._fate)

    def status(self, name: str) -> str:
        return self.fate(name)[0]

    def _fate(self, name: str) -> tuple[str, Any]:
        """("ran ok" | "ran and failed" | "skipped: router" | "skipped: failure", whose fault)."""
        node = self.nodes[name]
        # "A step result may mark outgoing edges as not taken; a conditional target on such an edge is skipped."
        refusing = {each for each in node.depends_on if self.refused(each, name)}
        if refusing:
            return "skipped: router", refusing
        # "dependents of a failed step are skipped with the nearest failed ancestor named (continue runs them)"
        if not self.pass_over:
            nearest = self.nearest_failures(node)
            if nearest:
                return "skipped: failure", nearest
        # "A dependency skipped because of router R is excused only if another dependency lies on R's taken branch
        # and succeeded; otherwise the step is skipped, naming R."
        unexcused = {
            router
            for dependency in node.depends_on
            if self.status(dependency) == "skipped: router"
            for router in self.fate(dependency)[1]
            if not any(
                self.status(other) == "ran ok" and self.on_taken_branch(other, router) for other in node.depends_on
            )
        }
        if unexcused:
            return "skipped: router", unexcused
        return ("ran and failed" if node.fails else "ran ok"), None

    def refused(self, router: str, target: str) -> bool:
        chooser = self.nodes[router]
        return self.status(router) == "ran ok" and target in chooser.choices and target not in chooser.takes

    def on_taken_branch(self, name: str, router: str) -> bool:
        """It is a target that the router chose, or comes after one that is on the branch, and it ran."""
        if not self.status(name).startswith("ran"):
            return False
        node, chooser = self.nodes[name], self.nodes[router]
        chosen = router in node.depends_on and name in chooser.takes and self.status(router) == "ran ok"
        return chosen or any(self.on_taken_branch(each, router) for each in node.depends_on)

    def nearest_failures(self, node: Node) -> set[str]:
        """Going up through what was skipped for a failure, the failed steps that are met first."""
        level = list(node.depends_on)
        while level:
            failed = {each for each in level if self.status(each) == "ran and failed"}
            if failed:
                return failed
            level = [
                above
                for each in level
                if self.status(each) == "skipped: failure"
                for above in self.nodes[each].depends_on
            ]
        return set()


def settle_all(
    nodes: list[Node], choose: Any, *, pass_over_failures: bool
) -> tuple[dict[str, StepStatus], dict[str, str]]:
    """Run a workflow on the real thing, settling the running steps in the order that ``choose`` picks."""
    graph = Graph.of(cast("list[Step]", nodes), [(each, node.id) for node in nodes for each in node.after])
    settling = Settling(graph, pass_over_failures=pass_over_failures)
    reasons: dict[str, str] = {}
    running: list[int] = []
    started: set[int] = set()
    while True:
        while settling.has_ready:
            index = settling.next_ready()
            assert index not in started, "a step is started twice"
            before = {*nodes[index].depends_on, *nodes[index].after}
            assert all(settling.status[graph.number[each]] is not StepStatus.PENDING for each in before)
            started.add(index)
            running.append(index)
        if not running:
            break
        index = running.pop(choose(len(running)))
        node = nodes[index]
        left_out = set() if node.fails else set(node.choices) - node.takes
        not_taken = frozenset(graph.number[each] for each in left_out)
        status = StepStatus.FAILED if node.fails else StepStatus.SUCCESS
        for skipped in settling.settle(index, status, not_taken):
            assert skipped.index not in started
            reasons[nodes[skipped.index].id] = skipped.reason
    return {node.id: settling.status[number] for number, node in enumerate(nodes)}, reasons


@settings(max_examples=400, deadline=None)
@given(nodes=workflows(), data=st.data(), pass_over_failures=st.booleans())
def test_whatever_order_steps_settle_in_the_design_decides_what_runs_and_why_not(nodes, data, pass_over_failures):
    def choose(count: int) -> int:
        return data.draw(st.integers(0, count - 1))

    found, reasons = settle_all(nodes, choose, pass_over_failures=pass_over_failures)
    model = Model(nodes, pass_over_failures=pass_over_failures)
    for node in nodes:
        fate, fault = model.fate(node.id)
        expected = {"ran ok": StepStatus.SUCCESS, "ran and failed": StepStatus.FAILED}.get(fate, StepStatus.SKIPPED)
        assert found[node.id] is expected, (node.id, fate, fault)
        if fate == "skipped: failure":
            assert reasons[node.id] in {f"step '{each}' failed" for each in fault}
        elif fate == "skipped: router":
            names = ", ".join(f"'{each}'" for each in sorted(fault, key=lambda each: int(each[1:])))
            itself = any(model.refused(each, node.id) for each in node.depends_on)
            said = f"{names} did not choose it" if itself else f"it follows a branch that {names} did not choose"
            assert reasons[node.id] == said
        else:
            assert node.id not in reasons


@settings(max_examples=100, deadline=None)
@given(nodes=workflows(), pass_over_failures=st.booleans())
def test_settling_is_the_same_every_time(nodes, pass_over_failures):
    first = settle_all(nodes, lambda count: 0, pass_over_failures=pass_over_failures)
    assert first == settle_all(nodes, lambda count: 0, pass_over_failures=pass_over_failures)


# --- whole runs -----------------------------------------------------------------------------------


class Busy(Step):
    """Takes its time, fails for some attempts, and lets its targets run that it is told; notes what it saw."""

    choices: tuple[str, ...] = ()
    takes: tuple[str, ...] = ()
    failures: int = 0
    seconds: tuple[float, ...] = (0.0,)
    saw: ClassVar[dict[str, set[str]]] = {}
    running: ClassVar[list[int]] = [0, 0]

    def targets(self) -> Mapping[str, str]:
        return dict.fromkeys(self.choices, "")

    async def run(self, ctx: StepContext) -> StepOutcome:
        self.running[0] += 1
        self.running[1] = max(self.running)
        try:
            await trio.sleep(self.seconds[(ctx.attempt - 1) % len(self.seconds)])
        finally:
            self.running[0] -= 1
        self.saw[self.id] = {key for key in ctx.state if key != "steps"}
        if ctx.attempt <= self.failures:
            raise StepError("not yet", transient=True)
        return StepOutcome(value=self.id, not_taken=frozenset(self.choices) - frozenset(self.takes))


BUSY = Host.of({"lab": offering({"step_type": {"busy": Busy}})})


@settings(max_examples=60, deadline=None)
@given(nodes=workflows(), data=st.data(), pass_over_failures=st.booleans(), slots=st.integers(1, 4))
def test_a_whole_run_does_what_the_design_says_whatever_its_steps_take_and_however_often_they_fail(
    nodes, data, pass_over_failures, slots
):
    retries = data.draw(st.integers(0, 2))
    failing = {
        node.id: retries + 1 if node.fails else data.draw(st.integers(0, retries), label=f"failures of {node.id}")
        for node in nodes
    }
    steps = [
        {
            "id": node.id,
            "type": "busy",
            "depends_on": list(node.depends_on),
            "choices": node.choices,
            "takes": sorted(node.takes),
            "failures": failing[node.id],
            "seconds": data.draw(st.lists(st.integers(0, 3), min_size=1, max_size=3), label=f"seconds of {node.id}"),
            "output": f"k_{node.id}",
            "retry": {"max_retries": retries, "backoff_base": 1},
        }
        for node in data.draw(st.permutations(nodes))
    ]
    policy = "continue" if pass_over_failures else "skip_downstream"
    config = {"on_step_failure": policy, "max_concurrent_steps": slots}
    workflow = treadle.build_workflow({"name": "x", "config": config, "steps": steps}, host=BUSY)
    workflow = replace(workflow, order=tuple((each, node.id) for node in nodes for each in node.after))
    Busy.saw.clear()
    Busy.running[:] = [0, 0]

    async def once() -> Any:
        async with treadle.open(host=BUSY) as session:
            return await session.run(workflow)

    result = trio.run(once, clock=trio.testing.MockClock(autojump_threshold=0))

    model = Model(nodes, pass_over_failures=pass_over_failures)
    named = {"ran ok": "success", "ran and failed": "failed"}
    expected = {node.id: named.get(model.status(node.id), "skipped") for node in nodes}
    assert {step_id: str(each.status) for step_id, each in result.step_results.items()} == expected
    assert result.status == ("failed" if "failed" in expected.values() else "success")
    for node in nodes:
        ran = expected[node.id] != "skipped"
        assert result.step_results[node.id].attempts == (
            failing[node.id] + (expected[node.id] == "success") if ran else 0
        )
        if ran:
            # "a step reads the initial state plus the writes of its ancestors"
            seen = {f"k_{each}" for each in ancestors(model, node.id) if expected[each] == "success"}
            assert Busy.saw[node.id] == seen, node.id
    assert set(result.final_state) == {f"k_{each}" for each, status in expected.items() if status == "success"}
    assert Busy.running[1] <= slots


def ancestors(model: Model, name: str) -> set[str]:
    found: set[str] = set()
    left = [name]
    while left:
        node = model.nodes[left.pop()]
        above = {*node.depends_on, *node.after} - found
        found |= above
        left.extend(above)
    return found
