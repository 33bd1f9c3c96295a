"""``make new-plugin`` writes a plugin of this repository, and lists it wherever plugins are listed."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from new_plugin import LISTS, new_plugin, registered
from treadle import ConfigurationError
from treadle_cli.template_files import KINDS
from workspace import ROOT, distributions, shape_problems

SETTINGS = (ROOT / "pyproject.toml").read_text(encoding="utf-8")


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A repository of the same shape, with the root's settings."""
    for name in (".", "kernel", "cli"):
        (tmp_path / name).mkdir(exist_ok=True)
        shutil.copy(ROOT / name / "pyproject.toml", tmp_path / name)
    (tmp_path / "plugins").mkdir()
    return tmp_path


@pytest.mark.parametrize("kind", KINDS)
def test_the_new_plugin_has_the_shape_of_ours(kind: str, copy: Path) -> None:
    folder = new_plugin("moon-phase", kind, copy)
    (dist,) = (each for each in distributions(copy) if each.folder == folder)
    assert (dist.name, dist.import_name) == ("treadle-moon-phase", "treadle_moon_phase")
    assert dist.plugins == {"moon_phase": "treadle_moon_phase.plugin"}
    assert list(shape_problems(dist)) == []
    # A fetcher is offered under its scheme, which has no underscores.
    assert {"moon_phase", "moon-phase"} & {name for names in dist.offers.values() for name in names}
    assert not (folder / "examples").exists()
    assert "optional-dependencies" not in dist.project


def test_it_is_listed_in_order_wherever_plugins_are() -> None:
    before, after = tomllib.loads(SETTINGS), tomllib.loads(registered(SETTINGS, "treadle_moon"))
    assert after["tool"]["uv"]["sources"] == {**before["tool"]["uv"]["sources"], "treadle-moon": {"workspace": True}}
    for settings, count in ((before, 0), (after, len(LISTS))):
        linter = settings["tool"]["importlinter"]
        contracts = {each["id"]: each for each in linter["contracts"]}
        lists = [(contracts[contract] if contract else linter)[key] for contract, key in LISTS]
        assert sum("treadle_moon" in names for names in lists) == count


def test_a_second_one_of_that_name_is_refused(copy: Path) -> None:
    new_plugin("moon", "tool", copy)
    with pytest.raises(ConfigurationError, match="treadle_moon is there already"):
        new_plugin("treadle-moon", "step", copy)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "usage: make new-plugin NAME=x KIND=step; the kinds are step, tool, provider"),
        (["Moon", "--kind", "tool"], "error: 'Moon' is no name for a plugin"),
        (["router", "--kind", "step"], "treadle_router is there already"),
    ],
)
def test_mistakes_are_told_in_a_sentence(arguments: list[str], said: str) -> None:
    script = ROOT / "scripts" / "new_plugin.py"
    done = subprocess.run([sys.executable, script, *arguments], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert "Traceback" not in done.stderr
