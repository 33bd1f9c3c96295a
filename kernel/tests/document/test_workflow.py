"""Checked workflows: immutable, known by their content, built from data as well as from text."""

import contextlib
import dataclasses
import datetime
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from treadle._document import Workflow, build_workflow, parse_workflow
from treadle._plugins import Host
from treadle.errors import ConfigurationError, DocumentError

TEXT = """\
name: demo
version: 2
description: d
config: {max_retries: 1, replies: {a: 1}}
state: {x: {y: [1]}}
steps:
  - {id: a, type: say, prompt: "{state.x}", output: z}
"""
DATA: dict[str, Any] = {
    "steps": [{"type": "say", "id": "a", "output": "z", "prompt": "{state.x}"}],
    "state": {"x": {"y": [1]}},
    "config": {"replies": {"a": 1}, "max_retries": 1},
    "description": "d",
    "version": 2,
    "name": "demo",
}


@pytest.fixture
def workflow(host: Host) -> Workflow:
    return parse_workflow(TEXT, host=host, file="demo.yaml")


def test_a_workflow_has_what_the_document_says(workflow: Workflow, host: Host) -> None:
    assert (workflow.name, workflow.version, workflow.description) == ("demo", "2", "d")
    assert workflow.source == "demo.yaml"
    assert workflow.host is host
    assert workflow.state == {"x": {"y": [1]}}
    assert workflow.config.max_retries == 1
    assert [step.id for step in workflow.steps] == ["a"]
    assert workflow.warnings == ()
    assert "data=" not in repr(workflow)


def test_a_workflow_does_not_change(workflow: Workflow) -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        workflow.name = "other"  # type: ignore[misc]
    with pytest.raises(ValueError, match="frozen"):
        workflow.steps[0].id = "b"
    with pytest.raises(ValueError, match="frozen"):
        workflow.config.stream = True


def test_a_workflow_built_from_data_keeps_a_copy_of_its_own(host: Host) -> None:
    data = {**DATA, "state": {"x": {"y": [1]}}}
    workflow = build_workflow(data, host=host)
    before = workflow.digest
    data["state"]["x"]["y"].append(2)
    data["name"] = "other"
    assert workflow.data["state"] == workflow.state == {"x": {"y": [1]}}
    assert build_workflow(workflow.data, host=host).digest == before


def test_the_digest_is_that_of_the_content(host: Host, workflow: Workflow) -> None:
    assert workflow.digest.startswith("sha256:")
    assert len(workflow.digest) == len("sha256:") + 64
    assert workflow.digest == build_workflow(DATA, host=host).digest
    block = TEXT.replace(
        '  - {id: a, type: say, prompt: "{state.x}", output: z}',
        "  # now\n  - output: z\n    prompt: '{state.x}'\n    type: say\n    id: a",
    )
    assert parse_workflow(block, host=host).digest == workflow.digest
    assert parse_workflow(TEXT.replace("\n", "\r\n"), host=host).digest == workflow.digest
    assert parse_workflow(TEXT.replace("y: [1]", "y: ['1']"), host=host).digest != workflow.digest
    assert parse_workflow(TEXT.replace("output: z", "output: zz"), host=host).digest != workflow.digest


def test_the_digest_takes_any_text(host: Host) -> None:
    assert build_workflow({**DATA, "state": {"x": "\ud800", "ü": 1e400}}, host=host).digest


def test_keys_given_to_a_run_that_nothing_reads_are_doubted(host: Host) -> None:
    steps = """steps:
  - {id: a, type: say, prompt: "{state.topic.name} {tone} {x!r}"}
"""
    workflow = parse_workflow(TEXT.partition("steps:")[0] + steps, host=host)
    assert list(workflow.doubts_about(["topic", "tone", "x", "topik", "zzz"])) == [
        "no step reads state key 'topik'; did you mean 'topic'?",
        "no step reads state key 'zzz'",
    ]


