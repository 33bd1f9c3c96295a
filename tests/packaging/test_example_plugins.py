"""The packages in ``examples/plugins``: two that work, and a broken one that stops nobody."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from workspace import ROOT, distributions

from installs.wheelhouse import Environment, build

EXAMPLES = ROOT / "examples" / "plugins"
GOOD = ("acme-keep-last", "acme-weather")

NEEDY = "name: needy\nsteps:\n  - {id: a, type: acme_broken}\n"
OTHER = "name: other\nconfig: {provider: mock}\nsteps:\n  - {id: a, type: llm_call, prompt: Hello, output: said}\n"


@contextmanager
def installed(name: str, strangers: Environment, folder: Path) -> Iterator[Path]:
    """A copy of the package's folder, its wheel installed meanwhile."""
    copy = folder / name
    shutil.copytree(EXAMPLES / name, copy, ignore=shutil.ignore_patterns("__pycache__"))
    strangers.run("python", "-m", "pip", "install", "-q", f"{build(copy, folder)}[test]", cwd=folder)
    try:
        yield copy
    finally:
        strangers.run("python", "-m", "pip", "uninstall", "-q", "-y", name, cwd=folder)


def test_they_are_no_distributions_of_ours() -> None:
    folders = {path.parent.name for path in EXAMPLES.glob("*/pyproject.toml")}
    assert folders == {*GOOD, "acme-broken"}
    assert not folders & {dist.name for dist in distributions()}
    catalogue = (ROOT / "cli" / "src" / "treadle_cli" / "catalogue.json").read_text(encoding="utf-8")
    assert "acme" not in catalogue


@pytest.mark.parametrize("name", GOOD)
def test_a_good_one_passes_its_tests_and_the_check(name: str, strangers: Environment, tmp_path: Path) -> None:
    with installed(name, strangers, tmp_path) as folder:
        tested = strangers.run("python", "-m", "pytest", "-q", "-p", "no:cacheprovider", cwd=folder)
        assert re.search(r"\d+ passed", tested), tested
        plugin = name.replace("-", "_")
        checked = json.loads(strangers.run("treadle", "plugins", "check", plugin, "--json", cwd=tmp_path))
        assert checked["ok"] is True, checked
        if (folder / "examples").is_dir():
            done = strangers.run("treadle", "run", "workflow.yaml", "--json", "-q", cwd=folder / "examples")
            result = json.loads(done)
            assert result["status"] == "success"
            assert list(result["final_state"]["warmest"]) == ["Lima", "Århus", "Oslo"]


def test_the_broken_one_stops_only_what_needs_it(strangers: Environment, tmp_path: Path) -> None:
    (tmp_path / "needy.yaml").write_text(NEEDY)
    (tmp_path / "other.yaml").write_text(OTHER)
    whose = "plugin 'acme_broken' (acme-broken 0.1.0)"
    cause = "cannot import name 'Offering' from 'treadle'"
    with installed("acme-broken", strangers, tmp_path) as folder:
        listed = strangers.run("treadle", "plugins", cwd=tmp_path)
        assert re.search(r"^acme_broken +acme-broken +0\.1\.0 +broken", listed, re.MULTILINE)
        assert whose in listed
        assert cause in listed
        assert "disable it with --without acme_broken" in listed

        done = strangers.run("treadle", "run", "other.yaml", "-q", cwd=tmp_path)
        assert done == "said: Mock response\n"

        said = strangers.run("treadle", "run", "needy.yaml", cwd=tmp_path, exit_code=2)
        assert whose in said
        assert "Traceback" not in said

        said = strangers.run("treadle", "plugins", "check", "acme_broken", cwd=tmp_path, exit_code=1)
        assert cause in said

        listed = strangers.run("treadle", "plugins", "--without", "acme_broken", cwd=tmp_path)
        assert re.search(r"^acme_broken .* disabled", listed, re.MULTILINE)
        assert cause not in listed

        tested = strangers.run("python", "-m", "pytest", "-q", "-p", "no:cacheprovider", cwd=folder)
        assert "2 passed" in tested
