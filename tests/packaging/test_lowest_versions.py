"""The oldest versions that our packages allow do: every SDK, and everything else that is asked for.

They are installed nowhere, so this takes them from the package index that pip is set up with. `make soak` runs it; the
newest versions are those in constraints.txt, which all other tests run with.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

import constraints
from workspace import ROOT, Distribution, distributions

from documents.pages import environment_of
from installs.wheelhouse import Environment, build, canonical

pytestmark = pytest.mark.soak

DISTRIBUTIONS = distributions()
# 100 MB, and its versions are dates: the lowest one is the one that there was.
LEFT_OUT = {"treadle", "treadle-local"}
# pytest itself asks for a newer one.
UNPINNED = {"pluggy", "packaging"}
TOOLS = ("hypothesis", "pytest", "pytest-trio", "trustme", "networkx", "mypy", "types-PyYAML")
SUITES = ("treadle_openai", "treadle_anthropic", "treadle_google", "treadle_ollama", "treadle_http", "treadle_loop")


def lowest(dists: Iterable[Distribution]) -> dict[str, Version]:
    """The oldest version of each package of others that satisfies all of ours."""
    own = {dist.name for dist in DISTRIBUTIONS}
    found: dict[str, Version] = {}
    for dist in dists:
        for each in map(Requirement, dist.project.get("dependencies", [])):
            for bound in each.specifier:
                if bound.operator == ">=" and canonical(each.name) not in own:
                    name = canonical(each.name)
                    found[name] = max(Version(bound.version), found.get(name, Version("0")))
    return found


def test_the_lowest_versions_are_told_from_the_bounds() -> None:
    found = lowest(DISTRIBUTIONS)
    assert found["openai"] == Version("3.50")
    assert found["trio"] >= Version("0.30"), "the highest of the lower bounds counts"
    assert "treadle-kernel" not in found


def test_every_dependency_of_others_has_a_lower_bound() -> None:
    own = {dist.name for dist in DISTRIBUTIONS}
    asked = [each for dist in DISTRIBUTIONS for each in map(Requirement, dist.project.get("dependencies", []))]
    loose = [str(each) for each in asked if canonical(each.name) not in own and ">=" not in str(each.specifier)]
    assert loose == []


@pytest.fixture(scope="module")
def oldest(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """Everything of ours, with the oldest versions of everything else."""
    place = tmp_path_factory.mktemp("oldest")
    dists = [dist for dist in DISTRIBUTIONS if dist.name not in LEFT_OUT]
    wheels = [str(build(dist.folder, place)) for dist in dists]
    pins = constraints.pins(constraints.TARGET.read_text(encoding="utf-8"))
    tools = [f"{name}=={pins[canonical(name)]}" for name in TOOLS]
    found = {name: version for name, version in lowest(dists).items() if name not in UNPINNED}
    bounds = [f"{name}=={version}{'' if len(version.release) > 2 else '.*'}" for name, version in found.items()]
    subprocess.run([sys.executable, "-m", "venv", str(place / "venv")], check=True, timeout=300)
    made = Environment(place / "venv", environment_of(os.environ, place / "venv" / "bin"))
    made.run("python", "-m", "pip", "install", "--quiet", *wheels, *bounds, *tools, cwd=place)
    return made


def test_everything_can_be_imported(oldest: Environment, tmp_path: Path) -> None:
    """Every module of every package, SDKs and all."""
    packages = [dist.import_name for dist in DISTRIBUTIONS if dist.name not in LEFT_OUT and dist.import_name]
    (tmp_path / "program.py").write_text(
        "import importlib, pkgutil, sys\n"
        f"for name in {packages!r}:\n"
        "    package = importlib.import_module(name)\n"
        "    for module in pkgutil.walk_packages(package.__path__, name + '.'):\n"
        "        if not module.name.endswith('__main__'):\n"
        "            importlib.import_module(module.name)\n"
    )
    oldest.run("python", "program.py", cwd=tmp_path)


@pytest.mark.parametrize("suite", SUITES)
def test_the_suite_passes(suite: str, oldest: Environment) -> None:
    """Against local servers, as with the newest versions."""
    folder = ROOT / "plugins" / suite / "tests"
    if not folder.is_dir():
        pytest.skip(f"{suite} has no tests yet")
    # Warnings are those of old versions, about what has changed since.
    options = ("-q", "-p", "no:cacheprovider", "-W", "default", "--hypothesis-profile=ci")
    oldest.run("python", "-m", "pytest", *options, str(folder), cwd=ROOT)
