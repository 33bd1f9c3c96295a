"""Of a run whose file is what it was, ``resume`` builds the workflow from the record: it reads no YAML of it, and does
not hold its steps against each other again. What comes of it is what comes of reading the file."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import trio
import yaml
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import treadle
from treadle import Host, Record, Workflow
from treadle_cli import recorded
from treadle_cli.main import treadle_command
from treadle_journal_sqlite import SqliteJournal

from e2e.command import ROOT

EXAMPLES = sorted(each.name for each in (ROOT / "examples").glob("*.yaml") if each.name != "broken.yaml")

FLOW = """\
name: outer
config: {provider: mock}
state: {topic: tides, n: 1.50, "on": [yes, null, ~, 0x10, 1e3, "é\\uD7FF", {a: {}}]}
steps:
  - {id: first, type: llm_call, prompt: "About {state.topic}", output: notes}
  - {id: late, type: llm_call, depends_on: [desk], prompt: "Of {state.below}", output: late}
  - {id: sub, type: subworkflow, workflow_path: child.yaml, depends_on: [first], output: below}
  - {id: desk, type: agent, agent: desk.yaml, depends_on: [first], prompt: "Go on from {state.notes}", output: done}
"""
CHILD = "name: child\nsteps:\n  - {id: a, type: llm_call, prompt: 'More of {state.notes}', output: more}\n"
DESK = "name: desk\nsystem_prompt: Do it.\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TREADLE_CONFIG", raising=False)
    for name, text in {"flow.yaml": FLOW, "child.yaml": CHILD, "desk.yaml": DESK}.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def record_of(workflow: Workflow, journal: SqliteJournal, state: dict[str, Any] | None = None) -> Record:
    """The record of a run of it that was cut off as soon as it had begun."""

    async def main() -> str:
        async with treadle.open(host=workflow.host, journal=journal) as session:
            run = session.start(workflow, state=state)
            run.cancel()
            return (await run.execute()).run_id

    run_id = trio.run(main)
    journal = SqliteJournal(journal.store.path)
    record = Record(run_id, journal.entries(run_id))
    journal.close()
    return record


@contextmanager
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, list[Any]]]:
    """What of the long way is gone while this lasts: files read as workflows, and steps held against each other."""
    from treadle._document import loading

    seen: dict[str, list[Any]] = {"read": [], "checked": []}
    read, check = loading.read, loading.check_dataflow

    def reading(text: str, file: str) -> Any:
        seen["read"].append(file)
        return read(text, file)

    def checking(steps: Any, *args: Any, **how: Any) -> Any:
        seen["checked"].append([step.id for step in steps.values()])
        return check(steps, *args, **how)

    with monkeypatch.context() as patch:
        patch.setattr(loading, "read", reading)
        patch.setattr(loading, "check_dataflow", checking)
        yield seen


def assert_same(mine: Workflow, theirs: Workflow) -> None:
    """Equal in everything but warnings, which nobody is told when a run goes on."""
    assert replace(mine, warnings=()) == replace(theirs, warnings=())
    assert yaml.safe_dump(mine.data, sort_keys=False) == yaml.safe_dump(theirs.data, sort_keys=False), "their order too"
    assert mine.digest == theirs.digest
    assert mine.children.keys() == theirs.children.keys()
    for place, child in mine.children.items():
        assert_same(child, theirs.children[place])


def test_an_unchanged_file_is_not_read_as_yaml_and_gives_the_same_workflow(folder, monkeypatch):
    host = Host.discover()
    workflow = treadle.load_workflow("flow.yaml", host=host)
    assert workflow.order, "what the checks find out is kept, too"
    record = record_of(workflow, SqliteJournal(folder / "journal.db"))
    with counted(monkeypatch) as seen:
        found = recorded.as_recorded(record, host, {})
    assert found is not None
    assert_same(found, treadle.load_workflow("flow.yaml", host=host))
    assert seen == {"read": [], "checked": [["a"]]}, "only the child workflow was looked at"
    other = recorded.as_recorded(record, host, {"model": "another"})
    assert other is not None
    assert_same(other, treadle.load_workflow("flow.yaml", host=host, config={"model": "another"}))


def _elsewhere(folder: Path) -> Host:
    (folder / "treadle.yaml").write_text("model: another\n", encoding="utf-8")
    return treadle.deployed_host()


@pytest.mark.parametrize(
    "change",
    [
        lambda folder: (folder / "flow.yaml").write_text(FLOW.replace("tides", "moons"), encoding="utf-8"),
        lambda folder: (folder / "flow.yaml").write_text(FLOW + "\n# and a comment\n", encoding="utf-8"),
        lambda folder: (folder / "desk.yaml").write_text(DESK.replace("it.", "it well."), encoding="utf-8"),
        lambda folder: (folder / "desk.yaml").unlink(),
        lambda folder: (folder / "child.yaml").write_text(CHILD.replace("More", "Less"), encoding="utf-8"),
        lambda folder: (folder / "child.yaml").write_text("name: [", encoding="utf-8"),
        lambda folder: (folder / "flow.yaml").unlink(),
        _elsewhere,
    ],
    ids=["file", "its comment", "agent", "agent gone", "child", "child broken", "file gone", "settings"],
)
def test_whatever_has_changed_the_file_is_read_and_checked_whole(folder, change: Callable[[Path], Any]):
    host = Host.discover()
    record = record_of(treadle.load_workflow("flow.yaml", host=host), SqliteJournal(folder / "journal.db"))
    assert recorded.as_recorded(record, host, {}) is not None
    changed = change(folder)
    assert recorded.as_recorded(record, changed if isinstance(changed, Host) else host, {}) is None


@pytest.mark.parametrize(
    ("before", "after"), [("{n: 1}", "{n: true}"), ("{n: 1}", "{n: 1.0}"), ("{m: {a: 1, b: 2}}", "{m: {b: 2, a: 1}}")]
)
def test_a_child_that_only_python_calls_equal_has_changed(folder, before, after):
    host = Host.discover()
    child = folder / "child.yaml"
    child.write_text(f"state: {before}\n{CHILD}", encoding="utf-8")
    record = record_of(treadle.load_workflow("flow.yaml", host=host), SqliteJournal(folder / "journal.db"))
    assert recorded.as_recorded(record, host, {}) is not None
    child.write_text(f"state: {after}\n{CHILD}", encoding="utf-8")
    assert recorded.as_recorded(record, host, {}) is None


ASKING = """\
name: asking
config: {provider: mock}
steps:
  - {id: ask, type: approval_gate}
  - {id: sub, type: subworkflow, workflow_path: child.yaml, depends_on: [ask]}
  - {id: desk, type: agent, agent: desk.yaml, depends_on: [ask], prompt: "Go on"}
