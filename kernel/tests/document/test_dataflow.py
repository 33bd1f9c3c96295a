"""Who writes what each step reads: what is told, where it stands, and which edges are added."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from treadle._document import build_workflow, parse_workflow
from treadle._document.graph import Graph
from treadle._engine.settling import Settling
from treadle._plugins import Host
from treadle.contracts.results import StepStatus
from treadle.errors import DocumentError

Problems = Callable[..., list[str]]

FIRST = 5
"""The line of the first step."""


def document(*steps: str, state: str = "{}", config: str = "{}") -> str:
    return f"name: x\nstate: {state}\nconfig: {config}\nsteps:\n" + "".join(f"  - {{{step}}}\n" for step in steps)


def say(step_id: str, prompt: str, output: str = "", depends_on: str = "") -> str:
    more = f", output: {output}" if output else ""
    return f"id: {step_id}, type: say, depends_on: [{depends_on}], prompt: '{prompt}'{more}"


def told(problems: Problems, *steps: str, **rest: str) -> list[str]:
    """Each problem as line, place and text, without the column."""
    return [f"{each.split(':')[0]}: {each.split(': ', 1)[1]}" for each in problems(document(*steps, **rest))]


# --- what nothing provides ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("prompt", "state", "expected"),
    [
        ("{state.topic}", "{topic: 1}", None),
        ("{topic}", "{topic: 1}", None),
        ("{state.topik}", "{topic: 1}", "nothing provides 'state.topik'; did you mean 'topic'?"),
        ("{state.zzz}", "{topic: 1}", "nothing provides 'state.zzz'; declare 'zzz' under state:, or pass -s zzz=..."),
        ("{state[topik][a]}", "{topic: 1}", "nothing provides 'state[topik][a]'; did you mean 'topic'?"),
        ("{state.zzz.a.b}", "{}", "nothing provides 'state.zzz.a.b'; declare 'zzz' under state:, or pass -s zzz=..."),
        # Values of the initial state that no step changes.
        ("{state.user.name}", "{user: {name: 1}}", None),
        (
            "{state.user.nmae}",
            "{user: {name: 1}}",
            "nothing provides 'state.user.nmae': 'user' has no 'nmae'; did you mean 'name'?",
        ),
        ("{state.user.colour}", "{user: {name: 1}}", None),
        ("{state.user.nmae}", "{user: {}}", None),
        ("{state.list[5]}", "{list: [1]}", None),
        # Words in braces are mostly prose.
        ("{word} {a} {x.y}", "{topic: 1}", None),
        (
            "{topik}",
            "{topic: 1}",
            "'{topik}' stays as it is written, as nothing provides 'topik'; did you mean 'topic'?",
        ),
        ("{{topik}}", "{topic: 1}", None),
        # The whole of it.
        ("{state} {steps}", "{}", None),
    ],
)
def test_a_read_that_nothing_provides(problems: Problems, prompt: str, state: str, expected: str | None) -> None:
    found = told(problems, say("a", prompt), state=state)
    assert found == ([] if expected is None else [f"{FIRST}: warning: steps.a.prompt: {expected}"])


def test_a_key_of_the_state_schema_or_of_the_run_is_provided(host: Host) -> None:
    text = document(say("a", "{state.x} {state.y}"), state="{}") + "state_schema: {x: {type: string}}\n"
    assert [each.code for each in parse_workflow(text, host=host).warnings] == ["nothing-provides"]
    assert parse_workflow(text, host=host, state_keys=["y"]).warnings == ()


def test_a_misspelt_state_is_one_mistake(problems: Problems) -> None:
    text = document(say("a", "{state.x} {state.y}")).replace("state: {}", "sttae: {x: 1, y: 2}")
    assert problems(text) == ["2:1: sttae: unknown field; did you mean 'state'?"]


def test_a_step_does_not_provide_for_itself(problems: Problems) -> None:
    assert told(problems, say("a", "{state.n}", "n")) == [
        (
            "5: warning: steps.a.prompt: nothing provides 'state.n' before this step writes it; "
            "declare 'n' under state:, or pass -s n=..."
        )
    ]
    assert told(problems, say("a", "{state.n}", "n"), state="{n: 1}") == []


def test_a_write_beside_what_is_read_does_not_provide_it(problems: Problems) -> None:
    steps = [say("a", "x", "user.name"), say("b", "{state.user.age}", depends_on="a")]
    (message,) = told(problems, *steps)
    assert "nothing provides 'state.user.age'" in message
    for read in ("user", "user.name", "user.name.first"):
        assert told(problems, steps[0], say("b", f"{{state.{read}}}", depends_on="a")) == []


def test_what_a_mistaken_step_may_have_meant_to_write_is_not_missed(problems: Problems) -> None:
    steps = ["id: a, type: say, prompt: x, ouput: state.draft.text", say("b", "{state.draft}", depends_on="a")]
    (only,) = told(problems, *steps)
    assert "ouput: unknown field" in only
    steps = ["id: a, type: sya, prompt: x, result: draft", say("b", "{state.draft} {state.other}", depends_on="a")]
    assert [each.partition(";")[0] for each in told(problems, *steps)] == [
        "5: steps.a.type: no step type 'sya'",
        "6: warning: steps.b.prompt: nothing provides 'state.other'",
    ]


def test_every_kind_of_field_is_read(problems: Problems) -> None:
    steps = [
        "id: a, type: use, tool: echo, arguments: {deep: [{x: 'hi {state.one}'}], whole: state.two, as: [{value: '{state.no}', template: false}]}",  # noqa: E501
        "id: b, type: route, conditions: [{expression: state.three > 1 or steps.zz.output, target: a}]",
    ]
    found = problems(document(*steps))
    assert [each.partition(";")[0] for each in found if "does not depend" not in each] == [
        "5:64: warning: steps.a.arguments.deep.0.x: nothing provides 'state.one'",
        "5:86: warning: steps.a.arguments.whole: nothing provides 'state.two'",
        "6:52: warning: steps.b.conditions.0.expression: nothing provides 'state.three'",
        "6:71: steps.b.conditions.0.expression: no step 'zz'",
    ]


# --- order ----------------------------------------------------------------------------------------


def edges(host: Host, *steps: str, **rest: str) -> tuple[tuple[str, str], ...]:
    return parse_workflow(document(*steps, **rest), host=host).order


EARLIER = [say("w", "x", "k"), say("one", "x"), say("r", "{state.k}", depends_on="one")]


def test_a_writer_of_an_earlier_layer_gets_an_order_only_edge_and_a_warning(problems: Problems, host: Host) -> None:
    assert edges(host, *EARLIER) == (("w", "r"),)
    assert told(problems, *EARLIER) == [
        (
            "7: warning: steps.r.prompt: 'state.k' comes from step 'w', which this step does not wait for; "
            "it is run afterwards all the same; add depends_on: [w]"
        )
    ]
    # A layered run would see the write over the initial value, too.
    assert edges(host, *EARLIER, state="{k: 0}") == (("w", "r"),)


def test_what_the_reader_waits_for_needs_no_edge(problems: Problems, host: Host) -> None:
    steps = [say("w", "x", "k"), say("m", "x", depends_on="w"), say("r", "{state.k}", depends_on="m")]
    assert edges(host, *steps) == ()
    assert told(problems, *steps) == []


def test_one_edge_serves_what_comes_before_its_step_and_what_comes_after_the_reader(host: Host) -> None:
    steps = [
        say("w1", "x", "k.a"),
        say("w2", "x", "k.b", depends_on="w1"),
        say("one", "x"),
        say("two", "x", depends_on="one"),
        say("r1", "{state.k}", depends_on="two"),
        say("r2", "{state.k}", depends_on="r1"),
    ]
    assert edges(host, *steps) == (("w2", "r1"),)


def test_what_the_reader_waits_for_wrote_last_in_a_layered_run_and_is_not_overwritten(host: Host) -> None:
    steps = [
        say("old", "x", "k"),
        say("one", "x"),
        say("new", "x", "k", depends_on="one"),
        say("r", "{state.k}", depends_on="new"),
    ]
    assert edges(host, *steps) == ()


def test_an_output_of_a_step_is_read_by_the_same_rule(problems: Problems, host: Host) -> None:
    steps = [say("w", "x"), say("one", "x"), say("r", "{steps.w.output}", depends_on="one")]
    assert edges(host, *steps) == (("w", "r"),)
    assert told(problems, *steps)[0].startswith("7: warning: steps.r.prompt: 'steps.w.output' comes from step 'w'")
    assert told(problems, say("a", "{steps.bb.output}"), say("b", "{state.steps.b.output} {steps.a}")) == [
        "5: steps.a.prompt: no step 'bb'; did you mean 'b'?",
        "6: warning: steps.b.prompt: 'state.steps.b.output' is read by the step itself, before it has run",
        (
            "6: warning: steps.b.prompt: 'steps.a' comes from step 'a', which may run at the same time; it is not "
            "seen; add depends_on: [a]"
        ),
    ]
    assert told(problems, say("a", "{steps.x}"), state="{steps: {x: 1}}") == []


def test_a_writer_of_the_same_layer_is_not_seen(problems: Problems, host: Host) -> None:
    steps = [say("w", "x", "k"), say("v", "x", "k.x"), say("r", "{state.k}")]
    found = [each for each in told(problems, *steps, state="{k: 1}") if "prompt" in each]
    assert found == [
        (
            "7: warning: steps.r.prompt: 'state.k' comes from steps 'w' and 'v', which may run at the same time; it is "
            "not seen; add depends_on: [w, v]"
        )
    ]
    assert edges(host, *steps) == ()


def test_a_writer_that_runs_only_later_is_told_unless_there_is_a_first_value(problems: Problems) -> None:
    steps = [say("r", "{state.k}"), say("w", "x", "k", depends_on="r")]
    assert told(problems, *steps) == [
        (
            "5: warning: steps.r.prompt: 'state.k' comes only later, from step 'w'; "
            "give 'k' a first value under state:, or change the order of the steps"
        )
    ]
    assert told(problems, *steps, state="{k: 0}") == []
    assert told(problems, say("first", "x", "k"), say("r", "{state.k}", depends_on="first"), steps[1]) == []


def test_of_a_step_with_mistakes_no_order_is_told(problems: Problems) -> None:
    steps = [say("w", "x", "k"), say("one", "x"), say("r", "{state.k}", depends_on="onne")]
    assert told(problems, *steps) == ["7: steps.r.depends_on.0: no step 'onne'; did you mean 'one'?"]


def test_many_names_are_cut_short(problems: Problems) -> None:
    steps = [say(f"w{n}", "x", f"k.x{n}") for n in range(9)]
    (message,) = told(problems, *steps, say("r", "{state.k}"))
    assert "comes from steps 'w0', 'w1', 'w2', 'w3', 'w4', 'w5' and 3 more, which" in message
    assert message.endswith("add depends_on: [w0, w1, w2, w3, w4, w5, ...]")


# --- shared outputs -------------------------------------------------------------------------------

ROUTE = "id: r, type: route, conditions: [{expression: 1 < 2, target: a}], default: b"


def test_parallel_steps_that_write_one_path_are_one_warning_at_the_second(problems: Problems) -> None:
    steps = [say("a", "x", "k.x"), say("b", "x", "k.y"), say("c", "x", "k.x"), say("d", "x", "k.x")]
    assert problems(document(*steps)) == [
        (
            "7:61: warning: steps.c.output: steps 'a', 'c' and 'd' may run at the same time and write 'k.x'; "
            "the one that ends last is seen; give each a path of its own, or let one wait for the other"
        )
    ]


def test_a_path_inside_another_is_shared_with_it(problems: Problems) -> None:
    (message,) = told(problems, say("a", "x", "k.x.y"), say("b", "x", "k"))
    assert message.startswith("6: warning: steps.b.output: steps 'a' and 'b' may run at the same time and write 'k'; ")


def test_strict_outputs_make_it_an_error(problems: Problems, host: Host) -> None:
    steps = [say("a", "x", "k"), say("b", "x", "k")]
    (message,) = told(problems, *steps, config="{strict_outputs: true}")
    assert message.startswith("6: steps.b.output: steps 'a' and 'b'")
    with pytest.raises(DocumentError, match="at the same time"):
        parse_workflow(document(*steps), host=host, config={"strict_outputs": True})


def test_branches_of_a_router_may_write_one_path(problems: Problems) -> None:
    branch = [ROUTE, say("a", "x", "k", "r"), say("b", "x", "k", "r"), say("c", "{state.k}", "k", "a, b")]
    assert told(problems, *branch) == []
    beyond = [ROUTE, say("a", "x", "", "r"), say("b", "x", "", "r"), say("a2", "x", "k", "a"), say("b2", "x", "k", "b")]
    assert told(problems, *beyond) == []
    # A join runs whichever way was taken.
    (message,) = told(problems, *beyond, say("j", "x", "", "a, b"), say("j2", "x", "k", "j"))
    assert "steps 'a2', 'b2' and 'j2' may run" in message


def test_a_read_of_the_other_branch_is_never_provided(problems: Problems) -> None:
    steps = [ROUTE, say("a", "x", "k", "r"), say("b", "{state.k}", "", "r")]
    assert told(problems, *steps) == [
        (
            "7: warning: steps.b.prompt: nothing provides 'state.k' here: it comes from step 'a', on another branch"
        )
    ]  # fmt: skip


# --- the law of branches --------------------------------------------------------------------------


@st.composite
def branching(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Steps of which some are routers, and all of which write one key."""
    count = draw(st.integers(2, 6))
    names = [f"s{number}" for number in range(count)]
    waits_for = [draw(st.sets(st.sampled_from(names[:n]), max_size=2)) if n else set() for n in range(count)]
    steps: list[dict[str, Any]] = []
    for number, name in enumerate(names):
        followers = [names[later] for later in range(count) if name in waits_for[later]]
        targets = draw(st.lists(st.sampled_from(followers), unique=True, max_size=3)) if followers else []
        common = {"id": name, "depends_on": sorted(waits_for[number]), "output": "k"}
        if len(targets) > 1:
            conditions = [{"expression": "1 < 2", "target": each} for each in targets]
            steps.append({**common, "type": "route", "conditions": conditions})
        else:
            steps.append({**common, "type": "idle"})
    return steps


