"""The first-party distributions of this repository, and the shape that each one's pyproject.toml must have.

As a script: prints what is wrong with any of them and exits 1, or prints how many were checked.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
META = "treadle"
KERNEL = "treadle-kernel"

# What an offer can serve as: `treadle.contracts.offers.Role`, which a test compares with this list.
ROLES = frozenset(
    {
        "attachment_fetcher",
        "budget",
        "config_field",
        "journal",
        "memory",
        "observer",
        "price_source",
        "provider",
        "provider_layer",
        "recorder",
        "sandbox",
        "step_type",
        "token_counter",
        "tool",
        "trim_policy",
    }
)


@dataclass(frozen=True, slots=True)
class Distribution:
    """One distribution: the folder of its pyproject.toml, and what that says."""

    folder: Path
    pyproject: dict[str, Any]

    @property
    def project(self) -> dict[str, Any]:
        table: dict[str, Any] = self.pyproject.get("project", {})
        return table

    @property
    def name(self) -> str:
        """The distribution's name; the folder's where the file gives none."""
        return str(self.project.get("name", self.folder.name))

    @property
    def import_name(self) -> str | None:
        """The package it is imported as; None for the meta distribution, which has no code."""
        if self.folder == ROOT:
            return None
        return "treadle" if self.name == KERNEL else self.name.replace("-", "_")

    @property
    def package(self) -> Path | None:
        """The folder of its package."""
        return self.folder / "src" / self.import_name if self.import_name else None

    @property
    def offers(self) -> dict[str, list[str]]:
        """`[tool.treadle.offers]`: names by role."""
        table: dict[str, list[str]] = self.pyproject.get("tool", {}).get("treadle", {}).get("offers", {})
        return table

    @property
    def commands(self) -> dict[str, str]:
        """Its entry points of the group `treadle.commands`."""
        table: dict[str, str] = self.project.get("entry-points", {}).get("treadle.commands", {})
        return table

    @property
    def plugins(self) -> dict[str, str]:
        """Its entry points of the group `treadle.plugins`."""
        table: dict[str, str] = self.project.get("entry-points", {}).get("treadle.plugins", {})
        return table


def distributions(root: Path = ROOT) -> list[Distribution]:
    """Every first-party distribution: the meta distribution, kernel, cli, then the plugins by name.

    A folder of `plugins/` whose name begins with an underscore is not one of ours (the template).
    """
    plugins = sorted(path.parent for path in root.glob("plugins/[!_]*/pyproject.toml"))
    return [
        Distribution(folder, tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8")))
        for folder in (root, root / "kernel", root / "cli", *plugins)
    ]


def shape_problems(dist: Distribution) -> Iterator[str]:
    """What in a distribution's pyproject.toml is not as it must be, one sentence each."""
    yield from _project_problems(dist)
    yield from _dependency_problems(dist)
    if dist.folder != ROOT:
        yield from _package_problems(dist)
        yield from _offer_problems(dist)


def _project_problems(dist: Distribution) -> Iterator[str]:
    project = dist.project
    expected_name = {ROOT: META, ROOT / "kernel": KERNEL, ROOT / "cli": "treadle-cli"}.get(
        dist.folder, dist.folder.name.replace("_", "-")
    )
    build = dist.pyproject.get("build-system")
    if build != {"requires": ["hatchling"], "build-backend": "hatchling.build"}:
        yield "build-system is not hatchling alone"
    for key, expected in (
        ("name", expected_name),
        ("readme", "README.md"),
        ("requires-python", ">=3.11"),
        ("license", "Apache-2.0"),
    ):
        if project.get(key) != expected:
            yield f"project.{key} is {project.get(key)!r}, not {expected!r}"
    if not re.fullmatch(r"\d+\.\d+\.\d+", str(project.get("version", ""))):
        yield f"project.version is {project.get('version')!r}, not three numbers"
    description = str(project.get("description", ""))
    if not description or "\n" in description or description.endswith("."):
        yield "project.description is not one line without a full stop"
    if not (dist.folder / "README.md").is_file():
        yield "README.md is missing"


def _dependency_problems(dist: Distribution) -> Iterator[str]:
    listed = list(dist.project.get("dependencies", []))
    for extra in dist.project.get("optional-dependencies", {}).values():
        listed += extra
    for requirement in listed:
        if "@" in requirement:
            yield f"dependency {requirement!r} is an address"
        if requirement.startswith(META) and not re.fullmatch(r"treadle-[a-z-]+>=\d+\.\d+,<\d+\.\d+", requirement):
            yield f"dependency {requirement!r} is not bounded as 'treadle-NAME>=X.Y,<X.Z'"
    if dist.name != KERNEL and not any(requirement.startswith(KERNEL) for requirement in listed):
        yield f"it does not depend on {KERNEL}"


def _package_problems(dist: Distribution) -> Iterator[str]:
    wheel = dist.pyproject.get("tool", {}).get("hatch", {}).get("build", {}).get("targets", {}).get("wheel", {})
    if wheel.get("packages") != [f"src/{dist.import_name}"]:
        yield f"tool.hatch.build.targets.wheel.packages is not ['src/{dist.import_name}']"
    assert dist.package is not None
    for name in ("__init__.py", "py.typed"):
        if not (dist.package / name).is_file():
            yield f"src/{dist.import_name}/{name} is missing"
    for name, module in dist.plugins.items():
        if module != f"{dist.import_name}.plugin":
            yield f"entry point {name} is {module!r}, not '{dist.import_name}.plugin'"
        elif not (dist.package / "plugin.py").is_file():
            yield f"src/{dist.import_name}/plugin.py is missing"


def _offer_problems(dist: Distribution) -> Iterator[str]:
    if bool(dist.offers) != bool(dist.plugins):
        yield "it has entry points in treadle.plugins or [tool.treadle.offers], but not both"
    for role, names in dist.offers.items():
        if role not in ROLES:
            yield f"tool.treadle.offers.{role} is no role; the roles are {', '.join(sorted(ROLES))}"
        if not names or len(set(names)) != len(names):
            yield f"tool.treadle.offers.{role} is empty or repeats a name"


def main() -> int:
    found = distributions()
    problems = [
        f"{(dist.folder / 'pyproject.toml').relative_to(ROOT)}: {problem}"
        for dist in found
        for problem in shape_problems(dist)
    ]
    print("\n".join(problems) if problems else f"{len(found)} pyprojects have the required shape")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
