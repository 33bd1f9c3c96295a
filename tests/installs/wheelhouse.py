"""A folder of wheels for pip, without an index: ours built, everything else packed anew from this environment."""

from __future__ import annotations

import base64
import csv
import hashlib
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path, PurePosixPath

from packaging.requirements import Requirement

from workspace import Distribution, distributions

__all__ = ["BUILD", "Environment", "Wheelhouse", "build", "canonical"]

# The hooks that pip itself calls (PEP 517), without pip's isolated environment around them: a tenth of the time.
BUILD = "import sys; from hatchling import build; print(getattr(build, 'build_' + sys.argv[1])(sys.argv[2]))"


def canonical(name: str) -> str:
    """A distribution's name as the packaging specifications normalize it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def build(folder: Path, target: Path, kind: str = "wheel") -> Path:
    """Build a ``wheel`` or an ``sdist`` of the project in ``folder``; the file made."""
    done = subprocess.run(
        [sys.executable, "-c", BUILD, kind, str(target)], cwd=folder, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return target / done.stdout.split()[-1]


class Wheelhouse:
    """Wheels of our distributions, and of what they and the tests of plugins need."""

    # What strangers' packages are built and tested with.
    TOOLS = ("editables", "hatchling", "pytest", "pytest-trio")

    def __init__(self, folder: Path, *, roots: Iterable[str] = ()) -> None:
        """
        :param roots: our distributions whose dependencies are packed too; all ours are built anyway.
        """
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        own = {dist.name: dist for dist in distributions()}
        for dist in own.values():
            build(dist.folder, folder)
        asked = [requirement for name in roots for requirement in _asked(own, name)]
        for name in sorted(_closure([*asked, *self.TOOLS], own)):
            _pack(metadata.distribution(name), folder)

    def pip_settings(self) -> dict[str, str]:
        """Variables by which pip takes wheels from here and from nowhere else."""
        return {
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": str(self.folder),
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "PIP_NO_COMPILE": "1",
            "PIP_NO_BUILD_ISOLATION": "0",  # sic: pip reads it as the value of --build-isolation
            "PIP_CONFIG_FILE": os.devnull,
        }


@dataclass(frozen=True)
class Environment:
    """A virtual environment, and how to run programs in it."""

    folder: Path
    variables: dict[str, str]

    @property
    def binaries(self) -> Path:
        """Where its programs are."""
        return self.folder / "bin"

    def run(self, program: str, *arguments: str, cwd: Path, exit_code: int | None = 0) -> str:
        """Run a program of it and give what it prints, stderr included.

        :raises AssertionError: it exits with another code; None allows any.
        """
        done = subprocess.run(
            [self.binaries / program, *arguments],
            cwd=cwd,
            env=self.variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
            timeout=300,
        )
        words = " ".join((program, *arguments))
        assert exit_code is None or done.returncode == exit_code, f"{words} exited {done.returncode}:\n{done.stdout}"
        return done.stdout

    def names(self) -> set[str]:
        """The distributions that are installed in it."""
        code = "import importlib.metadata as m; print(*(each.metadata['Name'] for each in m.distributions()))"
        return {canonical(name) for name in self.run("python", "-c", code, cwd=self.folder).split()}


def _asked(own: dict[str, Distribution], name: str) -> list[str]:
    """What one of our distributions needs of others, through ours."""
    found: list[str] = []
    for requirement in own[name].project.get("dependencies", []):
        other = canonical(Requirement(requirement).name)
        found += _asked(own, other) if other in own else [requirement]
    return found


def _closure(requirements: Iterable[str], own: Iterable[str]) -> set[str]:
    """The names of everything that the requirements need, themselves included."""
    found: set[str] = set()
    pending = [(Requirement(each), "") for each in requirements]
    seen: set[tuple[str, str]] = set()
    while pending:
        requirement, extra = pending.pop()
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": extra}):
            continue
        name = canonical(requirement.name)
        if name in own:
            continue
        found.add(name)
        for wanted in ("", *requirement.extras):
            if (name, wanted) not in seen:
                seen.add((name, wanted))
                pending += [(Requirement(each), wanted) for each in metadata.requires(name) or ()]
    return found


def _pack(dist: metadata.Distribution, folder: Path) -> None:
    """Write the wheel that an installed distribution came from, without its programs: pip makes those anew."""
    info = next(path.parts[0] for path in dist.files or () if path.parts[0].endswith(".dist-info"))
    tags = [line.partition(":")[2].strip() for line in (dist.read_text("WHEEL") or "").splitlines() if "Tag:" in line]
    stem = info.removesuffix(".dist-info")
    rows: list[tuple[str, str, str]] = []
    with zipfile.ZipFile(folder / f"{stem}-{_merged(tags)}.whl", "w") as archive:
        for name, source in _kept(dist, info):
            data = source.read_bytes()
            archive.writestr(name, data)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            rows.append((name, f"sha256={digest}", str(len(data))))
        record = _Lines()
        csv.writer(record, lineterminator="\n").writerows([*rows, (f"{info}/RECORD", "", "")])
        archive.writestr(f"{info}/RECORD", "".join(record))


class _Lines(list[str]):
    """A list that csv can write to."""

    def write(self, text: str) -> None:
        self.append(text)


def _kept(dist: metadata.Distribution, info: str) -> Iterator[tuple[str, Path]]:
    own = {"RECORD", "INSTALLER", "REQUESTED", "direct_url.json"}
    for path in dist.files or ():
        name = PurePosixPath(path).as_posix()
        if ".." in path.parts or "__pycache__" in path.parts or path.suffix == ".pyc":
            continue
        if path.parts[0] == info and path.name in own:
            continue
        source = Path(str(dist.locate_file(path)))
        if source.is_file():
            yield name, source


def _merged(tags: list[str]) -> str:
    """Tags as a file name writes them: ``py2-none-any`` and ``py3-none-any`` are ``py2.py3-none-any``."""
    parts = [sorted(set(each)) for each in zip(*(tag.split("-") for tag in tags), strict=True)]
    return "-".join(".".join(each) for each in parts)
