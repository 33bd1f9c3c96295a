"""The pyprojects have one shape, and everything generated or listed by hand agrees with them."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import get_args

import pytest

import catalogue
import constraints
from treadle.contracts.offers import Role
from treadle.hookspecs import TreadleHooks
from workspace import KERNEL, ROLES, ROOT, Distribution, distributions, shape_problems

DISTRIBUTIONS = distributions()
PLUGINS = [dist for dist in DISTRIBUTIONS if dist.plugins]
IMPORTS = sorted(dist.import_name for dist in DISTRIBUTIONS if dist.import_name)
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))

HOOKS = {
    "attachment_fetcher": "treadle_attachment_fetchers",
    "budget": "treadle_budgets",
    "config_field": "treadle_config_fields",
    "journal": "treadle_journals",
    "memory": "treadle_memories",
    "observer": "treadle_observers",
    "price_source": "treadle_price_sources",
    "provider": "treadle_providers",
    "provider_layer": "treadle_provider_layers",
    "recorder": "treadle_recorders",
    "sandbox": "treadle_sandboxes",
    "step_type": "treadle_step_types",
    "token_counter": "treadle_token_counters",
    "tool": "treadle_tools",
    "trim_policy": "treadle_trim_policies",
}


@pytest.mark.parametrize("dist", DISTRIBUTIONS, ids=lambda dist: dist.name)
def test_pyproject_has_the_required_shape(dist: Distribution) -> None:
    assert list(shape_problems(dist)) == []


def test_a_pyproject_out_of_shape_is_told_what_is_wrong(tmp_path: Path) -> None:
    folder = tmp_path / "treadle_acme"
    folder.mkdir()
    dist = Distribution(
        folder,
        {
            "build-system": {"requires": ["setuptools"]},
            "project": {
                "name": "acme",
                "version": "1",
                "description": "Ends with a stop.",
                "dependencies": ["treadle-http", "x @ file:///y"],
                "entry-points": {"treadle.plugins": {"acme": "acme"}},
            },
            "tool": {"treadle": {"offers": {"toll": ["a", "a"]}}},
        },
    )
    assert list(shape_problems(dist)) == [
        "build-system is not hatchling alone",
        "project.name is 'acme', not 'treadle-acme'",
        "project.readme is None, not 'README.md'",
        "project.requires-python is None, not '>=3.11'",
        "project.license is None, not 'Apache-2.0'",
        "project.version is '1', not three numbers",
        "project.description is not one line without a full stop",
        "README.md is missing",
        "dependency 'treadle-http' is not bounded as 'treadle-NAME>=X.Y,<X.Z'",
        "dependency 'x @ file:///y' is an address",
        "it does not depend on treadle-kernel",
        "tool.hatch.build.targets.wheel.packages is not ['src/acme']",
        "src/acme/__init__.py is missing",
        "src/acme/py.typed is missing",
        "entry point acme is 'acme', not 'acme.plugin'",
        f"tool.treadle.offers.toll is no role; the roles are {', '.join(sorted(ROLES))}",
        "tool.treadle.offers.toll is empty or repeats a name",
    ]


def test_the_roles_are_those_of_the_contract_and_each_has_its_hook() -> None:
    assert set(get_args(Role)) == ROLES == set(HOOKS)
    assert set(HOOKS.values()) == {name for name in vars(TreadleHooks) if name.startswith("treadle_")}


@pytest.mark.parametrize("dist", PLUGINS, ids=lambda dist: dist.name)
def test_the_pyproject_lists_exactly_what_the_hooks_offer(dist: Distribution) -> None:
    offered: dict[str, set[str]] = {}
    for module in dist.plugins.values():
        plugin = import_module(module)
        for role, hook in HOOKS.items():
            if names := set(getattr(plugin, hook, dict)()):
                offered.setdefault(role, set()).update(names)
    assert {role: set(names) for role, names in dist.offers.items()} == offered


def test_the_catalogue_is_what_would_be_generated_now() -> None:
    assert catalogue.render(DISTRIBUTIONS) == catalogue.TARGET.read_text(encoding="utf-8"), "run: make catalogue"


def test_two_distributions_that_offer_one_name_are_refused() -> None:
    one = next(dist for dist in PLUGINS if dist.name == "treadle-router")
    other = replace(one, pyproject=one.pyproject | {"project": {"name": "acme"}})
    with pytest.raises(ValueError, match="step_type 'router' is offered by both treadle-router and acme"):
        catalogue.catalogue([one, other])


def test_the_import_rules_know_every_package() -> None:
    linter = SETTINGS["tool"]["importlinter"]
    contracts = {contract["id"]: contract for contract in linter["contracts"]}
    plugins = [dist.import_name for dist in PLUGINS]
    libraries = [name for name in IMPORTS if name not in {"treadle", "treadle_cli", *plugins}]
    others = [name for name in IMPORTS if name != "treadle"]
    assert linter["root_packages"] == IMPORTS
    assert [name for name in contracts["kernel"]["forbidden_modules"] if name.startswith("treadle")] == others
    assert contracts["strangers"]["modules"] == plugins
    assert contracts["libraries"]["source_modules"] == libraries
    assert contracts["libraries"]["forbidden_modules"] == plugins
    assert contracts["command-line"]["forbidden_modules"] == [name for name in others if name != "treadle_cli"]
    assert contracts["contract-only"]["source_modules"] == [name for name in others if name != "treadle_cli"]


def test_the_import_rules_know_every_private_module_of_the_kernel() -> None:
    contracts = {contract["id"]: contract for contract in SETTINGS["tool"]["importlinter"]["contracts"]}
    private = {
        f"treadle.{path.stem}" for path in (ROOT / "kernel" / "src" / "treadle").glob("_*") if path.name[:2] != "__"
    }
    assert private <= set(contracts["contract-only"]["forbidden_modules"])


def test_uv_takes_every_distribution_from_the_workspace() -> None:
    sources = SETTINGS["tool"]["uv"]["sources"]
    names = {dist.name for dist in DISTRIBUTIONS if dist.folder != ROOT}
    assert sources == {name: {"workspace": True} for name in names}


def test_the_constraints_pin_everything_that_is_asked_for() -> None:
    """Exact versions only: no address, no marker, no option."""
    text = constraints.TARGET.read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    pinned = constraints.pins(text)
    external = constraints.external_requirements(DISTRIBUTIONS)
    asked = {constraints.requirement_name(requirement) for requirement in external}
    assert lines == [f"{name}=={version}" for name, version in sorted(pinned.items())]
    assert asked - set(pinned) == set(), "run: .venv/bin/python scripts/constraints.py"
    assert not {dist.name for dist in DISTRIBUTIONS} & set(pinned)


def test_defaults_do_not_include_the_local_model() -> None:
    """`pip install treadle` stays small: the runtime of a local model is 100 MB and comes by an extra."""
    meta = next(dist for dist in DISTRIBUTIONS if dist.folder == ROOT)
    assert not any(requirement.startswith("treadle-local") for requirement in meta.project["dependencies"])
    assert meta.project["optional-dependencies"]["local"] == ["treadle-local>=0.1,<0.2"]
    assert any(requirement.startswith(KERNEL) for requirement in meta.project["dependencies"])
