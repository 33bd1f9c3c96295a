"""Every first-party distribution builds a wheel that holds what users need."""

from __future__ import annotations

import configparser
import email.message
import email.parser
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import pytest

from workspace import META, ROOT, Distribution, distributions

# The hook that pip itself calls (PEP 517), without pip's isolated environment around it: a tenth of the time.
BUILD = "import sys; from hatchling.build import build_wheel; print(build_wheel(sys.argv[1]))"

DISTRIBUTIONS = distributions()


@dataclass(frozen=True)
class Wheel:
    """A built wheel: whose it is, what is in it, its metadata and entry points by group."""

    dist: Distribution
    files: frozenset[str]
    metadata: email.message.Message
    entry_points: dict[str, dict[str, str]]


@pytest.fixture(scope="module", params=DISTRIBUTIONS, ids=lambda dist: dist.name)
def wheel(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wheel]:
    dist: Distribution = request.param
    target = tmp_path_factory.mktemp("wheel")
    done = subprocess.run(
        [sys.executable, "-c", BUILD, str(target)], cwd=dist.folder, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    path = target / done.stdout.split()[-1]
    with zipfile.ZipFile(path) as archive:
        files = frozenset(archive.namelist())
        info = f"{dist.name.replace('-', '_')}-{dist.project['version']}.dist-info"
        metadata = email.parser.Parser().parsestr(archive.read(f"{info}/METADATA").decode())
        parser = configparser.ConfigParser(delimiters="=", interpolation=None)
        if f"{info}/entry_points.txt" in files:
            parser.read_string(archive.read(f"{info}/entry_points.txt").decode())
    yield Wheel(dist, files, metadata, {group: dict(parser[group]) for group in parser.sections()})
    shutil.rmtree(target)


def test_metadata_says_what_the_pyproject_says(wheel: Wheel) -> None:
    project = wheel.dist.project
    assert wheel.metadata["Name"] == project["name"]
    assert wheel.metadata["Version"] == project["version"]
    assert wheel.metadata["Summary"] == project["description"]
    assert wheel.metadata["Requires-Python"] == ">=3.11"
    assert wheel.metadata["License-Expression"] == "Apache-2.0"
    assert wheel.metadata.get_payload(), "the README is missing from the metadata"


def test_every_module_and_the_typing_marker_are_in_the_wheel(wheel: Wheel) -> None:
    """The meta distribution has no code, and its wheel no package."""
    inside = {name for name in wheel.files if ".dist-info/" not in name}
    if wheel.dist.name == META:
        assert inside == set()
        return
    package = wheel.dist.package
    assert package is not None
    on_disk = {
        path.relative_to(package.parent).as_posix()
        for path in package.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert inside == on_disk
    assert f"{wheel.dist.import_name}/py.typed" in inside


def test_entry_points_can_be_loaded(wheel: Wheel) -> None:
    for points in wheel.entry_points.values():
        for target in points.values():
            module, _, attribute = target.partition(":")
            found = import_module(module)
            assert not attribute or callable(getattr(found, attribute))
    assert wheel.entry_points.get("treadle.plugins", {}) == wheel.dist.plugins


def test_the_command_line_registers_its_catalogue_and_carries_it(wheel: Wheel) -> None:
    registered = wheel.entry_points.get("treadle.catalogues", {})
    if wheel.dist.name == "treadle-cli":
        assert registered == {"treadle": "treadle_cli"}
        assert "treadle_cli/catalogue.json" in wheel.files
    else:
        assert registered == {}


def test_the_workspace_holds_every_pyproject_there_is() -> None:
    """A distribution in a folder that nobody looks at would never be built, linted or catalogued."""
    found = {path.parent for path in ROOT.glob("**/pyproject.toml") if not _is_ignored(path)}
    assert found == {dist.folder for dist in DISTRIBUTIONS}


def _is_ignored(path: Path) -> bool:
    inside = path.relative_to(ROOT).parts
    hidden = any(part.startswith(".") for part in inside)
    return hidden or "template" in inside or inside[:2] == ("plugins", "_template") or inside[0] == "examples"