def who_runs(steps: Any) -> Iterator[set[str]]:
    """For each way the routers can choose one target each: the steps that run."""
    graph = Graph.of(steps)
    routers = {index: sorted(step.targets()) for index, step in enumerate(steps) if step.targets()}
    for chosen in itertools.product(*routers.values()):
        choice = dict(zip(routers, chosen, strict=True))
        settling = Settling(graph)
        while settling.has_ready:
            index = settling.next_ready()
            targets = routers.get(index, [])
            not_taken = frozenset(graph.number[each] for each in targets if each != choice[index])
            for _ in settling.settle(index, StepStatus.SUCCESS, not_taken):
                pass
        yield {step.id for step, status in zip(steps, settling.status, strict=True) if status is StepStatus.SUCCESS}


@settings(max_examples=300, deadline=None)
@given(steps=branching())
def test_steps_that_can_run_side_by_side_are_named_and_no_step_with_one_that_waits_for_it(
    steps: list[dict[str, Any]], shared_host: Host
) -> None:
    workflow = build_workflow({"name": "x", "steps": steps}, host=shared_host)
    before: dict[str, set[str]] = {}
    for step in steps:
        before[step["id"]] = set(step["depends_on"]).union(*(before[each] for each in step["depends_on"]))
    side_by_side = {
        each
        for ran in who_runs(workflow.steps)
        for one, other in itertools.combinations(sorted(ran), 2)
        if one not in before[other] and other not in before[one]
        for each in (one, other)
    }
    unordered = {
        each
        for one, other in itertools.combinations(before, 2)
        if one not in before[other] and other not in before[one]
        for each in (one, other)
    }
    named = {name for each in workflow.warnings for name in before if f"'{name}'" in each.message}
    assert side_by_side <= named <= unordered


