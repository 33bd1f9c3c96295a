"""Which value wins: kernel defaults < treadle.yaml < the workflow's config < environment; a step's own field always."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import treadle
from treadle import Host, Settings, SettingValue
from treadle._settings.providers import build_settings

MakeHost = Callable[..., Host]
OutputOf = Callable[..., Any]


def test_environment_beats_workflow_beats_file_beats_default(
    make_host: MakeHost, output_of: OutputOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert output_of(make_host()) == "fake None plain offered"
    host = make_host(providers={"fake": {"mode": "file", "base_url": "http://file"}})
    assert output_of(host) == "fake http://file file offered"
    assert output_of(host, config={"mode": "workflow"}) == "fake http://file workflow offered"
    monkeypatch.setenv("FAKE_MODE", "environment")
    assert output_of(host, config={"mode": "workflow"}) == "fake http://file environment offered"


def test_every_value_knows_where_it_comes_from(
    installed: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "treadle.yaml"
    file.write_text("providers:\n  fake:\n    timeout: 5\n    base_url: http://file\n", encoding="utf-8")
    monkeypatch.setenv("FAKE_BASE_URL", "http://environment")
    host = treadle.deployed_host("treadle.yaml")
    assert treadle.provider_values(host, "fake", {"mode": "loud"}) == {
        "timeout": SettingValue(5, "treadle.yaml:3:14"),
        "base_url": SettingValue("http://environment", "FAKE_BASE_URL"),
        "mode": SettingValue("loud", "config"),
    }


def test_several_of_one_kind_have_their_own_settings_and_no_environment(
    make_host: MakeHost, output_of: OutputOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The variable of the kind would send each of them, with its own key, to one server."""
    monkeypatch.setenv("FAKE_BASE_URL", "http://environment")
    host = make_host(
        providers={"here": {"kind": "fake", "base_url": "http://here"}, "there": {"kind": "fake", "default_model": "m"}}
    )
    assert output_of(host, config={"provider": "here"}) == "here http://here plain offered"
    assert output_of(host, config={"provider": "there"}) == "there None plain m"
    assert output_of(host, config={"provider": "fake"}) == "fake http://environment plain offered"
    assert output_of(host, config={"provider": "here", "mode": "loud"}) == "here http://here loud offered"


def test_a_provider_and_its_model(make_host: MakeHost, output_of: OutputOf) -> None:
    """The deployment's model is that of its own provider: another one would not know it."""
    two = {"fast": {"kind": "fake", "default_model": "fast-1"}}
    host = make_host(provider="fast", model="fast-2", providers=two)
    assert output_of(host) == "fast None plain fast-2"
    assert output_of(host, config={"provider": "fast"}) == "fast None plain fast-2"
    assert output_of(host, config={"provider": "fake"}) == "fake None plain offered"
    assert output_of(host, config={"model": "workflow-1"}) == "fast None plain workflow-1"
    assert output_of(host, config={"model": "workflow-1"}, model="step-1") == "fast None plain step-1"
    assert output_of(make_host(model="mine")) == "fake None plain mine", "of the default provider, where none is named"


def test_a_model_without_a_default_provider_is_nobodys(make_host: MakeHost) -> None:
    host = Host.of({}, settings=Settings(model="m"))
    assert host.default_model("fake") is None


def test_config_defaults_of_the_deployment_yield_to_the_workflow(make_host: MakeHost, output_of: OutputOf) -> None:
    host = make_host(config={"max_retries": 1, "timeout": 9, "mode": "deployed"})
    steps = [{"id": "a", "type": "ask"}]
    bare = treadle.build_workflow({"name": "x", "steps": steps}, host=host).config
    assert (bare.max_retries, bare.timeout, bare.max_concurrent_steps) == (1, 9, 10)
    data = {"name": "x", "config": {"max_retries": 2, "timeout": None}, "steps": steps}
    own = treadle.build_workflow(data, host=host, config={"stream": True}).config
    assert (own.max_retries, own.timeout, own.stream) == (2, None, True)
    assert output_of(host) == "fake None deployed offered"
    assert treadle.build_workflow(data, host=host, config={"max_retries": 5}).config.max_retries == 5


