"""``treadle init``: a workflow and settings that are valid, run at once, and replace nothing."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

import treadle

Invoke = Callable[..., Result]

OFFLINE_NOTE = "provider 'mock' answers without a model; name another in treadle.yaml to ask one\n"


@pytest.fixture(autouse=True)
def _no_settings_above(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TREADLE_CONFIG", raising=False)


def test_in_an_empty_folder_it_validates_and_runs_offline(program: Any, tmp_path: Path) -> None:
    made = program("init")
    assert (made.code, made.err) == (0, "")
    assert made.out == (
        "workflow.yaml written\ntreadle.yaml written\n\nnext:\n  treadle run workflow.yaml\n"
        "  treadle schema --write workflow.yaml    # completion in an editor\n" + OFFLINE_NOTE
    )
    assert sorted(each.name for each in tmp_path.iterdir()) == ["treadle.yaml", "workflow.yaml"]
    checked = program("validate", "--strict", "workflow.yaml")
    assert (checked.code, checked.out, checked.err) == (0, "workflow.yaml: ok (2 steps)\n", "")
    ran = program("run", "workflow.yaml", "-q")
    assert (ran.code, ran.err) == (0, "")
    assert "question: " in ran.out
    assert re.search(r"^provider +mock +treadle\.yaml:4:11$", program("config", "show", "--origin").out, re.MULTILINE)


def test_every_command_that_it_names_works(program: Any) -> None:
    made = program("init", "a new/place")
    assert "  cd 'a new/place'\n" in made.out
    in_there = type(program)(program.folder / "a new" / "place", program.plugins, program.cache)
    commands = re.findall(r"^  treadle (.*?)(?:  +#.*)?$", made.out, re.MULTILINE)
    assert len(commands) == 2
    for command in commands:
        ended = in_there(*command.split())
        assert ended.code == 0, ended.err


def test_a_folder_is_made_and_named(invoke: Invoke, tmp_path: Path) -> None:
    result = invoke("init", "one/two")
    assert result.exit_code == 0
    first, second, *_ = result.stdout.splitlines()
    assert (first, second) == (
        f"{Path('one', 'two', 'workflow.yaml')} written",
        f"{Path('one', 'two', 'treadle.yaml')} written",
    )
    assert (tmp_path / "one" / "two" / "workflow.yaml").is_file()


def test_nothing_is_overwritten_and_nothing_else_written(invoke: Invoke, tmp_path: Path) -> None:
    (tmp_path / "treadle.yaml").write_text("mine", encoding="utf-8")
    result = invoke("init")
    assert result.exit_code == 2
    assert result.stderr.endswith("treadle.yaml would be overwritten; say --force, or name another folder\n")
    assert [each.name for each in tmp_path.iterdir()] == ["treadle.yaml"]
    assert (tmp_path / "treadle.yaml").read_text(encoding="utf-8") == "mine"


def test_both_files_in_the_way_are_named(invoke: Invoke) -> None:
    assert invoke("init").exit_code == 0
    assert "workflow.yaml and treadle.yaml would be overwritten" in invoke("init").stderr


def test_force_overwrites_broken_settings_too(invoke: Invoke, tmp_path: Path) -> None:
    (tmp_path / "treadle.yaml").write_text("provder: [", encoding="utf-8")
    assert invoke("init", "--force").exit_code == 0
    assert invoke("validate", "workflow.yaml").exit_code == 0


def test_a_link_to_nowhere_is_in_the_way_as_well(invoke: Invoke, tmp_path: Path) -> None:
    (tmp_path / "workflow.yaml").symlink_to(tmp_path / "gone")
    assert invoke("init").exit_code == 2
    assert not (tmp_path / "gone").exists()


@pytest.mark.parametrize("folder", ["file", "file/below"])
def test_a_file_where_the_folder_belongs(invoke: Invoke, tmp_path: Path, folder: str) -> None:
    (tmp_path / "file").touch()
    result = invoke("init", folder)
    assert (result.exit_code, result.stdout) == (2, "")
    assert re.fullmatch(r"error: file\S* cannot be written: (File exists|Not a directory)\n", result.stderr)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_may_not_be_written(invoke: Invoke, tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0o500)
    result = invoke("init", "closed")
    assert (result.exit_code, result.stderr) == (
        2,
        f"error: {Path('closed', 'workflow.yaml')} cannot be written: Permission denied\n",
    )


def test_a_disk_that_refuses_is_told(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **options: object) -> None:
        raise PermissionError(13, "Permission denied", "workflow.yaml")

    monkeypatch.setattr(Path, "write_text", refuse)
    result = invoke("init")
    assert (result.exit_code, result.stderr) == (2, "error: workflow.yaml cannot be written: Permission denied\n")


def test_the_default_provider_is_taken_where_its_key_is_set(invoke: Invoke, tmp_path: Path) -> None:
    result = invoke("init", env={"OPENAI_API_KEY": "not-a-key"})
    assert result.exit_code == 0
    assert OFFLINE_NOTE not in result.stdout
    assert treadle.load_settings(tmp_path / "treadle.yaml").provider == "openai"


def test_a_provider_may_be_named_and_a_missing_key_is_told(invoke: Invoke, tmp_path: Path) -> None:
    result = invoke("init", "--provider", "openai")
    assert (result.exit_code, result.stderr) == (
        0,
        "warning: provider 'openai' needs a key, and OPENAI_API_KEY is not set\n",
    )
    assert treadle.load_settings(tmp_path / "treadle.yaml").provider == "openai"


def test_a_provider_that_need_not_have_a_key_has_no_warning(invoke: Invoke) -> None:
    assert invoke("init", "-p", "generic_openai").stderr == ""


def test_a_provider_that_is_not_there_is_refused_before_anything_is_written(invoke: Invoke, tmp_path: Path) -> None:
    result = invoke("init", "-p", "mok")
    assert (result.exit_code, result.stderr) == (
        2,
        "error: no provider 'mok'; did you mean 'mock' (treadle-replay 0.1.0)?\n",
    )
    assert list(tmp_path.iterdir()) == []


def test_settings_that_are_commented_out_are_valid_without_the_sign(invoke: Invoke, tmp_path: Path) -> None:
    assert invoke("init").exit_code == 0
    file = tmp_path / "treadle.yaml"
    lines = file.read_text(encoding="utf-8").splitlines()
    setting = re.compile(r"# ( *[a-z_]+:.*)")
    file.write_text("\n".join(setting.sub(r"\1", line) for line in lines), encoding="utf-8")
    (tmp_path / "tools.py").touch()
    settings = treadle.load_settings(file)
    assert settings.model_fields_set == set(type(settings).model_fields), "each has its example"
    host = treadle.deployed_host(file, check_providers=True)
    assert [each.message for each in host.warnings] == ["no plugin 'some_plugin' is installed"]
