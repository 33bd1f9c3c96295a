"""What steps say of each other: ids, dependencies, circles and targets."""

from collections.abc import Callable

import pytest

from treadle._document import parse_workflow
from treadle._document.checking import find_cycles
from treadle._plugins import Host

Problems = Callable[..., list[str]]


def document(*steps: str) -> str:
    return "name: x\nsteps:\n" + "".join(f"  - {{type: idle, {step}}}\n" for step in steps)


def test_two_steps_may_not_share_an_id(problems: Problems) -> None:
    assert problems(document("id: a", "id: b", "id: a", "id: a")) == [
        "5:22: steps.a.id: the id 'a' is taken on line 3; rename one",
        "6:22: steps.a.id: the id 'a' is taken on line 3; rename one",
    ]


def test_a_dependency_that_is_not_there_is_named_with_the_closest_other_step(problems: Problems) -> None:
    assert problems(document("id: fetch", "id: sum, depends_on: [fetch, fecth]", "id: z, depends_on: [sumx, z]")) == [
        "4:47: steps.sum.depends_on.1: no step 'fecth'; did you mean 'fetch'?",
        "5:37: steps.z.depends_on: the step waits for itself",
        "5:38: steps.z.depends_on.0: no step 'sumx'; did you mean 'sum'?",
    ]


def test_a_step_that_is_wrong_elsewhere_still_counts(problems: Problems) -> None:
    assert problems(document("id: a, tpo: 1", "id: b, depends_on: [a, c], wrong: 1")) == [
        "3:25: steps.a.tpo: unknown field; there are budget_usd, depends_on, id, output, retry, timeout, when",
        "4:41: steps.b.depends_on.1: no step 'c'; there is a",
        "4:45: steps.b.wrong: unknown field; there are budget_usd, depends_on, id, output, retry, timeout, when",
    ]


def test_a_step_that_waits_for_itself(problems: Problems) -> None:
    assert problems(document("id: a, depends_on: [a]")) == ["3:37: steps.a.depends_on: the step waits for itself"]


def test_a_circle_is_printed_as_a_way(problems: Problems) -> None:
    assert problems(document("id: a, depends_on: [c]", "id: b, depends_on: [a]", "id: c, depends_on: [b]")) == [
        "3:37: steps.a.depends_on: the steps wait for each other: a -> c -> b -> a"
    ]


def test_what_leads_into_a_circle_is_not_part_of_it(problems: Problems) -> None:
    assert problems(document("id: z, depends_on: [a]", "id: a, depends_on: [b]", "id: b, depends_on: [a]")) == [
        "4:37: steps.a.depends_on: the steps wait for each other: a -> b -> a"
    ]


def test_every_circle_is_found(problems: Problems) -> None:
    assert problems(document(*(f"id: {each}, depends_on: [{to}]" for each, to in ["ab", "ba", "cd", "dc"]))) == [
        "3:37: steps.a.depends_on: the steps wait for each other: a -> b -> a",
        "5:37: steps.c.depends_on: the steps wait for each other: c -> d -> c",
    ]


def test_a_circle_through_a_step_that_is_wrong_elsewhere_is_found(problems: Problems) -> None:
    found = problems(document("id: a, depends_on: [b], timeout: -1", "id: b, depends_on: [a]"))
    assert found == [
        "3:37: steps.a.depends_on: the steps wait for each other: a -> b -> a",
        "3:51: steps.a.timeout: must be more than 0, not -1",
    ]


def test_a_long_circle_is_shortened(problems: Problems) -> None:
    steps = [f"id: s{n}, depends_on: [s{(n + 1) % 40}]" for n in range(40)]
    (message,) = problems(document(*steps))
    assert message.endswith("s0 -> s1 -> s2 -> s3 -> s4 -> s5 -> s6 -> s7 -> s8 -> s9 -> ... -> s0")


def test_a_chain_longer_than_pythons_stack_is_no_circle() -> None:
    length = 100_000
    chain = {str(n): [str(n + 1)] for n in range(length)}
    assert list(find_cycles({**chain, str(length): []})) == []
    assert [len(each) for each in find_cycles({**chain, str(length): ["0"]})] == [length + 1]


def test_the_order_of_the_document_does_not_bind(host: Host) -> None:
    workflow = parse_workflow(document("id: b, depends_on: [a]", "id: a"), host=host)
    assert [step.id for step in workflow.steps] == ["b", "a"]


def test_a_diamond_is_no_circle(problems: Problems) -> None:
    steps = ["id: a", "id: b, depends_on: [a]", "id: c, depends_on: [a]", "id: d, depends_on: [b, c]"]
    assert problems(document(*steps)) == []


ROUTE = "name: x\nsteps:\n  - id: r\n    type: route\n    conditions:\n      - {expression: 1 < 2, target: TARGET}\n"


def test_a_target_that_is_not_there_is_named(problems: Problems) -> None:
    text = ROUTE.replace("TARGET", "hi") + "    default: looow\n  - {id: high, type: idle}\n  - {id: low, type: idle}\n"
    assert problems(text) == [
        "6:37: steps.r.conditions.0.target: no step 'hi'; did you mean 'high'?",
        "7:14: steps.r.default: no step 'looow'; did you mean 'low'?",
    ]


def test_a_target_that_does_not_wait_for_its_router_is_a_warning(problems: Problems) -> None:
    text = ROUTE.replace("TARGET", "high") + "  - {id: high, type: idle}\n"
    assert problems(text) == [
        (
            "6:37: warning: steps.r.conditions.0.target: step 'high' does not depend on 'r', so it runs whatever is "
            "chosen; add depends_on: [r] to it"
        )
    ]
    assert problems(text.replace("type: idle", "type: idle, depends_on: [r]")) == []


def test_warnings_come_with_the_workflow_in_the_order_of_the_file(host: Host) -> None:
    text = (
        ROUTE.replace("TARGET", "high")
        + "    default: low\n  - {id: low, type: use, tool: no}\n  - {id: high, type: idle}\n"
    )
    workflow = parse_workflow(text, host=host)
    assert [(each.code, each.severity, each.line) for each in workflow.warnings] == [
        ("loose-target", "warning", 6),
        ("loose-target", "warning", 7),
        ("not-installed", "warning", 8),
    ]


@pytest.mark.parametrize("depends_on", ["[1]", "{a: 1}", "b", "[[b]]", "~"])
def test_dependencies_of_the_wrong_shape_are_one_problem_each(problems: Problems, depends_on: str) -> None:
    (message,) = problems(document(f"id: a, depends_on: {depends_on}", "id: b"))
    assert message.startswith(("3:37: steps.a.depends_on: must be a list", "3:38: steps.a.depends_on.0: must be text"))
