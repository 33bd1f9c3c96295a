"""Workflows written in Python."""

from __future__ import annotations

import pytest

import treadle
from treadle import DocumentError

TEXT = """
name: greeting
description: Greets.
version: "2.0"
config: {max_retries: 0}
state: {who: you, n: 1}
steps:
  - {id: greet, type: say, text: "hello {state.who}", output: greeting}
  - {id: shout, type: say, text: "{state.greeting}!", output: shouted, depends_on: [greet]}
"""


def built(host):
    return (
        treadle.workflow("greeting", "Greets.", "2.0", max_retries=0)
        .state(who="you")
        .state({"n": 1})
        .step("say", id="greet", text="hello {state.who}", output="greeting")
        .step("say", id="shout", text="{state.greeting}!", output="shouted", depends_on=("greet",))
        .build(host)
    )


def test_a_workflow_built_is_the_one_that_a_file_says(host):
    workflow, read = built(host), treadle.parse_workflow(TEXT, host=host)
    assert workflow.steps == read.steps
    assert (workflow.name, workflow.description, workflow.version) == (read.name, read.description, read.version)
    assert (workflow.state, workflow.config) == (read.state, read.config)
    assert workflow.host is host


def test_it_runs(host):
    result = treadle.run_sync(built(host), state={"who": "world"})
    assert result.final_state == {"who": "world", "n": 1, "greeting": "hello world", "shouted": "hello world!"}


def test_all_mistakes_are_named_at_once_each_with_its_path(host):
    builder = (
        treadle.workflow("x", max_retry=1)
        .step("sing", id="a")
        .step("say", id="b", txt="{state.", depends_on="a")
        .step("say", id="b", text="{state.", depends_on=["c"])
    )
    with pytest.raises(DocumentError) as caught:
        builder.build(host)
    found = {(problem.path, problem.code) for problem in caught.value.problems}
    assert {path for path, _ in found} == {
        "steps.b",  # of the first: text is missing
        "config.max_retry", "steps.a.type", "steps.b.txt", "steps.b.text", "steps.b.depends_on", "steps.b.id",
        "steps.b.depends_on.0",
    }, found  # fmt: skip
    assert all(problem.line is None for problem in caught.value.problems)


def test_a_builder_can_be_built_twice_and_go_on_in_between(host):
    builder = treadle.workflow("x").step("say", id="a", text="1")
    first = builder.build(host)
    second = builder.step("say", id="b", text="2").state(k=1).build(host)
    assert [len(each.steps) for each in (first, second)] == [1, 2]
    assert first.state == {}


def test_a_state_key_may_have_any_name(host):
    assert treadle.workflow("x").state({"self": 1, "values": 2}, values=3).step("say", id="a", text="").build(
        host
    ).state == {"self": 1, "values": 3}


def test_values_are_copied(host):
    items = [1]
    workflow = treadle.workflow("x").state(items=items).step("say", id="a", text="").build(host)
    items.append(2)
    assert workflow.state == {"items": [1]}


def test_without_a_host_it_is_checked_against_what_is_installed():
    with pytest.raises(DocumentError, match="no step type 'frobnicate_thing'"):
        treadle.workflow("x").step("frobnicate_thing", id="a").build()