def test_another_config_leaves_the_first_as_it_was(workflow: Workflow) -> None:
    other = workflow.with_config(provider="fake", max_retries=9, stream=None)
    assert (other.config.provider, other.config.max_retries, other.config.stream) == ("fake", 9, False)
    assert other.config.replies == {"a": 1}  # type: ignore[attr-defined]
    assert (workflow.config.provider, workflow.config.max_retries) == (None, 1)
    assert other.digest == workflow.digest  # what was written is the same
    assert workflow.with_config() is workflow.with_config(model=None) is workflow


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"timeout": "soon"}, "config.timeout: must be a number, not 'soon'"),
        ({"max_concurrent_steps": 0}, "config.max_concurrent_steps: must be at least 1, not 0"),
        ({"provder": "x"}, "config.provder: unknown field; did you mean 'provider'?"),
        ({"zzz": "x"}, "config.zzz: unknown field"),
        ({"replies": {"a": "many"}}, "config.replies.a: must be a whole number, not 'many'"),
    ],
)
def test_a_wrong_override_says_what_is_wrong(workflow: Workflow, overrides: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        workflow.with_config(**overrides)
    assert str(caught.value) == message


def test_an_override_of_a_plugins_field_is_checked_where_the_document_did_not_use_it(host: Host) -> None:
    plain = parse_workflow("name: x\nsteps: [{id: a, type: idle}]", host=host)
    with pytest.raises(ConfigurationError, match=r"^config\.replies\.a: must be a whole number, not 'many'$"):
        plain.with_config(replies={"a": "many"})
    assert plain.with_config(replies={"a": 1}).config.replies == {"a": 1}  # type: ignore[attr-defined]


class Page(BaseModel):
    title: str = "t"


class Odd:
    """Neither JSON nor pydantic."""


def cyclic() -> dict[str, Any]:
    data: dict[str, Any] = {}
    data["a"] = data["b"] = data
    return data


@pytest.mark.parametrize(
    ("changes", "messages"),
    [
        ({"nam": 1}, ["nam: unknown field; did you mean 'name'?"]),
        (
            {"steps": [{"id": "a", "type": "say", "promt": "x"}]},
            ["steps.a.promt: unknown field; did you mean 'prompt'?", "steps.a: the field 'prompt' is missing"],
        ),
        (
            {"steps": [{"id": "a", "type": "idle"}] * 2},
            ["steps.a.id: the id 'a' is taken by step number 0; rename one"],
        ),
        ({"state": {1: "a"}}, ["state: a key must be text, and 1 is not"]),
        (
            {"state": {"when": datetime.date(2026, 1, 1)}},
            ["state.when: a document holds JSON values and pydantic instances, not date"],
        ),
        (
            {"state": {"x": [Odd(), {1}]}},
            [
                "state.x.0: a document holds JSON values and pydantic instances, not Odd",
                "state.x.1: a document holds JSON values and pydantic instances, not set",
            ],
        ),
        ({"state": cyclic()}, ["state: nested more than 100 levels deep"]),
    ],
)
def test_problems_of_data_have_paths_and_no_lines(host: Host, changes: dict[str, Any], messages: list[str]) -> None:
    with pytest.raises(DocumentError) as caught:
        build_workflow({**DATA, **changes}, host=host)
    assert sorted(map(str, caught.value.problems)) == messages
    assert all(each.line is each.column is each.file is None for each in caught.value.problems)


def test_data_may_be_any_mapping_with_tuples_and_pydantic_instances(host: Host) -> None:
    page = Page()
    data: Mapping[str, Any] = MappingProxyType(
        {**DATA, "state": {"p": page, "t": (1, 2)}, "steps": tuple(DATA["steps"])}
    )
    workflow = build_workflow(data, host=host)
    assert workflow.state["p"] is page
    assert workflow.state["t"] == [1, 2]
    assert workflow.source is None
    assert workflow.digest


@pytest.mark.parametrize("data", [[], "x", None, 5])
def test_data_that_is_no_mapping_is_a_problem(host: Host, data: Any) -> None:
    with pytest.raises(DocumentError, match=r"^a workflow is a mapping with name and steps, not "):
        build_workflow(data, host=host)


KEYS = st.sampled_from(["name", "steps", "config", "state", "id", "type", "prompt", "depends_on", "x", 1, None])
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["say", "idle", "a"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)


@settings(deadline=None)
@given(changes=st.dictionaries(st.sampled_from(["name", "steps", "config", "state", "version", "z"]), VALUES))
def test_no_data_raises_anything_but_a_document_error(changes: dict[str, Any], shared_host: Host) -> None:
    with contextlib.suppress(DocumentError):
        assert build_workflow({**DATA, **changes}, host=shared_host).digest