"""


@pytest.mark.parametrize("changed", [["child.yaml"], ["desk.yaml"], ["desk.yaml", "child.yaml"]])
def test_nobody_approves_one_thing_and_has_another_run(folder, changed):
    """`session.answer`, by which `treadle serve` takes answers, and `session.resume` refuse as the command does."""

    async def main() -> None:
        async with treadle.open(host=Host.discover(), journal=SqliteJournal("journal.db")) as session:
            workflow = treadle.parse_workflow(ASKING, host=session.host)
            run_id = (await session.run(workflow)).run_id
            then = {name: (folder / name).read_text(encoding="utf-8") for name in changed}
            for name, text in then.items():
                (folder / name).write_text(text.replace("More", "Less").replace("Do it", "Undo it"), encoding="utf-8")
            told = f"^{' and '.join(changed)} changed since run {run_id} began; treadle resume --accept-changes, or "
            for call in (session.answer(run_id, {"ask": "approved"}), session.resume(run_id)):
                with pytest.raises(treadle.ConfigurationError, match=told):
                    await call
            assert not Record(run_id, session.journal.entries(run_id)).gates.has_answers
            for name, text in then.items():
                (folder / name).write_text(f"# as it was\n{text}", encoding="utf-8")
            await session.answer(run_id, {"ask": "approved"})
            assert (await session.resume(run_id)).status == "success"

    trio.run(main)


def test_a_child_before_which_another_file_is_found_is_refused_in_python_too(folder):
    (folder / "sub").mkdir()
    for name in ("flow.yaml", "child.yaml"):
        (folder / name).rename(folder / "sub" / name)
    host = Host.discover()
    record = record_of(treadle.load_workflow("sub/flow.yaml", host=host), SqliteJournal(folder / "journal.db"))
    assert recorded.as_recorded(record, host, {}) is not None
    (folder / "child.yaml").write_text(CHILD, encoding="utf-8")
    with pytest.raises(treadle.ConfigurationError, match=r"^sub/child\.yaml changed since run"):
        record.checked_workflow(host)
    assert recorded.as_recorded(record, host, {}) is None


def test_other_versions_of_plugins_kernel_or_python_are_noticed(folder, monkeypatch):
    host = Host.discover()
    record = record_of(treadle.load_workflow("flow.yaml", host=host), SqliteJournal(folder / "journal.db"))
    before = record.facts["versions"]
    assert recorded._changed_versions(before, host) == []
    for name in ("treadle-flow", "treadle-kernel"):
        (told,) = recorded._changed_versions({**before, name: "0.0.1"}, host) or ()
        assert told.startswith(f"{name} was 0.0.1 when the run began")
    assert recorded._changed_versions({**before, "python": "3.9.1"}, host) is None
    less = {name: version for name, version in before.items() if name != "treadle-flow"}
    assert recorded._changed_versions(less, host) is None, "what has come since may check otherwise"


def test_the_command_takes_the_short_way_and_with_another_plugin_version_the_long_one(folder, monkeypatch):
    (folder / "flow.yaml").write_text(
        "name: x\nsteps:\n- {id: a, type: tool, tool_name: file_read, tool_args: {path: no.txt}, output: got}\n"
        "config: {max_retries: 0}\n",
        encoding="utf-8",
    )

    def invoke(*arguments: str) -> Any:
        return CliRunner().invoke(treadle_command, arguments, prog_name="treadle")

    run_id = json.loads(invoke("run", "flow.yaml", "--json").stdout)["run_id"]
    with counted(monkeypatch) as seen:
        failed = invoke("resume", run_id, "--json")
    assert (failed.exit_code, seen) == (1, {"read": [], "checked": []}), failed.output
    now = Host.versions
    monkeypatch.setattr(Host, "versions", lambda host: {**now(host), "treadle-tools": "99.0"})
    (folder / "no.txt").write_text("it is there", encoding="utf-8")
    with counted(monkeypatch) as seen:
        done = invoke("resume", run_id, "--json")
    assert seen == {"read": ["flow.yaml"], "checked": [["a"]]}
    assert "warning: treadle-tools was " in done.stderr
    assert json.loads(done.stdout)["final_state"] == {"got": "it is there"}


def test_of_a_document_that_was_redacted_the_file_is_read(folder):
    text = FLOW.replace("steps:", "state_schema: {topic: {redact: true}}\nsteps:")
    (folder / "flow.yaml").write_text(text, encoding="utf-8")
    host = Host.discover()
    record = record_of(treadle.load_workflow("flow.yaml", host=host), SqliteJournal(folder / "journal.db"))
    assert "<REDACTED" in record.workflow["document"]["state"]["topic"]
    assert recorded.as_recorded(record, host, {}) is None
    (folder / "flow.yaml").write_text(text.replace("topic: tides, ", ""), encoding="utf-8")
    workflow = treadle.load_workflow("flow.yaml", host=host, state_keys=["topic"])
    record = record_of(workflow, SqliteJournal(folder / "journal.db"), {"topic": "given"})
    assert record.redacted_keys() == ["topic"]
    assert recorded.as_recorded(record, host, {}) is not None, "the file itself has nothing to hide"


def test_a_run_that_was_recorded_before_this_was_goes_on_as_ever(folder):
    host = Host.discover()
    record = record_of(treadle.load_workflow("flow.yaml", host=host), SqliteJournal(folder / "journal.db"))
    for name in ("file_digest", "settings_digest", "order"):
        old = {key: value for key, value in record.workflow.items() if key != name}
        now, record.workflow = record.workflow, old
        assert recorded.as_recorded(record, host, {}) is None
        record.workflow = now


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_example_is_the_same_from_its_record(name, tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    host = Host.discover()
    workflow = treadle.load_workflow(f"examples/{name}", host=host)
    record = record_of(workflow, SqliteJournal(tmp_path / "journal.db"))
    found = recorded.as_recorded(record, host, {})
    assert found is not None
    assert_same(found, workflow)


TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=12)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)


@st.composite
def documents(draw: st.DrawFn) -> dict[str, Any]:
    """Steps in any order that write, read what others write, wait for others or do not, and route."""
    count = draw(st.integers(1, 6))
    steps: list[dict[str, Any]] = []
    for index in range(count):
        before = [f"s{each}" for each in range(index)]
        read = draw(st.sampled_from([*(f"v{each}" for each in range(count)), "given"]))
        step: dict[str, Any] = {
            "id": f"s{index}", "type": "llm_call", "prompt": f"{{state.{read}}}", "output": f"v{index}"
        }  # fmt: skip
        if before and draw(st.booleans()):
            step["depends_on"] = draw(st.lists(st.sampled_from(before), unique=True, max_size=3))
        steps.append(step)
    return {
        "name": draw(TEXT.filter(bool)),
        "config": {"provider": "mock"},
        "state": {"given": draw(VALUES)},
        "steps": draw(st.permutations(steps)),
    }


HOST: list[Host] = []


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(documents())
def test_any_workflow_is_the_same_from_its_record(folder, document):
    (folder / "flow.yaml").write_text(yaml.safe_dump(document, allow_unicode=True, sort_keys=False), encoding="utf-8")
    HOST[:] = HOST or [Host.discover()]
    try:
        workflow = treadle.load_workflow("flow.yaml", host=HOST[0])
    except treadle.DocumentError:
        return
    (folder / "journal.db").unlink(missing_ok=True)
    record = record_of(workflow, SqliteJournal(folder / "journal.db"))
    found = recorded.as_recorded(record, HOST[0], {})
    assert found is not None
    assert_same(found, workflow)
