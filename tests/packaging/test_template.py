"""What ``treadle plugins new`` writes is a package that works, for every kind."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from treadle_cli.template_files import KINDS, TEMPLATE, new_files, write_files
from workspace import ROOT

from installs.wheelhouse import Environment, build


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def package(kind: str, strangers: Environment, strangers_home: Path) -> Iterator[Path]:
    """A new package, written by the command; uninstalled again in the end."""
    name = f"acme-new-{kind.replace('_', '-')}"
    strangers.run("treadle", "plugins", "new", name, "--kind", kind, cwd=strangers_home)
    yield strangers_home / name
    strangers.run("python", "-m", "pip", "uninstall", "--quiet", "--yes", name, cwd=strangers_home, exit_code=None)


def test_a_new_package_can_be_published_used_and_removed(
    kind: str, package: Path, strangers: Environment, strangers_home: Path
) -> None:
    """Built, installed as a wheel, tested by its own tests, checked, run, and uninstalled."""
    plugin = package.name.replace("-", "_")
    examples = package / "examples"
    wheel = build(package, strangers_home)
    strangers.run("python", "-m", "pip", "install", "--quiet", f"{wheel}[test]", cwd=strangers_home)

    tested = strangers.run("python", "-m", "pytest", "-q", "-p", "no:cacheprovider", cwd=package)
    assert re.search(r"\d+ passed", tested), tested

    checked = json.loads(strangers.run("treadle", "plugins", "check", plugin, "--json", cwd=strangers_home))
    assert checked["ok"] is True, checked

    done = strangers.run("treadle", "run", "workflow.yaml", "--json", "-q", cwd=examples)
    assert json.loads(done)["status"] == "success", done

    strangers.run("python", "-m", "pip", "uninstall", "--quiet", "--yes", package.name, cwd=strangers_home)
    said = strangers.run("treadle", "run", "workflow.yaml", "--no-config", cwd=examples, exit_code=2)
    told = rf"workflow\.yaml:2:\d+: requires\.0: .*, and {package.name} is not installed; pip install"
    assert re.search(told, said), said
    if (examples / "treadle.yaml").exists():
        said = strangers.run("treadle", "run", "workflow.yaml", cwd=examples, exit_code=2)
        assert f"treadle.yaml:2:12: roles.sandbox: no sandbox '{plugin}'" in said


def test_a_new_package_says_its_own_name_and_no_other(kind: str, tmp_path: Path) -> None:
    files = new_files(kind, "acme_moon")
    text = "\n".join([*files, *(data.decode("utf-8", "replace") for data in files.values())])
    assert not re.search(rf"acme[_-]{kind}|my[_-]{kind}|a_role|a_need|a_description|acme[_-]kind|my[_-]kind", text)
    assert {"pyproject.toml", "README.md", "src/acme_moon/plugin.py", "src/acme_moon/checks.py"} <= files.keys()
    assert "# --- outside" not in text


@pytest.mark.parametrize("name", ["my_step", "acme_tool", "a_kind", "my_kind"])
def test_words_of_the_template_may_be_in_a_name(kind: str, name: str) -> None:
    """They are replaced once, and not again in what stands there then."""
    plain, strange = (new_files(kind, each) for each in ("acme_moon", name))
    assert [each.replace("acme_moon", name) for each in plain] == list(strange)
    expected = plain["pyproject.toml"].decode().replace("acme_moon", name).replace("acme-moon", name.replace("_", "-"))
    assert strange["pyproject.toml"].decode() == expected


def test_the_template_is_what_the_repository_calls_so() -> None:
    """One source: ``plugins/_template`` is the folder that the command line carries."""
    assert (ROOT / "plugins" / "_template").resolve() == TEMPLATE.resolve()
    folders = {path.name for path in TEMPLATE.iterdir() if path.is_dir() and path.name[0] not in "._"}
    assert folders == {"common", *KINDS}


def test_what_is_written_passes_strict_type_checking(tmp_path: Path) -> None:
    sources = []
    for kind in KINDS:
        write_files(tmp_path / kind, new_files(kind, f"acme_typed_{kind}"))
        sources.append(str(tmp_path / kind / "src"))
    sources += map(str, sorted((ROOT / "examples" / "plugins").glob("acme-[!b]*/src")))
    command = [sys.executable, "-m", "mypy", "--strict", "--python-version", "3.11", *sources]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout
