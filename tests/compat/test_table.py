"""The table of AgentLoom's fields: complete, true of the code, and as the page shows it."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path
from typing import Any

import pytest
from click import Command, Context, Group
from compat.al_fields import ADDED, ROWS, WAITING, Row, shown

import treadle
from treadle import Host, RetrySettings
from treadle._document.envelope import Envelope
from treadle_cli.main import treadle_command
from workspace import ROOT

LATER = [row for row in ROWS if row.verdict == "later"]
HERE = Path(__file__).parent
PAGE = ROOT / "docs" / "agentloom.md"


def fields(where: str) -> set[str]:
    return {row.place.partition(".")[2] for row in ROWS if row.place.partition(".")[0] == where}


def there(where: str) -> set[str]:
    return fields(where) - {row.place.partition(".")[2] for row in LATER if row.place.partition(".")[0] == where}


@pytest.fixture(scope="module")
def host() -> Host:
    return Host.discover()


def test_the_page_shows_the_table() -> None:
    """If it does not: put what `shown()` of al_fields.py gives under the heading."""
    text = PAGE.read_text(encoding="utf-8")
    assert text.partition("## Every field\n")[2].partition("\n## ")[0].rpartition("\n\n")[2].strip() == shown().strip()


def test_no_field_is_listed_twice() -> None:
    places = [row.place for row in ROWS]
    assert len(places) == len(set(places))


def test_every_row_names_a_test_of_this_folder_or_the_package_that_brings_it() -> None:
    tests = {
        node.name
        for file in HERE.glob("test_*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    for row in ROWS:
        if row.verdict == "later":
            assert row.note.startswith("treadle-"), row
            assert not row.proof, row
        else:
            assert row.proof in tests, row


def test_every_field_of_the_code_is_in_the_table_or_listed_as_ours(host: Host) -> None:
    """So that a field that comes, or goes, is noticed here."""
    common = set(treadle.Step.model_fields)
    models: dict[str, Any] = {
        "top": Envelope,
        "step": treadle.Step,
        "retry": RetrySettings,
        "sandbox": host.sole("sandbox", "a test").load().block_model,
        **{
            name: host.load("step_type", name)
            for name in ("llm_call", "embed", "router", "agent", "subworkflow", "approval_gate")
        },
    }
    for where, model in models.items():
        own = set(model.model_fields) - (common if where not in ("step", "top") else set())
        assert own - ADDED.get(where, set()) == there(where) | WAITING.get(where, set()), where
    config = set(treadle.RunConfig.model_fields) | set(host.registry.names("config_field"))
    assert config - ADDED["config"] == there("config")
    assert set(host.load("step_type", "tool").model_fields) - common == {"tool_name", "tool_args"}
    assert set(host.registry.names("tool")) | {"tool_name", "tool_args"} == there("tool")
    assert set(host.names("step_type")) - ADDED["step types"] <= {row.place.partition(".")[0] for row in ROWS}


# --- what is not there yet ------------------------------------------------------------------------


_EXAMPLES: dict[str, Any] = {
    "budget_usd": 1.0,
    "capture_prompts": True,
    "attachments": [{"source": "a.png"}],
}

_STEPS: set[str] = set()


def document(row: Row) -> dict[str, Any]:
    where, _, name = row.place.partition(".")
    value = _EXAMPLES.get(name, "x")
    step: dict[str, Any] = {"id": "a", "type": "llm_call", "prompt": "hi"}
    config: dict[str, Any] = {"provider": "mock"}
    if where == "config":
        config[name] = value
    elif where in _STEPS:
        step = {"id": "a", "type": where, name: value}
    elif where == "agent":
        step = {"id": "a", "type": where, "agent": {"name": "desk"}, "prompt": "hi", name: value}
    else:
        step[name] = value
    return {"name": "x", "config": config, "steps": [step]}


@pytest.mark.parametrize(
    "row", [row for row in LATER if row.place.partition(".")[0] in {"config", "llm_call", "agent", *_STEPS}],
    ids=lambda row: row.place,
)  # fmt: skip
def test_what_is_not_there_yet_is_refused_and_never_ignored(row: Row, host: Host) -> None:
    """Where this fails because the field is there now: give the row a verdict and a test."""
    where, _, name = row.place.partition(".")
    with pytest.raises(treadle.DocumentError) as caught:
        treadle.build_workflow(document(row), host=host)
    problems = {problem.path: problem for problem in caught.value.problems}
    if where in _STEPS:
        assert "steps.a.type" in problems, "the step type has come: move its rows"
        problem = problems["steps.a.type"]
        assert problem.message == f"no step type '{where}'" or problem.message.startswith(f"step type '{where}' is not")
        _names_the_package(problem, host.catalogue.distribution("step_type", where))
    else:
        places = {"config": f"config.{name}", "sandbox": "config.sandbox.enabled"}
        place = places.get(where, f"steps.a.{name}")
        assert place in problems, "the field has come: move its row"
        if where == "config":
            _names_the_package(problems[place], host.catalogue.distribution("config_field", name))


def _names_the_package(problem: treadle.Problem, distribution: str | None) -> None:
    """A package that exists is in the catalogue, and then its pip line is the hint."""
    if distribution is not None:
        assert problem.hint == f"pip install {distribution}"


@pytest.mark.parametrize("package", sorted({row.note.partition(";")[0] for row in LATER}))
def test_a_package_that_is_in_this_repository_is_in_the_readmes_table(package: str) -> None:
    """What a row promises to come is a name that we use: the folder of the package, or a planned one."""
    folder = ROOT / "plugins" / package.replace("-", "_")
    if folder.is_dir():
        project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        assert project["name"] == package
    else:
        assert package in {
            "treadle-flow",
            "treadle-approval",
            "treadle-otel",
            "treadle-attachments",
            "treadle-journal-sqlite",
        }


# --- commands -------------------------------------------------------------------------------------


def command_of(name: str) -> Command | None:
    group: Group = treadle_command
    context = Context(group)
    found: Command | None = None
    for part in name.split():
        found = group.get_command(context, part)
        if not isinstance(found, Group):
            break
        group = found
    return found


@pytest.mark.parametrize(
    "row", [row for row in ROWS if row.place.partition(".")[2].startswith("--")], ids=lambda row: row.place
)
def test_flags_are_there_as_the_table_says(row: Row) -> None:
    """Where this fails because a flag or command is there now: give the row a verdict and a test."""
    where, _, flag = row.place.partition(".")
    command = command_of(where)
    flags = {name for each in command.params for name in (*each.opts, *each.secondary_opts)} if command else set()
    assert (flag in flags) == (row.verdict != "later")
