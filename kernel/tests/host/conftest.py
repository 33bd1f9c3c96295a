"""Distributions that are really there: a ``*.dist-info`` on the path, found as an installed one is."""

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]


class Site:
    """A folder of distributions, and programs that run with it on their path."""

    def __init__(self, root: Path) -> None:
        self.root = root / "site"
        self.root.mkdir()
        self._cache = root / "cache"

    def module(self, name: str, source: str) -> Path:
        """Write a module; dots make folders."""
        file = self.root.joinpath(*name.split(".")).with_suffix(".py")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(textwrap.dedent(source), encoding="utf-8")
        return file

    def distribution(
        self, name: str, points: dict[str, str], *, version: str = "0.9", group: str = "treadle.plugins"
    ) -> Path:
        """Install a distribution that declares the entry points."""
        info = self.root / f"{name.replace('-', '_')}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n", encoding="utf-8")
        lines = [f"[{group}]", *(f"{point} = {value}" for point, value in points.items())]
        (info / "entry_points.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
        return info

    def plugin(self, name: str, source: str, *, version: str = "0.9") -> None:
        """Install ``NAME-treadle``, whose plugin NAME is the module ``NAME_treadle``."""
        self.module(f"{name}_treadle", source)
        self.distribution(f"{name}-treadle", {name: f"{name}_treadle"}, version=version)

    def catalogue(self, entries: dict[str, dict[str, str]] | str) -> None:
        """Install a package with a catalogue."""
        if not isinstance(entries, str):
            entries = json.dumps(
                {role: {name: {"dist": dist} for name, dist in names.items()} for role, names in entries.items()}
            )
        self.module("shop.__init__", "raise AssertionError('a catalogue is read, not imported')")
        (self.root / "shop" / "catalogue.json").write_text(entries, encoding="utf-8")
        self.distribution("treadle-shop", {"shop": "shop"}, group="treadle.catalogues")

    def run(self, program: str, *arguments: str) -> Any:
        """Run a program in a fresh interpreter that sees these distributions, and give what it prints, as JSON.

        Only these: distributions of the developer's environment that offer plugins would be seen beside them, so
        the program's discovery is cut down to this folder.
        """
        prelude = (
            "import importlib.metadata as m, json, sys\n"
            f"site = {str(self.root)!r}\n"
            "ours = m.MetadataPathFinder.find_distributions\n"
            "m.MetadataPathFinder.find_distributions = classmethod(\n"
            "    lambda cls, context=m.DistributionFinder.Context():\n"
            "        ours(m.DistributionFinder.Context(name=context.name, path=[site])))\n"
            "def show(value): print(json.dumps(value))\n"
        )
        paths = os.pathsep.join([str(self.root), *(each for each in sys.path if each)])
        done = subprocess.run(
            [sys.executable, "-c", prelude + textwrap.dedent(program), *arguments],
            env={**os.environ, "PYTHONPATH": paths, "XDG_CACHE_HOME": str(self._cache)},
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        assert done.stderr == ""
        return json.loads(done.stdout)

    def reports(self, **discover: Any) -> dict[str, Any]:
        """What discovery makes of every plugin: state, error, offers and source, by name."""
        return dict(
            self.run(f"""
            from treadle import Host
            host = Host.discover(**{discover!r})
            show([
                [r.name, [r.state, r.error and str(r.error), [f"{{o.role}} {{o.name}}" for o in r.offers]]]
                for r in host.reports
            ])
        """)
        )

    def refusal(self, role: str, name: str, **discover: Any) -> str:
        """Why the host does not have what is asked for."""
        return str(
            self.run(f"""
            from treadle import Host, TreadleError
            try:
                Host.discover(**{discover!r}).load({role!r}, {name!r})
            except TreadleError as error:
                show(f"{{type(error).__name__}}: {{error}}")
        """)
        )


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)
