"""What pip installs when somebody asks for a part of Treadle. Everything comes from a folder of wheels, offline."""

from __future__ import annotations

import json
import re
import tarfile
import zipfile
from pathlib import Path

import pytest
from conftest import MakeEnvironment

from workspace import META, ROOT, Distribution, distributions

from installs.wheelhouse import Environment, Wheelhouse, build, canonical

DISTRIBUTIONS = distributions()
PARTS = [dist for dist in DISTRIBUTIONS if dist.folder != ROOT]

WORKFLOW = """\
name: subset
steps:
  - id: ask
    type: llm_call
    prompt: Hello
    output: answer
"""


@pytest.fixture(scope="module")
def small(make_environment: MakeEnvironment) -> Environment:
    return make_environment("treadle-kernel", "treadle-cli", "treadle-llm-call", "treadle-openai")


def test_a_subset_brings_no_other_vendor(small: Environment) -> None:
    names = small.names()
    assert {"treadle-kernel", "treadle-cli", "treadle-llm-call", "treadle-openai", "openai"} <= names
    foreign = {name for name in names if re.search("anthropic|google|genai|ollama|opentelemetry|xllamacpp", name)}
    assert foreign == set()
    ours = {name for name in names if name.startswith(META)}
    assert ours == {
        *("treadle-cli", "treadle-http", "treadle-kernel"),
        *("treadle-llm-call", "treadle-loop", "treadle-openai"),
    }


def test_a_subset_works(small: Environment, tmp_path: Path) -> None:
    (tmp_path / "flow.yaml").write_text(WORKFLOW, encoding="utf-8")
    listed = json.loads(small.run("treadle", "plugins", "--json", cwd=tmp_path))
    assert {each["name"]: each["state"] for each in listed["plugins"]} == {"llm_call": "loaded", "openai": "loaded"}
    assert "flow.yaml: ok" in small.run("treadle", "validate", "flow.yaml", cwd=tmp_path)


def test_what_is_left_out_is_named_with_its_package(small: Environment, tmp_path: Path) -> None:
    (tmp_path / "flow.yaml").write_text(WORKFLOW.replace("llm_call\n    prompt: Hello", "router\n    default: x"))
    said = small.run("treadle", "validate", "flow.yaml", cwd=tmp_path, exit_code=2)
    assert "step type 'router' is not installed; pip install treadle-router" in said
    (tmp_path / "flow.yaml").write_text(WORKFLOW)
    said = small.run("treadle", "run", "flow.yaml", "-p", "anthropic", cwd=tmp_path, exit_code=2)
    assert "provider 'anthropic' is not installed; pip install treadle-anthropic" in said


def would_be_installed(strangers: Environment, folder: Path, *requirements: str) -> set[str]:
    """What pip would install into an empty environment."""
    report = folder / "report.json"
    options = ("--dry-run", "--ignore-installed", "--quiet", "--report", str(report))
    strangers.run("python", "-m", "pip", "install", *options, *requirements, cwd=folder)
    installed = json.loads(report.read_text(encoding="utf-8"))["install"]
    return {canonical(each["metadata"]["name"]) for each in installed}


def test_the_kernel_alone_brings_no_command_line_and_no_http(strangers: Environment, tmp_path: Path) -> None:
    names = would_be_installed(strangers, tmp_path, "treadle-kernel")
    assert {name for name in names if name.startswith(META)} == {"treadle-kernel"}
    assert not names & {"click", "rich", "httpx", "httpx2", "openai"}


def test_the_meta_distribution_brings_its_defaults_and_no_extra(strangers: Environment, tmp_path: Path) -> None:
    names = would_be_installed(strangers, tmp_path, META)
    asked = {re.split("[<>=]", each)[0] for each in DISTRIBUTIONS[0].project["dependencies"]}
    assert {name for name in names if name.startswith(META)} == {META, *asked, "treadle-http", "treadle-loop"}
    assert not names & {"anthropic", "google-genai", "xllamacpp", "networkx"}


def test_every_extra_is_a_distribution_of_ours() -> None:
    """`treadle[anthropic]` brings treadle-anthropic, and every provider has one."""
    extras = DISTRIBUTIONS[0].project["optional-dependencies"]
    names = {dist.name for dist in PARTS}
    asked = {re.split("[<>=]", each)[0] for requirements in extras.values() for each in requirements}
    assert asked <= names
    providers = {dist.name for dist in PARTS if "provider" in dist.offers and dist.name != "treadle-replay"}
    assert providers <= asked


@pytest.mark.parametrize("dist", DISTRIBUTIONS, ids=lambda dist: dist.name)
def test_the_source_distribution_makes_the_same_wheel(
    dist: Distribution, tmp_path: Path, wheelhouse: Wheelhouse
) -> None:
    """Whoever packages Treadle from sources gets what others get."""
    archive = build(dist.folder, tmp_path, "sdist")
    with tarfile.open(archive) as files:
        files.extractall(tmp_path, filter="data")
    built = build(tmp_path / archive.name.removesuffix(".tar.gz"), tmp_path)
    (published,) = wheelhouse.folder.glob(built.name)
    assert _contents(built) == _contents(published)


def _contents(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_all_have_one_version() -> None:
    """They are released together until 1.0, so that `0.1` says what works with what."""
    versions = {dist.project["version"] for dist in DISTRIBUTIONS}
    assert len({version.rpartition(".")[0] for version in versions}) == 1, versions