# --- what follows from another mistake --------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "default", "target"),
    [("route", "c", "bb"), ("route", "d", "b"), ("route", "[c]", "b"), ("rout", "c", "b")],
)
def test_nothing_is_said_of_the_order_of_steps_of_which_a_router_with_mistakes_may_mean_one(
    problems: Problems, kind: str, default: str, target: str
) -> None:
    ways = ", ".join(f"{{expression: 'True', target: {each}}}" for each in ("a", target))
    router = f"id: r, type: {kind}, default: {default}, conditions: [{ways}]"
    branches = (say(each, "hi", output="handled", depends_on="r") for each in "abc")
    behind = (say(f"{each}2", "{state.handled}", output="more", depends_on=each) for each in "abc")
    found = told(problems, router, *branches, *behind)
    assert len(found) == 1
    assert "same time" not in found[0]


@pytest.mark.parametrize(
    "text",
    [
        (
            "name: x\nsteps:\n  - {id: a, type: say, prompt: x, output: kind, output: kind2}\n"
            "  - {id: b, type: say, depends_on: [a], prompt: '{state.kind}{state.kind2}'}\n"
        ),
        "name: x\nstate: {kind: 1}\nstate: {kind2: 1}\nsteps:\n  - {id: b, type: say, prompt: '{state.kind}'}\n",
    ],
)
def test_what_a_key_given_twice_may_have_meant_is_not_missing(problems: Problems, text: str) -> None:
    assert [each.partition("the key ")[2][:6] for each in problems(text)] in (["'outpu"], ["'state"])