def test_a_workflow_stays_as_it_was_written(make_host: MakeHost) -> None:
    """What a deployment adds is not part of the document: its hash is the same everywhere."""
    data = {"name": "x", "steps": [{"id": "a", "type": "ask"}]}
    here = treadle.build_workflow(data, host=make_host(config={"max_retries": 1}))
    there = treadle.build_workflow(data, host=make_host())
    assert here.digest == there.digest
    assert here.data == data


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (
            {"fake": {"timeout": "soon"}},
            (
                "settings: setting 'timeout' of provider 'fake': Input should be a valid number, "
                "unable to parse string as a number"
            ),
        ),
        (
            {"fake": {"api_key": "sk-live"}},
            (
                "settings: setting 'api_key' of provider 'fake': a secret is given by "
                "reference, as env:NAME or file:PATH, never as itself"
            ),
        ),
    ],
)
def test_settings_made_in_a_program_are_checked_where_a_workflow_uses_them(
    make_host: MakeHost, settings: Any, expected: str
) -> None:
    host = make_host(providers=settings)
    with pytest.raises(treadle.ConfigurationError) as caught:
        build_settings(host, "fake")
    assert str(caught.value) == expected
    with pytest.raises(treadle.DocumentError, match=r"providers\.fake"):
        treadle.build_workflow({"name": "x", "steps": [{"id": "a", "type": "ask"}]}, host=host)


def test_a_workflow_is_refused_for_the_settings_of_the_provider_that_it_uses_only(
    installed: None, tmp_path: Path
) -> None:
    (tmp_path / "treadle.yaml").write_text(
        "providers:\n  bad: {kind: fake, timeout: soon}\n  good: {kind: fake}\n", encoding="utf-8"
    )
    host = treadle.deployed_host("treadle.yaml")
    text = "name: x\nconfig: {{provider: {}}}\nsteps:\n- {{id: a, type: {}}}\n"
    treadle.parse_workflow(text.format("good", "ask"), host=host)
    treadle.parse_workflow(text.format("bad", "limits"), host=host)  # a step that asks no model
    with pytest.raises(treadle.DocumentError) as caught:
        treadle.parse_workflow(text.format("bad", "ask"), host=host)
    assert str(caught.value) == "treadle.yaml:2:30: providers.bad.timeout: must be a number, not what is there"
    with pytest.raises(treadle.DocumentError, match=r"^treadle.yaml:2:30: "):
        treadle.parse_workflow(text.format("good", "ask"), host=host, config={"provider": "bad"})


def test_the_parent_sandbox_only_narrows(make_host: MakeHost, output_of: OutputOf) -> None:
    host = make_host(roles={"sandbox": "box"}, sandbox={"network": False, "programs": ["ls", "cat"]})
    assert output_of(host, "limits") == ["Box", {"network": False, "programs": ["ls", "cat"]}]
    wants_more = {"sandbox": {"network": True, "programs": ["cat", "rm"]}}
    assert output_of(host, "limits", config=wants_more) == ["Box", {"network": False, "programs": ["cat"]}]
    free = make_host(roles={"sandbox": "cage"})
    assert output_of(free, "limits", config=wants_more) == ["Cage", {"network": True, "programs": ["cat", "rm"]}]


def test_a_combination_that_is_refused_is_found_when_the_workflow_is_read(make_host: MakeHost) -> None:
    host = make_host(roles={"sandbox": "box"}, sandbox={"programs": ["ls"]})
    with pytest.raises(treadle.DocumentError) as caught:
        treadle.parse_workflow(
            "name: x\nconfig:\n  sandbox: {programs: [rm]}\nsteps: [{id: a, type: limits}]\n", host=host
        )
    assert str(caught.value) == (
        "<text>:3:12: config.sandbox: the sandbox allows no program that the workflow wants; ask for another"
    )


def test_the_chosen_journal_records(
    make_host: MakeHost, output_of: OutputOf, recorded: list[treadle.JournalEntry]
) -> None:
    output_of(make_host())
    assert recorded == [], "a journal that is installed and not chosen"
    output_of(make_host(roles={"journal": "kept"}))
    assert [entry.kind for entry in recorded][:2] == ["run_started", "step_started"]


def test_a_journal_that_has_no_place_of_its_own_is_there_already(make_host: MakeHost) -> None:
    found = treadle.installed_journal(make_host(roles={"journal": "kept"}), create=False)
    assert list(found.entries("r")) == []
